"""What would fail in hours, found in seconds: each finding says what is wrong and what to do."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import transformers
from transformers import PreTrainedTokenizerFast

from understudy.data.labels import check_labels as compare_labels
from understudy.data.labels import named_labels
from understudy.data.load import TaskData, load_data
from understudy.data.sources import dev_splits
from understudy.data.tasks import Task
from understudy.errors import ModelError, RecipeError
from understudy.evaluation.score import EvaluationSplit, predict_logits, prepare_split
from understudy.models.cut import check_cut
from understudy.models.layer_map import layer_map
from understudy.models.pretrained import (
    check_max_length,
    has_head_for,
    load_config,
    load_model,
    load_tokenizer,
    model_labels,
    positions_of,
    set_labels,
)
from understudy.models.student import base_config, check_start, own_sizes
from understudy.objectives.compose import weight_of
from understudy.recipe.distillation import IntermediateSettings, PatientSettings, TrialSettings
from understudy.recipe.recipe import STAGES, Recipe
from understudy.stages.intermediate import match
from understudy.stages.training import choose_on_dev
from understudy.timing.machine import cpu_flags
from understudy.training.arguments import build_arguments

FEW_TRAINING_ROWS, FEW_DEV_ROWS = 500, 100
_SAMPLE = 1_000  # rows looked at for lengths
_ASKED = 128  # rows a teacher is asked about
_CUT_SHARE, _LEAK_SHARE = 0.1, 0.01
_FEW_OF_A_LABEL = 5


@dataclass(frozen=True)
class Finding:
    """Something that would go wrong, or turn out otherwise than meant.

    Attributes:
        check: its short name, the same each time.
        level: an `error` stops the run, a `warning` does not.
        message: what was expected, what is there, and what to do.
    """

    check: str
    level: Literal["error", "warning"]
    message: str


@dataclass(frozen=True)
class Facts:
    """What the checks look at. Data that cannot be read, and models that cannot be found, say so here.

    Attributes:
        fine_tuned: the teacher is given, and not an encoder that becomes one.
    """

    recipe: Recipe
    output_dir: Path
    data: TaskData
    teacher: str
    fine_tuned: bool

    @property
    def task(self) -> Task:
        return self.recipe.task_row

    @cached_property
    def teacher_config(self) -> Any:
        return load_config(self.teacher)

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerFast:
        return load_tokenizer(self.teacher, self.task)

    @cached_property
    def student_config(self) -> Any:
        """None where it cannot be made, which `check_student` says."""
        try:
            check_start(self.recipe.student)
            return base_config(self.recipe.student, self.teacher)
        except (RecipeError, ModelError):
            return None

    @cached_property
    def dev(self) -> EvaluationSplit:
        """Some rows of the first development set, encoded."""
        rows = self.data.splits[dev_splits(self.task, self.recipe.data)[0]]
        chosen = np.sort(np.random.default_rng(0).permutation(len(rows))[:_ASKED])
        return prepare_split(
            self.task,
            rows.select(chosen),
            self.tokenizer,
            max_length=self.recipe.max_length,
            stride=self.recipe.data.stride,
        )

    @cached_property
    def layers(self) -> IntermediateSettings | None:
        return self.recipe.intermediate if self.recipe.method == "tinybert" else None


def preflight(recipe: Recipe, output_dir: Path) -> tuple[Facts, list[Finding]]:
    """Look at a whole run before it starts: errors first.

    Raises:
        DataError, ModelError: rows that cannot be read, a model that is not there; they say what to do.
    """
    teacher = recipe.teacher or (recipe.finetune.model if recipe.finetune is not None else None)
    if teacher is None:
        raise RecipeError(
            "a model must be given: a fine-tuned teacher, or an encoder to fine-tune first, e.g. "
            "understudy run bert-base-uncased --task mrpc --data nyu-mll/glue --output-dir runs/mrpc"
        )
    task, fine_tuned = recipe.task_row, recipe.teacher is not None
    labels = model_labels(load_config(teacher), task) if fine_tuned else None
    data = load_data(task, recipe.data, ("train", *dev_splits(task, recipe.data)), labels=labels)
    facts = Facts(recipe, output_dir, data, teacher, fine_tuned)
    findings = [finding for check in CHECKS for finding in check(facts)]
    return facts, sorted(findings, key=lambda finding: finding.level)


def check_processes(_: Facts) -> Iterator[Finding]:
    """Stages that time and export know one process alone."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        yield Finding(
            "processes",
            "error",
            "run is one process, and torchrun has started several. Run finetune and distill under torchrun, "
            "then export and bench without.",
        )


