"""What a recipe will cost: steps, tokens, FLOP, disk, memory and hours.

The hours of this machine come from the real thing, run for about half a minute on a sample: the same stage,
the same batches, the same precision. Those of other hardware are its peak rate times a share that is assumed
and shown.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import math
import os
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import TrainingArguments

from understudy.augmentation.replace import Question
from understudy.augmentation.run import augment_rows, write_shard
from understudy.data.corpus import TRAIN, BlockMaker, block_counts, hash_documents, write_blocks
from understudy.data.documents import find_files, read_documents, split_files
from understudy.data.load import CACHE_VARIABLE, load_data
from understudy.errors import RecipeError
from understudy.models.flop import forward_flop
from understudy.models.layer_map import layer_map
from understudy.models.pretrained import load_config, load_tokenizer
from understudy.recipe.distillation import IntermediateSettings
from understudy.recipe.load import load_recipe
from understudy.recipe.recipe import STAGES, Recipe
from understudy.stages.augment import ROWS_PER_SHARD, ShardMaker
from understudy.stages.finetune import make_trainer, start_model
from understudy.stages.general import learn_general, prepare_general
from understudy.stages.intermediate import distill_intermediate
from understudy.stages.methods import Run, main_block, preflight, teach, with_answers
from understudy.stages.result import INTERMEDIATE, RESULT, hash_model, resolve_paths, versions
from understudy.stages.teacher_cache import autocast_dtype
from understudy.stages.training import (
    Prepared,
    choose_on_dev,
    prepare,
    start_student,
    train_to_the_end,
    whole_batch,
)
from understudy.training.arguments import build_arguments
from understudy.training.cpu import tune_cpu

# Peaks of dense bf16 and of fp32 by the makers' sheets, and the share of them that training of small encoders
# is assumed to reach. The laptop: 8 cores × 3 GHz × 32 fp32 operations a cycle (two AVX2 units).
HARDWARE: Mapping[str, tuple[float, float, float]] = {
    "H100": (989e12, 67e12, 0.3),
    "A100": (312e12, 19.5e12, 0.4),
    "laptop": (0.77e12, 0.77e12, 0.3),
}
_BYTES_OF_A_PARAMETER = {"weights": 4, "checkpoint": 12, "training": 16}  # fp32; Adam keeps two more
_FEWEST_STEPS = 4


@dataclasses.dataclass(frozen=True)
class Part:
    """Some of a run's work.

    Attributes:
        steps: of the optimiser; 0 where there is none.
        tokens: that go through the models, over all steps and trials.
        seconds: on this machine.
    """

    name: str
    steps: int
    tokens: float
    flop: float
    seconds: float


@dataclasses.dataclass(frozen=True)
class Cost:
    """A run's parts, the bytes it needs on disk (at most, and when it is done) and for its weights, and
    whether its products are of 16 bits."""

    parts: list[Part]
    disk: dict[str, float]
    weights: float
    is_half: bool = False


def plan(
    recipe: str | Path,
    *,
    settings: Sequence[str] | Mapping[str, Any] = (),
    seconds: float = 30.0,
) -> dict[str, Any]:
    """What a recipe will cost, before it runs.

    Args:
        recipe: a shipped name or a file, of any stage; it must say its models and data.
        settings: over the recipe, e.g. `{"teacher": "teachers/mrpc"}`.
        seconds: of measuring, about.

    Example:
        >>> understudy.plan("students/mrpc/recipe.yaml")["hours"]      # doctest: +SKIP
        {'this machine': 0.21, 'H100': …, 'A100': …, 'laptop': …}
    """
    return plan_from_recipe(load_recipe(recipe, settings), seconds=seconds)


def plan_from_recipe(recipe: Recipe, *, seconds: float = 30.0) -> dict[str, Any]:
    """What a recipe will cost; see `plan`."""
    recipe = resolve_paths(recipe)
    tune_cpu()
    with tempfile.TemporaryDirectory(prefix="understudy-plan-") as folder:
        cost = _measure(recipe, Path(folder), seconds)
    total = {name: sum(getattr(part, name) for part in cost.parts) for name in ("steps", "tokens", "flop")}
    here = sum(part.seconds for part in cost.parts) / 3600
    assumed: dict[str, dict[str, Any]] = {
        name: {
            "precision": "bf16" if cost.is_half else "fp32",
            "flop_per_second": half if cost.is_half else full,
        }
        | {"share": share}
        for name, (half, full, share) in HARDWARE.items()
    }
    return {
        "stage": "plan",
        "parts": [dataclasses.asdict(part) for part in cost.parts],
        **total,
        "disk": cost.disk,
        "memory": {"weights": cost.weights, "measured": _peak_memory()},
        "hours": {"this machine": here}
        | {
            name: total["flop"] / (one["flop_per_second"] * one["share"]) / 3600
            for name, one in assumed.items()
        },
        "assumed": assumed,
        "versions": versions(),
    }


def _measure(recipe: Recipe, folder: Path, seconds: float) -> Cost:
    if recipe.augment is not None:
        return _augmentation(recipe, folder, seconds)
    if recipe.run == "corpus":
        return _corpus(recipe, folder, seconds)
    if recipe.run == "general":
        return _general(recipe, folder, seconds)
    if recipe.run is None:
        return _finetuning(recipe, folder, seconds)
    return _distillation(recipe, folder, seconds)


def _peak_memory() -> float:
    """Of this process so far, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(peak if sys.platform == "darwin" else peak * 1024)


