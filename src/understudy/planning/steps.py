"""The cost of training, extrapolated from a short real run on a sample."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import TrainingArguments

from understudy.data.corpus import TRAIN
from understudy.data.load import CACHE_VARIABLE
from understudy.distillation.general_text import learn_general, prepare_general
from understudy.distillation.layers import distill_intermediate
from understudy.distillation.methods import (
    Distillation,
    check_distillation,
    main_block,
    places_that_are_read,
    teach,
    with_answers,
)
from understudy.distillation.rows import Prepared, prepare, start_student
from understudy.distillation.runs import choose_on_dev, train_to_the_end, whole_batch
from understudy.distillation.teachers import make_trainer, start_model
from understudy.errors import RecipeError
from understudy.models.cut import saved_cut
from understudy.models.flop import forward_flop
from understudy.models.layer_map import layer_map
from understudy.models.pretrained import load_config
from understudy.planning.cost import Cost, Part
from understudy.recipe.distillation import JointSettings, LayerSettings, TrialSettings
from understudy.recipe.recipe import STAGES, Recipe
from understudy.training.arguments import build_arguments
from understudy.training.trainer import autocast_dtype
from understudy.workspace.folders import INTERMEDIATE, RESULT
from understudy.workspace.hashes import hash_model

_BYTES_OF_A_PARAMETER = {"weights": 4, "checkpoint": 12, "training": 16}  # fp32, plus Adam's two moments
_FEWEST_STEPS = 4


def _short(training: Mapping[str, Any], steps: int) -> dict[str, Any]:
    """Return a training block for this many steps, without saving, evaluation or tracking."""
    quiet = {"save_strategy": "no", "eval_strategy": "no", "report_to": "none", "disable_tqdm": True}
    left_out = ("load_best_model_at_end", "eval_steps", "save_steps", "num_train_epochs")
    kept = {name: value for name, value in training.items() if name not in left_out}
    return {**kept, **quiet, "max_steps": steps}


def _time_steps(run: Callable[[int], float], seconds: float) -> tuple[int, float]:
    """Run a few steps, then as many as fill the time; return how many, and the seconds they took."""
    steps, taken = _FEWEST_STEPS, run(_FEWEST_STEPS)
    assert taken > 0
    wanted = math.ceil(seconds * steps / taken)
    return (wanted, run(wanted)) if wanted > steps else (steps, taken)


def num_steps(arguments: TrainingArguments, num_rows: int) -> int:
    """Return the number of steps of an ordinary training run."""
    if arguments.max_steps > 0:
        return int(arguments.max_steps)
    per_process = arguments.train_batch_size * arguments.world_size
    an_epoch = math.ceil(math.ceil(num_rows / per_process) / arguments.gradient_accumulation_steps)
    steps: int = math.ceil(an_epoch * arguments.num_train_epochs)
    return steps


def _is_half(arguments: TrainingArguments) -> bool:
    return autocast_dtype(arguments) != torch.float32


def _checkpoints(parameters: int, arguments: TrainingArguments) -> float:
    """Return the peak size of checkpoints in bytes: those that are kept, and the one being written."""
    if arguments.save_strategy == "no":
        return 0.0
    kept = arguments.save_total_limit
    if kept is None:  # keeps all of them, if saved by steps
        kept = max(1, int(arguments.max_steps // max(1, arguments.save_steps)))
    return (1 + kept) * parameters * _BYTES_OF_A_PARAMETER["checkpoint"]


def _training_disk(parameters: int, arguments: TrainingArguments) -> dict[str, float]:
    done = parameters * _BYTES_OF_A_PARAMETER["weights"]
    return {"at most": done + _checkpoints(parameters, arguments), "when done": done}


def cost_of_general(recipe: Recipe, folder: Path, seconds: float) -> Cost:
    """Estimate general distillation on a corpus."""
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


def _layer_flop(settings: LayerSettings, student: Any, teacher: Any, length: float) -> float:
    """Return the FLOP per token: the teacher's layers that are run, and the student forward and backward."""
    taught = layer_map(settings.layer_map, student.num_hidden_layers, teacher.num_hidden_layers)
    is_whole = isinstance(settings, JointSettings)  # its predictions are needed too
    depth = teacher.num_hidden_layers if is_whole else min(max(taught) + 1, teacher.num_hidden_layers)
    return forward_flop(teacher, length, num_layers=depth) + 3 * forward_flop(student, length)