def check_teacher_head(facts: Facts) -> Iterator[Finding]:
    """A teacher that was never fine-tuned has no part to teach."""
    config = facts.teacher_config
    if facts.fine_tuned and facts.task.kind == "regression" and config.num_labels != 1:
        yield Finding(
            "teacher_head",
            "error",
            f"the teacher {facts.teacher} has a head of {config.num_labels} labels, and {facts.task.name} "
            "has a number to predict. Give a teacher of numbers, or task: classification.",
        )
    elif facts.fine_tuned and not has_head_for(config, facts.task):
        found = ", ".join(config.architectures or ("none",))
        yield Finding(
            "teacher_head",
            "error",
            f"the teacher {facts.teacher} has no head for {facts.task.kind} (its architecture is {found}). "
            f"Give it as an encoder to fine-tune: finetune.model={facts.teacher}, without teacher.",
        )


def check_labels(facts: Facts) -> Iterator[Finding]:
    """Teacher and data must mean the same classes in the same order."""
    config = facts.teacher_config
    if facts.fine_tuned and has_head_for(config, facts.task) and facts.data.labels is not None:
        try:
            compare_labels(facts.teacher, named_labels(config.id2label), config.num_labels, facts.data.labels)
        except ModelError as error:
            yield Finding("labels", "error", str(error))


def check_teacher_knows(facts: Facts) -> Iterator[Finding]:
    """A head that was drawn and never trained says the same of every row, or anything."""
    kind, config = facts.task.kind, facts.teacher_config
    if not facts.fine_tuned or not has_head_for(config, facts.task) or any(check_labels(facts)):
        return
    if kind not in ("classification", "multiple-choice"):
        return
    model = load_model(facts.teacher, facts.task, facts.data.labels, fine_tuned=True)
    logits = predict_logits(model, facts.tokenizer, facts.dev.encoded, batch_size=32)
    said, meant = facts.dev.judge(logits).values, facts.dev.rows["label"][:]
    right = float(np.mean(np.array(said) == np.array(meant)))
    counts = np.bincount(meant)
    guess = counts.max() / counts.sum() if kind == "classification" else 1 / len(facts.dev.rows["choices"][0])
    if right <= guess:
        yield Finding(
            "teacher_knows",
            "warning",
            f"the teacher {facts.teacher} is right on {right:.0%} of {len(meant)} development rows, and "
            f"always giving one answer is right on {guess:.0%}. Is it fine-tuned on this task, with these "
            f"labels? understudy evaluate {facts.teacher} says more.",
        )


def check_student(facts: Facts) -> Iterator[Finding]:
    """A student's shape, start and size."""
    try:
        check_start(facts.recipe.student)
        config = base_config(facts.recipe.student, facts.teacher)
    except (RecipeError, ModelError) as error:
        yield Finding("student", "error", str(error))
        return
    if facts.recipe.student.start == "cut":
        try:
            source = load_config(facts.recipe.student.source or facts.teacher)
            check_cut(config, source, facts.recipe.student.layers or "spaced")
        except (RecipeError, ModelError) as error:
            yield Finding("student", "error", str(error))
    student, teacher = (num_parameters(one, facts) for one in (config, facts.teacher_config))
    if student >= teacher:
        yield Finding(
            "student_size",
            "warning",
            f"the student has {student / 1e6:.1f}M parameters, and its teacher {teacher / 1e6:.1f}M: it "
            "will be no smaller. Take a smaller one, e.g. --student tinybert-4l-312d.",
        )


def check_tokenizers(facts: Facts) -> Iterator[Finding]:
    """A student must read the same tokens as its teacher."""
    start = facts.recipe.student.model or facts.recipe.student.source
    if start is not None and load_tokenizer(start).get_vocab() != facts.tokenizer.get_vocab():
        yield Finding(
            "tokenizers",
            "error",
            f"the student starts from {start}, whose tokenizer has another vocabulary than the teacher's "
            f"({facts.teacher}). Start from a shape (--student tinybert-4l-312d), or from a model of the "
            "teacher's own family.",
        )