# Training


def _short(training: Mapping[str, Any], steps: int) -> dict[str, Any]:
    """A training block for so many steps and nothing beside them."""
    quiet = {"save_strategy": "no", "eval_strategy": "no", "report_to": "none", "disable_tqdm": True}
    left_out = ("load_best_model_at_end", "eval_steps", "save_steps", "num_train_epochs")
    kept = {name: value for name, value in training.items() if name not in left_out}
    return {**kept, **quiet, "max_steps": steps}


def _time_steps(run: Callable[[int], float], seconds: float) -> tuple[int, float]:
    """Run a few steps, and then as many as fill the time; how many, and the seconds they took."""
    steps, taken = _FEWEST_STEPS, run(_FEWEST_STEPS)
    assert taken > 0
    wanted = math.ceil(seconds * steps / taken)
    return (wanted, run(wanted)) if wanted > steps else (steps, taken)


def _num_steps(arguments: TrainingArguments, num_rows: int) -> int:
    """Of an ordinary training run."""
    if arguments.max_steps > 0:
        return int(arguments.max_steps)
    per_process = arguments.train_batch_size * arguments.world_size
    an_epoch = math.ceil(math.ceil(num_rows / per_process) / arguments.gradient_accumulation_steps)
    return int(-(-an_epoch * arguments.num_train_epochs // 1))


def _is_half(arguments: TrainingArguments) -> bool:
    return autocast_dtype(arguments) != torch.float32


def _checkpoints(parameters: int, arguments: TrainingArguments) -> float:
    """The most bytes that checkpoints take: those that are kept, and the one being written."""
    if arguments.save_strategy == "no":
        return 0.0
    kept = arguments.save_total_limit
    if kept is None:  # all of them, of a run by steps
        kept = max(1, int(arguments.max_steps // max(1, arguments.save_steps)))
    return (1 + kept) * parameters * _BYTES_OF_A_PARAMETER["checkpoint"]


def _training_disk(parameters: int, arguments: TrainingArguments) -> dict[str, float]:
    done = parameters * _BYTES_OF_A_PARAMETER["weights"]
    return {"at most": done + _checkpoints(parameters, arguments), "when done": done}


def _general(recipe: Recipe, folder: Path, seconds: float) -> Cost:
    run = prepare_general(recipe, folder)
    assert recipe.general is not None
    settings = recipe.general
    tokens = run.corpus["corpus"]["tokens"][TRAIN] * run.num_epochs
    length = tokens / len(run.rows.train)

    def learn(steps: int) -> float:
        short = settings.model_copy(update={"training": _short(settings.training, steps)})
        small = prepare_general(recipe.model_copy(update={"general": short}), folder)
        rows = dataclasses.replace(small.rows, held_out=())
        learnt = learn_general(dataclasses.replace(small, rows=rows), folder)
        return float(learnt["seconds"]["training"])

    steps, taken = _time_steps(learn, seconds)
    each = taken / steps
    flop = _layer_flop(settings, run.student.config, run.teacher.config, length)
    part = Part("general", run.arguments.max_steps, tokens, tokens * flop, each * run.arguments.max_steps)
    parameters = run.student.num_parameters()
    weights = parameters * _BYTES_OF_A_PARAMETER["training"] + run.teacher.num_parameters() * 4
    return Cost([part], _training_disk(parameters, run.arguments), weights, _is_half(run.arguments))


def _layer_flop(settings: IntermediateSettings, student: Any, teacher: Any, length: float) -> float:
    """Of a token: the teacher as deep as it is run, and the student forward and backward."""
    taught = layer_map(settings.layer_map, student.num_hidden_layers, teacher.num_hidden_layers)
    depth = min(max(taught) + 1, teacher.num_hidden_layers)
    return forward_flop(teacher, length, num_layers=depth) + 3 * forward_flop(student, length)


def _sample(prepared: Prepared, num_rows: int) -> Prepared:
    """Some of a task's rows, drawn at random: as many batches as are trained, so that each is seen once."""
    chosen = np.random.default_rng(0).permutation(len(prepared.train))[:num_rows]
    first = next(iter(prepared.dev))
    dev = prepared.first_dev
    few_rows = dev.rows.select(range(min(_DEV_ROWS, len(dev.rows))))
    wanted = set(few_rows["row"][:])
    places = [place for place, row in enumerate(dev.encoded["row"][:]) if row in wanted]
    few = dataclasses.replace(dev, rows=few_rows, encoded=dev.encoded.select(places))
    return dataclasses.replace(prepared, train=prepared.train.select(chosen), dev={first: few})


_DEV_ROWS = 8


def _task_part(
    name: str,
    prepared: Prepared,
    trials: Sequence[TrainingArguments],
    seconds_of_a_row: float,
    flop_of_a_token: Callable[[float], float],
) -> Part:
    """A stage on a task's rows; what a row costs does not depend on the batch it is in."""
    steps = [_num_steps(arguments, len(prepared.train)) for arguments in trials]
    rows = sum(count * whole_batch(arguments) for count, arguments in zip(steps, trials, strict=True))
    length = _mean_length(prepared)
    tokens = rows * length
    shown = f"{name}, {len(trials)} trials" if len(trials) > 1 else name
    return Part(shown, sum(steps), tokens, tokens * flop_of_a_token(length), rows * seconds_of_a_row)


def _mean_length(prepared: Prepared) -> float:
    return float(np.mean(prepared.train["length"][:]))


def _finetuning(recipe: Recipe, folder: Path, seconds: float) -> Cost:
    if recipe.model is None:
        raise RecipeError("model must be given: a folder or a hub name, e.g. --set model=bert-base-uncased.")
    arguments = build_arguments(choose_on_dev(recipe.training, recipe.task_row), folder)
    prepared = prepare(recipe, recipe.model, arguments)
    batch = whole_batch(arguments)

    def learn(steps: int) -> float:
        short = build_arguments(_short(recipe.training, steps), folder)
        model = start_model(recipe, prepared, short)
        trainer = make_trainer(model, _sample(prepared, steps * batch), short)
        return float(train_to_the_end(trainer).metrics["train_runtime"])

    steps, taken = _time_steps(learn, seconds)
    model = start_model(recipe, prepared, arguments)
    part = _task_part(
        "fine-tuning",
        prepared,
        [arguments],
        taken / (steps * batch),
        lambda length: 3 * forward_flop(model.config, length),
    )
    parameters = model.num_parameters()
    weights = parameters * _BYTES_OF_A_PARAMETER["training"]
    return Cost([part], _training_disk(parameters, arguments), weights, _is_half(arguments))


def _distillation(recipe: Recipe, folder: Path, seconds: float) -> Cost:
    if recipe.soft_labels is not None and recipe.soft_labels.predictions is not None:
        raise RecipeError(
            "a recipe with soft_labels.predictions cannot be planned: a sample is not the file's."
        )
    if recipe.teacher is None:
        raise RecipeError("teacher must be given: a folder or a hub name, e.g. --set teacher=teachers/mrpc.")
    arguments = build_arguments(main_block(recipe).training, folder)
    prepared = prepare(recipe, recipe.reader, arguments)
    run = Run(recipe, prepared, folder, hash_model(recipe.teacher))
    preflight(run)
    teacher_config = load_config(recipe.teacher)
    student, _ = start_student(recipe, prepared, arguments, sample_rows=1)
    stages = _stages(recipe)
    parts = _answers(run, teacher_config, folder)
    for name, choices in stages.items():
        short = _only_stage(recipe, name, choices[0])
        batch = whole_batch(build_arguments(choices[0].training, folder))
        attempts = itertools.count()

        def learn(
            steps: int, name: str = name, short: Recipe = short, batch: int = batch, attempts: Any = attempts
        ) -> float:
            block = getattr(short, name)
            block = block.model_copy(update={"training": _short(block.training, steps)})
            small = dataclasses.replace(
                run,
                recipe=short.model_copy(update={name: block}),
                prepared=_sample(prepared, steps * batch),
                output_dir=folder / f"{name}-{next(attempts)}",
            )
            if name == INTERMEDIATE:
                distill_intermediate(small.recipe, block, small.prepared, small.output_dir / INTERMEDIATE)
            else:
                with _own_cache(folder):
                    teach(small)
            result = small.output_dir / name.replace("_", "-") / RESULT
            return float(json.loads(result.read_text("utf-8"))["seconds"]["training"])

        steps, taken = _time_steps(learn, seconds / len(stages))

        def flop(length: float, settings: Any = choices[0]) -> float:
            if isinstance(settings, IntermediateSettings):
                return _layer_flop(settings, student.config, teacher_config, length)
            return 3 * forward_flop(student.config, length)

        trials = [build_arguments(choice.training, folder) for choice in choices]
        parts.append(_task_part(name.replace("_", " "), prepared, trials, taken / (steps * batch), flop))
    parameters = student.num_parameters()
    weights = parameters * _BYTES_OF_A_PARAMETER["training"] + run.load_teacher().num_parameters() * 4
    # The student of each stage stays, and the last one's lies above them once more.
    disk = _training_disk(parameters, arguments)
    left = parameters * _BYTES_OF_A_PARAMETER["weights"] * len(stages)
    return Cost(parts, {name: value + left for name, value in disk.items()}, weights, _is_half(arguments))


def _stages(recipe: Recipe) -> dict[str, list[Any]]:
    """The stages that are trained, each with every combination of values it is trained with."""
    names = [name for name in STAGES if getattr(recipe, name) is not None]
    if recipe.method == "patient" and not (recipe.soft_labels and recipe.soft_labels.search):
        names = ["patient"]  # soft labels are trained by themselves to be searched alone
    return {name: list(_choices(getattr(recipe, name))) for name in names}


def _choices(block: Any) -> Iterator[Any]:
    search = getattr(block, "search", {})
    for values in itertools.product(*search.values()):
        chosen = block.choose(dict(zip(search, values, strict=True))) if search else block
        yield chosen.model_copy(update={"search": {}}) if search else chosen


def _only_stage(recipe: Recipe, name: str, block: Any) -> Recipe:
    """A recipe of one stage of another's."""
    changed: dict[str, Any] = {other: None for other in ("intermediate", "patient") if other != name}
    if name == "soft_labels":
        changed["method"] = "soft-labels"
    elif recipe.soft_labels is not None:
        changed["soft_labels"] = next(iter(_choices(recipe.soft_labels)))
    return recipe.model_copy(update={**changed, name: block})


def _answers(run: Run, teacher_config: Any, folder: Path) -> list[Part]:
    """The teacher's pass over the training set, and both models' over the development sets."""
    prepared = run.prepared

    def ask(num_rows: int) -> float:
        small = dataclasses.replace(run, prepared=_sample(prepared, num_rows))
        started = time.perf_counter()
        with _own_cache(folder):
            with_answers(small, main_block(run.recipe))
        return time.perf_counter() - started

    # The difference: loading the teacher is not a row's cost.
    few, many = (min(count, len(prepared.train)) for count in (_BATCH_OF_ROWS, 5 * _BATCH_OF_ROWS))
    taken = {count: ask(count) for count in sorted({few, many})}
    each = max(0.0, taken[many] - taken[few]) / (many - few) if many > few else taken[few] / few
    length = _mean_length(prepared)
    flop = forward_flop(teacher_config, length)
    num_dev = sum(len(split.encoded) for split in prepared.dev.values())
    rows = {"the teacher's answers": len(prepared.train), "scoring": 2 * num_dev}
    return [
        Part(name, 0, count * length, count * length * flop, count * each) for name, count in rows.items()
    ]


_BATCH_OF_ROWS = 64


@contextlib.contextmanager
def _own_cache(folder: Path) -> Iterator[None]:
    """A teacher is asked anew, and what it says of a sample is kept for nobody."""
    before = os.environ.get(CACHE_VARIABLE)
    os.environ[CACHE_VARIABLE] = str(folder / "cache")
    try:
        yield
    finally:
        if before is None:
            del os.environ[CACHE_VARIABLE]
        else:
            os.environ[CACHE_VARIABLE] = before


# General text and augmentation


def _corpus(recipe: Recipe, folder: Path, seconds: float) -> Cost:
    settings = recipe.corpus
    assert settings is not None
    if not settings.sources or settings.tokenizer is None:
        raise RecipeError("corpus.sources and corpus.tokenizer must be given.")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # as the real one
    files = find_files(settings.sources)
    maker = BlockMaker(load_tokenizer(settings.tokenizer), settings.max_length, pairs=settings.pairs)
    small = split_files(files, _PIECE_BYTES)
    total = sum(piece.num_bytes for piece in small)
    started, read, tokens, written = time.perf_counter(), 0, 0, 0
    for number in np.random.default_rng(0).permutation(len(small)).tolist():
        if time.perf_counter() - started > seconds:
            break
        texts = [text for text in read_documents(small[number], settings.column) if text is not None]
        hash_documents(texts)
        path = folder / f"{number}.arrow"
        write_blocks(path, maker(texts, np.random.default_rng(0)), maker, Counter())
        read += small[number].num_bytes
        tokens += block_counts(path)["tokens"]
        written += path.stat().st_size
    share = total / max(1, read)
    taken = (time.perf_counter() - started) * share
    disk = {"at most": written * share, "when done": written * share}
    return Cost([Part("corpus, one process", 0, tokens * share, 0.0, taken)], disk, 0.0)


_PIECE_BYTES = 1_000_000


def _augmentation(recipe: Recipe, folder: Path, seconds: float) -> Cost:
    settings = recipe.augment
    assert settings is not None
    if settings.model is None:
        raise RecipeError("augment.model must be given: a folder or a hub name of a masked language model.")
    data = load_data(recipe.task_row, recipe.data, ["train"])
    num_rows = len(data.splits["train"])
    maker = ShardMaker(recipe, data, ROWS_PER_SHARD)
    asked = Counter[str]()

    def ask(questions: Iterable[Question]) -> Mapping[Question, Sequence[str]]:
        questions = list(questions)
        inputs = maker.ask.masked_words.mask(questions) if questions else []
        asked.update(passes=len(inputs), tokens=sum(len(ids) for ids, _ in inputs))
        return maker.ask(questions)

    def augment(count: int) -> tuple[float, float]:
        asked.clear()
        chosen = np.random.default_rng(0).permutation(num_rows)[:count].tolist()
        started = time.perf_counter()
        made, counts = augment_rows(
            list(maker.rows(chosen)), recipe.task_row.kind, settings, recipe.seed, ask
        )
        write_shard(folder / "rows.parquet", made, maker.schema, counts)
        return time.perf_counter() - started, (folder / "rows.parquet").stat().st_size

    count = min(num_rows, _FEW_ROWS)
    taken, size = augment(count)
    wanted = min(num_rows, ROWS_PER_SHARD, int(count * seconds / taken))
    if wanted > count:
        count = wanted
        taken, size = augment(count)
    share = num_rows / count
    tokens = asked["tokens"] * share
    config = maker.ask.masked_words.model.config
    length = asked["tokens"] / max(1, asked["passes"])
    head = 2 * config.hidden_size * config.vocab_size * asked["passes"] * share  # at the masks alone
    part = Part("augmentation", 0, tokens, tokens * forward_flop(config, length) + head, taken * share)
    weights = maker.ask.masked_words.model.num_parameters() * 4.0
    return Cost([part], {"at most": size * share, "when done": size * share}, weights, settings.bf16)


_FEW_ROWS = 16