def _sample(prepared: Prepared, num_rows: int) -> Prepared:
    """Draw a random sample of a task's rows, as many as are trained on, so that each is seen once."""
    chosen = np.sort(np.random.default_rng(0).permutation(len(prepared.train))[:num_rows])
    num_labelled = int((chosen < prepared.num_labelled).sum())
    first = next(iter(prepared.dev))
    dev = prepared.first_dev
    few_rows = dev.rows.select(range(min(_DEV_ROWS, len(dev.rows))))
    wanted = set(few_rows["row"][:])
    places = [place for place, row in enumerate(dev.encoded["row"][:]) if row in wanted]
    few = dataclasses.replace(dev, rows=few_rows, encoded=dev.encoded.select(places))
    return dataclasses.replace(
        prepared,
        train=prepared.train.select(chosen),
        dev={first: few},
        num_labelled=num_labelled,
        places=None,
    )


_DEV_ROWS = 8


def _task_part(
    name: str,
    prepared: Prepared,
    trials: Sequence[TrainingArguments],
    seconds_of_a_row: float,
    flop_of_a_token: Callable[[float], float],
    unit: str = "trials",
) -> Part:
    """Estimate a stage on a task's rows; the cost of a row does not depend on its batch."""
    steps = [num_steps(arguments, len(prepared.epoch)) for arguments in trials]
    rows = sum(count * whole_batch(arguments) for count, arguments in zip(steps, trials, strict=True))
    length = _mean_length(prepared)
    tokens = rows * length
    shown = f"{name}, {len(trials)} {unit}" if len(trials) > 1 else name
    return Part(shown, sum(steps), tokens, tokens * flop_of_a_token(length), rows * seconds_of_a_row)


def _mean_length(prepared: Prepared) -> float:
    return float(np.mean(prepared.train["length"][:]))


def cost_of_finetuning(recipe: Recipe, folder: Path, seconds: float) -> Cost:
    """Estimate fine-tuning a teacher."""
    assert recipe.model is not None  # the recipe was checked
    arguments = build_arguments(choose_on_dev(recipe.training, recipe.task_definition), folder)
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
        [arguments] * (1 + (recipe.folds or 0)),
        taken / (steps * batch),
        functools.partial(_learning_flop, model.config),
        "teachers",
    )
    parameters = model.num_parameters()
    weights = parameters * _BYTES_OF_A_PARAMETER["training"]
    return Cost([part], _training_disk(parameters, arguments), weights, _is_half(arguments))


def save_untrained(recipe: Recipe, folder: Path) -> None:
    """Save the teacher before fine-tuning, which is as large and as fast as it will be afterwards."""
    assert recipe.model is not None
    arguments = build_arguments(recipe.training, folder)
    prepared = prepare(recipe, recipe.model, arguments)
    start_model(recipe, prepared, arguments).save_pretrained(folder)
    prepared.tokenizer.save_pretrained(folder)


def cost_of_distillation(recipe: Recipe, folder: Path, seconds: float) -> Cost:
    """Estimate every stage of a method, with its searches and the teacher's predictions."""
    if recipe.soft_labels is not None and recipe.soft_labels.predictions is not None:
        raise RecipeError(
            "a recipe with soft_labels.predictions cannot be planned: a sample is not the file's."
        )
    teacher = recipe.teacher
    assert teacher is not None  # the recipe was checked
    model = recipe.student.model
    if recipe.student.start == "cut" or (model is not None and saved_cut(model) is not None):
        # The fit is left out: it changes only weights, which do not affect the cost of a step.
        recipe = recipe.model_copy(update={"student": recipe.student.model_copy(update={"fit": False})})
    arguments = build_arguments(main_block(recipe).training, folder)
    prepared = prepare(recipe, recipe.tokenizer_model, arguments)
    run = Distillation(recipe, prepared, folder, hash_model(teacher))
    check_distillation(run)
    teacher_config = load_config(teacher)
    student, _ = start_student(recipe, prepared, arguments, draft=True)
    stages = stage_choices(recipe)
    parts = _answers(run, teacher_config, folder)
    for name, choices in stages.items():
        settings = choices[0]
        read = run
        if name == INTERMEDIATE and settings.rows == "unlabelled":
            only = dataclasses.replace(prepared, train=prepared.unlabelled, num_labelled=0, places=None)
            read = dataclasses.replace(run, prepared=only)
        each = _seconds_of_a_row(read, name, settings, seconds / len(stages))
        if isinstance(settings, LayerSettings):
            flop = functools.partial(_layer_flop, settings, student.config, teacher_config)
        else:
            flop = functools.partial(_learning_flop, student.config)
        trials = [build_arguments(choice.training, folder) for choice in choices]
        parts.append(_task_part(name.replace("_", " "), read.prepared, trials, each, flop))
    parameters = student.num_parameters()
    weights = parameters * _BYTES_OF_A_PARAMETER["training"] + run.load_teacher().num_parameters() * 4
    # The student of each stage stays, and the last one is copied to the top folder.
    disk = _training_disk(parameters, arguments)
    left = parameters * _BYTES_OF_A_PARAMETER["weights"] * len(stages)
    return Cost(parts, {name: value + left for name, value in disk.items()}, weights, _is_half(arguments))