def check_layer_map(facts: Facts) -> Iterator[Finding]:
    """Every student layer needs a teacher layer."""
    if facts.student_config is None:
        return
    blocks: list[IntermediateSettings | PatientSettings | None] = [facts.layers]
    blocks.append(facts.recipe.patient if facts.recipe.method == "patient" else None)
    for block in blocks:
        try:
            if block is not None:
                num_student = own_sizes(facts.student_config)["num_hidden_layers"]
                layer_map(block.layer_map, num_student, own_sizes(facts.teacher_config)["num_hidden_layers"])
        except RecipeError as error:
            yield Finding("layer_map", "error", str(error))


def check_heads(facts: Facts) -> Iterator[Finding]:
    """Attention scores are compared head by head."""
    if facts.student_config is None or facts.layers is None or facts.layers.relation_heads is not None:
        return
    student, teacher = (
        own_sizes(one)["num_attention_heads"] for one in (facts.student_config, facts.teacher_config)
    )
    learnt = any(weight_of(f"attention_{number}", facts.layers.weights) for number in range(1, 100))
    if learnt and student != teacher:
        yield Finding(
            "heads",
            "error",
            f"the student has {student} attention heads and its teacher {teacher}. Read both as a common "
            f"number of heads: --set intermediate.relation_heads={np.gcd(student, teacher)}; or leave "
            "attention out: --set intermediate.weights.attention=0.",
        )


def check_widths(facts: Facts) -> Iterator[Finding]:
    """States of unequal width need a projection between them."""
    if facts.student_config is None:
        return
    student, teacher = (own_sizes(one)["hidden_size"] for one in (facts.student_config, facts.teacher_config))
    blocks: dict[str, Any] = {"intermediate": facts.layers}
    blocks["patient"] = facts.recipe.patient if facts.recipe.method == "patient" else None
    for name, block in blocks.items():
        if block is not None and block.projection == "none" and student != teacher:
            yield Finding(
                "widths",
                "error",
                f"the student's states are {student} wide and the teacher's {teacher}, and "
                f"{name}.projection is none. Put a learnt matrix between them: --set "
                f"{name}.projection=shared.",
            )


def check_whole_match(facts: Facts) -> Iterator[Finding]:
    """Whatever else keeps two models from being compared, tried on a few tokens of untrained ones."""
    known = (check_student, check_layer_map, check_heads, check_widths)
    if facts.layers is None or any(one.level == "error" for check in known for one in check(facts)):
        return
    try:
        match(untrained(facts.student_config, facts), untrained(facts.teacher_config, facts), facts.layers)
    except (RecipeError, ModelError) as error:
        yield Finding("match", "error", str(error))


def check_training_blocks(facts: Facts) -> Iterator[Finding]:
    """TrainingArguments that transformers or this machine refuses."""
    recipe = facts.recipe
    blocks: dict[str, Sequence[Any]] = {"finetune": [recipe.finetune] if recipe.finetune else []}
    for name in STAGES:
        block: TrialSettings | IntermediateSettings | None = getattr(recipe, name)
        blocks[name] = block.choices() if block is not None else []
    for name, choices in blocks.items():
        for choice in choices:
            try:
                build_arguments(choose_on_dev(choice.training, facts.task), facts.output_dir)
            except RecipeError as error:
                yield Finding("training", "error", f"{name}.{error}")
                break


def check_length(facts: Facts) -> Iterator[Finding]:
    """Neither model may be asked for more positions than it has."""
    for config in (facts.teacher_config, facts.student_config):
        try:
            if config is not None:
                check_max_length(config, facts.tokenizer, facts.recipe.max_length)
        except ModelError as error:
            yield Finding("max_length", "error", str(error))
            return


def check_truncation(facts: Facts) -> Iterator[Finding]:
    """Rows that are cut are learnt, and scored, by their beginning alone."""
    if facts.task.kind == "question-answering" or any(check_length(facts)):
        return  # long contexts are read in windows
    rows, limit = facts.data.splits["train"], facts.recipe.max_length
    chosen = np.sort(np.random.default_rng(0).permutation(len(rows))[:_SAMPLE])
    lengths = [_num_tokens(facts.tokenizer, rows[int(place)]) for place in chosen]
    cut = float(np.mean(np.array(lengths) > limit))
    if cut > _CUT_SHARE:
        longest = positions_of(facts.teacher_config) or facts.tokenizer.model_max_length
        fits = min(int(np.quantile(lengths, 0.99)), longest)
        share = float(np.mean(np.array(lengths) <= fits))
        yield Finding(
            "truncation",
            "warning",
            f"{cut:.0%} of the training rows are longer than data.max_length of {limit} tokens and are cut. "
            f"{share:.0%} would fit into {fits}: --set data.max_length={fits}.",
        )


def check_rows(facts: Facts) -> Iterator[Finding]:
    """Few rows teach little, and score with wide intervals."""
    dev = dev_splits(facts.task, facts.recipe.data)[0]
    num_train, num_dev = len(facts.data.splits["train"]), len(facts.data.splits[dev])
    if num_train < FEW_TRAINING_ROWS and facts.recipe.augment is None and facts.recipe.data.augmented is None:
        yield Finding(
            "few_rows",
            "warning",
            f"{num_train} training rows are few for a student to learn from. Let the teacher label more "
            "texts, or augment them: --set augment.model=ENCODER.",
        )
    if num_dev < FEW_DEV_ROWS:
        yield Finding(
            "few_dev_rows",
            "warning",
            f"{num_dev} development rows cannot tell two models apart: the 95 % interval of 90 % right is "
            f"±{196 * np.sqrt(0.09 / num_dev):.0f} points. Give more of them.",
        )


def check_leak(facts: Facts) -> Iterator[Finding]:
    """A development row that is also a training row scores memory."""
    dev = dev_splits(facts.task, facts.recipe.data)[0]
    train, held_out = (
        {_text(row) for row in facts.data.splits[split]}
        if len(facts.data.splits[split]) <= 1_000_000
        else set()
        for split in ("train", dev)
    )
    shared = len(train & held_out) / max(1, len(held_out))
    if shared > _LEAK_SHARE:
        yield Finding(
            "leak",
            "warning",
            f"{shared:.0%} of the development rows are training rows too: scores will be too good. Take them "
            "out of one of the two.",
        )


def check_unseen_labels(facts: Facts) -> Iterator[Finding]:
    """What no training row shows is not learnt."""
    if facts.task.kind != "classification" or facts.data.labels is None:
        return
    dev = dev_splits(facts.task, facts.recipe.data)[0]
    counts = Counter(facts.data.splits["train"]["label"][:])
    seen, asked = set(counts), set(facts.data.splits[dev].unique("label"))
    rare = [
        f"{facts.data.labels[label]} ({count})"
        for label, count in sorted(counts.items())
        if count < _FEW_OF_A_LABEL
    ]
    if rare:
        yield Finding(
            "rare_labels",
            "warning",
            f"these labels have hardly any training rows: {', '.join(rare)}. Is one of them a typing error?",
        )
    missing = [facts.data.labels[label] for label in sorted(asked - seen)]
    if missing:
        yield Finding(
            "unseen_labels",
            "warning",
            f"no training row has the label {', '.join(missing)}, and development rows do. Are the two files "
            "of one set, or was the file sorted before it was split?",
        )


def check_augment(facts: Facts) -> Iterator[Finding]:
    """Augmentation needs a masked language model."""
    settings = facts.recipe.augment
    if settings is None:
        return
    if facts.recipe.data.augmented is not None:
        yield Finding(
            "augment",
            "error",
            "augment and data.augmented exclude each other: rows are augmented once. Leave one out.",
        )
    if settings.model is None:
        yield Finding(
            "augment",
            "error",
            "augment.model must be given: the pretrained model with its masked language model's head, e.g. "
            "--set augment.model=bert-base-uncased.",
        )
        return
    for name in ("vectors", "vector_words"):
        file = getattr(settings, name)
        if file is not None and not Path(file).is_file():
            yield Finding("augment", "error", f"augment.{name} is not there: {file}. Check the path.")
    config = load_config(settings.model)
    if not any("MaskedLM" in name or "PreTraining" in name for name in config.architectures or ()):
        yield Finding(
            "augment",
            "error",
            f"augment.model {settings.model} has no masked language model's head (it is "
            f"{', '.join(config.architectures or ('none',))}). Give the pretrained model and not a "
            "fine-tuned one.",
        )


def check_openvino(facts: Facts) -> Iterator[Finding]:
    """An extra that is wanted must be there."""
    wanted = facts.recipe.export is not None and facts.recipe.export.openvino
    if wanted and not all(importlib.util.find_spec(name) for name in ("openvino", "nncf")):
        yield Finding(
            "openvino",
            "error",
            "export.openvino needs packages that are not installed: pip install 'understudy[openvino]'; or "
            "--set export.openvino=false.",
        )