def _learning_flop(config: Any, length: float) -> float:
    """Return the FLOP per trained token: the backward pass costs twice the forward pass."""
    return 3 * forward_flop(config, length)


def _seconds_of_a_row(run: Distillation, name: str, settings: Any, seconds: float) -> float:
    """Measure the seconds per row of one stage of a recipe, run by itself for a while."""
    recipe = _only_stage(run.recipe, name, settings)
    batch = whole_batch(build_arguments(settings.training, run.output_dir))
    attempts = itertools.count()

    def learn(steps: int) -> float:
        block = getattr(recipe, name)
        block = block.model_copy(update={"training": _short(block.training, steps)})
        small = dataclasses.replace(
            run,
            recipe=recipe.model_copy(update={name: block}),
            prepared=_sample(run.prepared, steps * batch),
            output_dir=run.output_dir / f"{name}-{next(attempts)}",
        )
        if name == INTERMEDIATE:
            distill_intermediate(small.recipe, block, small.prepared, small.output_dir / INTERMEDIATE)
        else:
            with _own_cache(run.output_dir):
                teach(small)
        result = small.output_dir / name.replace("_", "-") / RESULT
        return float(json.loads(result.read_text("utf-8"))["seconds"]["training"])

    steps, taken = _time_steps(learn, seconds)
    return taken / (steps * batch)


def stage_choices(recipe: Recipe) -> dict[str, list[Any]]:
    """Return the stages that are trained, each with every combination of values to train."""
    names = [name for name in STAGES if getattr(recipe, name) is not None]
    if recipe.method == "patient" and not (recipe.soft_labels and recipe.soft_labels.search):
        names = ["patient"]  # soft labels are a stage of their own only for the search
    return {name: getattr(recipe, name).choices() for name in names}


def _only_stage(recipe: Recipe, name: str, block: Any) -> Recipe:
    """Return a recipe with only one stage of another."""
    changed: dict[str, Any] = {other: None for other in ("intermediate", "patient") if other != name}
    if name == "soft_labels":
        changed["method"] = "soft-labels"
    elif recipe.soft_labels is not None:
        changed["soft_labels"] = recipe.soft_labels.choices()[0]
    return recipe.model_copy(update={**changed, name: block})


def _answers(run: Distillation, teacher_config: Any, folder: Path) -> list[Part]:
    """Estimate the teacher's pass over the training set, and both models' over the development sets."""
    prepared, block = run.prepared, main_block(run.recipe)
    training = {name: value for name, value in block.training.items() if name != "max_steps"}
    all_rows = block.model_copy(update={"training": training, "search": {}})

    def ask(num_rows: int) -> float:
        small = dataclasses.replace(run, prepared=_sample(prepared, num_rows))
        started = time.perf_counter()
        with _own_cache(folder):
            with_answers(small, all_rows)
        return time.perf_counter() - started

    # Take the difference, to exclude the time for loading the teacher.
    few, many = (min(count, len(prepared.train)) for count in (_BATCH_OF_ROWS, 5 * _BATCH_OF_ROWS))
    taken = {count: ask(count) for count in sorted({few, many})}
    each = max(0.0, taken[many] - taken[few]) / (many - few) if many > few else taken[few] / few
    length = _mean_length(prepared)
    flop = forward_flop(teacher_config, length)
    num_dev = sum(len(split.encoded) for split in prepared.dev.values())
    # The joint method runs the teacher at every step.
    asked = 0 if isinstance(block, JointSettings) else _num_asked(run, block)
    rows = {"the teacher's answers": asked, "scoring": 2 * num_dev}
    return [
        Part(name, 0, count * length, count * length * flop, count * each) for name, count in rows.items()
    ]


def _num_asked(run: Distillation, block: TrialSettings) -> int:
    """Return how many rows the teacher predicts."""
    places = places_that_are_read(run, block)
    return len(run.prepared.train) if places is None else len(np.unique(places))


_BATCH_OF_ROWS = 64


@contextlib.contextmanager
def _own_cache(folder: Path) -> Iterator[None]:
    """Use a temporary cache, so that the teacher is really run and its predictions are not kept."""
    before = os.environ.get(CACHE_VARIABLE)
    os.environ[CACHE_VARIABLE] = str(folder / "cache")
    try:
        yield
    finally:
        if before is None:
            del os.environ[CACHE_VARIABLE]
        else:
            os.environ[CACHE_VARIABLE] = before