def check_disk(facts: Facts) -> Iterator[Finding]:
    """Checkpoints are several times a model, and augmented rows many times a training set."""
    place = next(path for path in (facts.output_dir, *facts.output_dir.parents) if path.exists())
    there = sum(file.stat().st_size for file in facts.output_dir.rglob("*") if file.is_file())
    free, needed = shutil.disk_usage(place).free, disk_needed(facts) - there  # of a run that is continued
    if needed > free:
        yield Finding(
            "disk",
            "error",
            f"about {needed / 1e9:.1f} GB are needed in {facts.output_dir} and {free / 1e9:.1f} GB are "
            "free. Make room, or use another --output-dir.",
        )


def check_accelerator(facts: Facts) -> Iterator[Finding]:
    """A GPU that stands idle beside days of CPU time."""
    blocks = [getattr(facts.recipe, name) for name in STAGES if getattr(facts.recipe, name) is not None]
    if torch.accelerator.is_available():
        if any(block.training.get("use_cpu") for block in blocks):
            yield Finding(
                "accelerator",
                "warning",
                "a GPU is there, and the recipe trains on the CPU: take use_cpu out of its training blocks.",
            )
    elif any(Path("/dev").glob("nvidia[0-9]*")):
        yield Finding(
            "accelerator",
            "warning",
            "this machine has an NVIDIA GPU that PyTorch cannot use, so that the CPU will train. Install a "
            "PyTorch built for CUDA, and check the driver with nvidia-smi.",
        )


def check_bf16(facts: Facts) -> Iterator[Finding]:
    """On a CPU without instructions for it bf16 is emulated, and slow."""
    blocks = [getattr(facts.recipe, name) for name in (*STAGES, "finetune")]
    wanted = any(block is not None and block.training.get("bf16") for block in blocks)
    if wanted and not torch.accelerator.is_available() and not any("bf16" in flag for flag in cpu_flags()):
        yield Finding(
            "bf16",
            "warning",
            "the recipe trains in bf16, for which this CPU has no instructions: it may be slower than "
            "float32. Try it with training.bf16=false in each block.",
        )


CHECKS: tuple[Callable[[Facts], Iterator[Finding]], ...] = (
    check_processes,
    check_teacher_head,
    check_labels,
    check_teacher_knows,
    check_student,
    check_tokenizers,
    check_layer_map,
    check_heads,
    check_widths,
    check_whole_match,
    check_training_blocks,
    check_length,
    check_truncation,
    check_rows,
    check_leak,
    check_unseen_labels,
    check_augment,
    check_openvino,
    check_disk,
    check_accelerator,
    check_bf16,
)


def untrained(config: Any, facts: Facts) -> Any:
    """A model of a config with the task's head and weights as they are drawn."""
    config = type(config).from_dict(config.to_dict())
    set_labels(config, facts.task, facts.data.labels)
    return getattr(transformers, facts.task.auto_class).from_config(config)


def num_parameters(config: Any, facts: Facts) -> int:
    """Of a model of this config; nothing is drawn."""
    with torch.device("meta"):
        return int(untrained(config, facts).num_parameters())


def disk_needed(facts: Facts) -> int:
    """Bytes, at the worst moment: two checkpoints of weights and Adam's two moments, and the models."""
    if facts.student_config is None:
        return 0
    student, teacher = (num_parameters(one, facts) for one in (facts.student_config, facts.teacher_config))
    weights = 4 * (2 * 3 * student + 3 * student)
    if not facts.fine_tuned:
        weights += 4 * (2 * 3 * teacher + teacher)
    rows = facts.data.splits["train"]
    variants = facts.recipe.augment.variants if facts.recipe.augment is not None else 0
    # Text, tokens of eight bytes and the like: about four times the checked rows.
    return weights + int(4 * (1 + variants) * (rows.data.nbytes if len(rows) else 0))


def _text(row: dict[str, Any]) -> str:
    return repr([row[name] for name in sorted(row) if name not in ("row", "label", "tags", "id", "answers")])


def _num_tokens(tokenizer: PreTrainedTokenizerFast, row: dict[str, Any]) -> int:
    if "words" in row:
        return len(tokenizer(row["words"], is_split_into_words=True)["input_ids"])
    if "choices" in row:
        question = row.get("question") or ""
        return max(len(tokenizer(row["context"], f"{question} {one}")["input_ids"]) for one in row["choices"])
    return len(tokenizer(row["text"], row.get("text_pair"))["input_ids"])
