"""Preflight checks of the models: do teacher and student fit the task, and each other?"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.data.labels import check_labels as compare_labels
from understudy.data.labels import named_labels
from understudy.distillation.folds import read_folds
from understudy.distillation.layers import match
from understudy.errors import ModelError, RecipeError
from understudy.models.cut import check_cut, saved_cut
from understudy.models.families import own_sizes
from understudy.models.heads import has_head_for
from understudy.models.layer_map import layer_map
from understudy.models.pretrained import check_max_length, load_config, load_tokenizer
from understudy.models.settings import StudentSettings, check_projection, check_start
from understudy.models.student import base_config, cannot_fit, student_config
from understudy.objectives.compose import weight_of
from understudy.pipeline.preflight.planned_run import Finding, PlannedRun, num_parameters, untrained
from understudy.planning.budget import smaller_shapes
from understudy.recipe.distillation import LayerSettings, PatientSettings

_MEMORY = 0.15  # difference in the metric between training and development rows


def check_teacher_head(planned: PlannedRun) -> Iterator[Finding]:
    """Check that the teacher has a head for the task, that is, that it was fine-tuned."""
    config = planned.teacher_config
    wrong = planned.task.kind.check_head(config) if has_head_for(config, planned.task) else None
    if planned.fine_tuned and wrong is not None:
        yield Finding(
            "teacher_head",
            "error",
            f"the teacher {planned.teacher} does not fit {planned.task.name}: {wrong}. Use a teacher "
            "fine-tuned on this task, or another task.",
        )
    elif planned.fine_tuned and not has_head_for(config, planned.task):
        found = ", ".join(config.architectures or ("none",))
        yield Finding(
            "teacher_head",
            "error",
            f"the teacher {planned.teacher} has no head for {planned.task.kind} (its architecture is "
            f"{found}). Use it as an encoder to fine-tune: finetune.model={planned.teacher}, and no teacher.",
        )


def check_labels(planned: PlannedRun) -> Iterator[Finding]:
    """Check that teacher and data have the same classes in the same order."""
    config = planned.teacher_config
    if planned.fine_tuned and has_head_for(config, planned.task) and planned.data.labels is not None:
        try:
            compare_labels(
                planned.teacher, named_labels(config.id2label), config.num_labels, planned.data.labels
            )
        except ModelError as error:
            yield Finding("labels", "error", str(error))


def check_teacher_is_constant(planned: PlannedRun) -> Iterator[Finding]:
    """Warn if the teacher predicts the same for every row: there is nothing to learn from it."""
    if not _can_ask(planned):
        return
    rows = planned.dev.rows
    per_token = planned.task.kind.is_per_token
    said = _flat(planned.dev.judge(planned.teacher_logits["dev"]).values, per_token=per_token)
    meant = _flat(map(planned.task.kind.gold, rows), per_token=per_token)
    if not _is_constant(said, meant):
        return
    yield Finding(
        "teacher_is_constant",
        "warning",
        f"the teacher {planned.teacher} predicts {_show(said, planned)} for all of {len(rows)} development "
        "rows, which differ in their labels: a student can learn nothing else from it. Most likely it was "
        "fine-tuned for too few steps, or with its labels in another order. See its scores with understudy "
        f"evaluate {planned.teacher}, and fine-tune it longer: --set training.num_train_epochs=…",
    )


def _can_ask(planned: PlannedRun) -> bool:
    """Return whether there is a fine-tuned teacher that can predict these rows."""
    checks = (check_teacher_head, check_labels)
    return planned.fine_tuned and not any(finding for check in checks for finding in check(planned))


def _flat(values: Iterable[Any], *, per_token: bool) -> list[Any]:
    """Return one value per row, or one per word."""
    if per_token:
        return [one for value in values for one in value]
    return [tuple(value) if isinstance(value, list) else value for value in values]


def _is_constant(said: Sequence[Any], meant: Sequence[Any]) -> bool:
    """Return whether predictions are all the same, or numbers within a hundredth of the labels' range."""
    if meant and isinstance(meant[0], float):
        return bool(np.ptp(said) < 0.01 * np.ptp(meant))
    return len(set(said)) <= 1 < len(set(meant))


def _show(said: Sequence[Any], planned: PlannedRun) -> str:
    """Describe the one prediction of a teacher."""
    value, kind, labels = next(iter(said), ""), planned.task.kind, planned.data.labels
    if isinstance(value, float):
        return f"{value:.3f}"
    if labels is not None and isinstance(value, int):
        return repr(labels[value])
    if value == () and labels is not None:
        return "no label"
    if value in ("", "O"):
        return "no entity" if kind.has_entities else "nothing"
    return repr(value)


def check_unseen(planned: PlannedRun) -> Iterator[Finding]:
    """Check that each row will have a teacher that has not learnt from it, if the recipe asks for that."""
    recipe = planned.recipe
    if not recipe.unseen:
        return
    if recipe.augment is not None or recipe.data.augmented is not None:
        problem = (
            "unseen needs the rows that the teacher's folds were made of, not augmented ones. Leave one out."
        )
    elif planned.fine_tuned:
        try:
            read_folds(planned.teacher, planned.data, planned.task.rows)
            return
        except RecipeError as error:
            problem = str(error)
    elif recipe.finetune is None or recipe.finetune.folds is None:
        problem = "unseen needs a teacher with folds. Fine-tune it so with --set finetune.folds=5."
    else:
        return
    yield Finding("unseen", "error", problem)


def check_teacher_knows(planned: PlannedRun) -> Iterator[Finding]:
    """Warn if the teacher is no better than the best constant answer: its head may be untrained."""
    guess = planned.task.kind.best_guess(planned.dev.rows)
    if guess is None or not _can_ask(planned) or any(check_teacher_is_constant(planned)):
        return
    said = np.array(planned.dev.judge(planned.teacher_logits["dev"]).values)
    meant = np.array(planned.dev.rows["label"][:])
    right = float(np.mean(said == meant))
    if right > guess:
        return
    advice = (
        f"Is it fine-tuned on this task, with these labels? understudy evaluate {planned.teacher} says more."
    )
    order = _better_order(said, meant, len(planned.data.labels or ()), guess)
    if order is not None and named_labels(planned.teacher_config.id2label) is not None:
        advice = "The names of its labels in config.json seem to be in another order. Fix them there."
    elif order is not None and planned.data.labels is not None:
        names = json.dumps([planned.data.labels[place] for place in order], ensure_ascii=False)
        advice = f"Its labels seem to be in another order, which may be this: --set 'data.labels={names}'"
    yield Finding(
        "teacher_knows",
        "warning",
        f"the teacher {planned.teacher} is right on {right:.0%} of {len(meant)} development rows, and "
        f"always giving one answer is right on {guess:.0%}. {advice}",
    )


def _better_order(
    said: NDArray[np.int64], meant: NDArray[np.int64], num_labels: int, guess: float
) -> list[int] | None:
    """Return the class that each prediction mostly means, if reordering the classes makes them right."""
    table = np.zeros((num_labels, num_labels), np.int64)
    if not num_labels:
        return None
    np.add.at(table, (said, meant), 1)
    order = table.argmax(axis=1)
    is_order = len(set(order.tolist())) == num_labels
    chance = 3 * (guess * (1 - guess) / len(said)) ** 0.5  # that is hardly ever due to chance
    is_right = table.max(axis=1).sum() / len(said) > guess + chance
    return order.tolist() if is_order and is_right else None


def check_metric(planned: PlannedRun) -> Iterator[Finding]:
    """Check that the metric can be computed on these labels, before anything is trained."""
    if planned.recipe.metric is None or not planned.task.kind.has_plain_labels:
        return
    gold = np.asarray(planned.dev.rows[planned.task.kind.label_field][:], dtype=np.float64)
    try:
        planned.task.kind.metric(planned.recipe.metric)(np.stack([gold, gold], axis=1))
    except RecipeError as error:
        yield Finding("metric", "error", str(error))


def check_teacher_memory(planned: PlannedRun) -> Iterator[Finding]:
    """Warn if the teacher has memorised its training rows: its layers then teach what it memorised."""
    if not planned.fine_tuned or "train" not in planned.data.splits or planned.recipe.data.unlabelled:
        return
    checks = (check_teacher_head, check_labels, check_metric)
    if any(finding for check in checks for finding in check(planned)):
        return
    metric, logits = planned.task.headline, planned.teacher_logits
    train = planned.train_sample.metrics_of(logits["train"])[metric]
    dev = planned.dev.metrics_of(logits["dev"])[metric]
    if train - dev > _MEMORY and train > 0.9:
        yield Finding(
            "teacher_memory",
            "warning",
            f"the teacher has {metric} {train:.2f} on training rows and {dev:.2f} on development rows: it "
            "has memorised them, and its layers teach that. Add rows that it has not seen (--unlabelled, or "
            "augment), or fine-tune it with --set held_out=0.1.",
        )


def check_student(planned: PlannedRun) -> Iterator[Finding]:
    """Check the student's shape, start and size."""
    try:
        check_start(planned.recipe.student)
        config = base_config(planned.recipe.student, planned.teacher)
    except (RecipeError, ModelError) as error:
        yield Finding("student", "error", str(error))
        return
    model = planned.recipe.student.model
    if model is not None and planned.recipe.student.fit and saved_cut(model) is None:
        yield Finding("student", "error", cannot_fit(model))
    if planned.recipe.student.start == "cut":
        try:
            source = load_config(planned.recipe.student.source or planned.teacher)
            check_cut(config, source, planned.recipe.student.layers or "spaced")
        except (RecipeError, ModelError) as error:
            yield Finding("student", "error", f"{error}{_example(planned)}")
            return
    student, teacher = (num_parameters(one, planned) for one in (config, planned.teacher_config))
    if student >= teacher:
        yield Finding(
            "student_size",
            "warning",
            f"the student has {student / 1e6:.1f}M parameters, and its teacher {teacher / 1e6:.1f}M: it "
            f"will be no smaller.{_example(planned)}",
        )


def _example(planned: PlannedRun) -> str:
    """Return a sentence that suggests a possible smaller student; empty if there is none."""
    settings, teacher = planned.recipe.student, planned.teacher_config
    source = load_config(settings.source or planned.teacher) if settings.start == "cut" else teacher
    most = num_parameters(teacher, planned)
    for shape in smaller_shapes(source):
        smaller = StudentSettings(shape=shape.name, init=settings.init, source=settings.source)
        config = student_config(smaller, source)
        try:
            if settings.start == "cut":
                check_cut(config, source, "spaced")
        except (RecipeError, ModelError):
            continue
        if num_parameters(config, planned) < most:
            return f" For example: --student {shape.name}."
    return ""


def check_tokenizers(planned: PlannedRun) -> Iterator[Finding]:
    """Check that the student has the vocabulary of its teacher."""
    start = planned.recipe.student.model or planned.recipe.student.source
    if start is not None and load_tokenizer(start).get_vocab() != planned.tokenizer.get_vocab():
        yield Finding(
            "tokenizers",
            "error",
            f"the student starts from {start}, whose tokenizer has another vocabulary than the teacher's "
            f"({planned.teacher}). Start from a shape (--student tinybert-4l-312d), or from a model of the "
            "teacher's own family.",
        )


def check_layer_map(planned: PlannedRun) -> Iterator[Finding]:
    """Check that every student layer is mapped to a teacher layer."""
    if planned.student_config is None or any(one.level == "error" for one in check_student(planned)):
        return
    blocks: list[LayerSettings | PatientSettings | None] = [planned.layers]
    blocks.append(planned.recipe.patient if planned.recipe.method == "patient" else None)
    for block in blocks:
        try:
            if block is not None:
                num_student = own_sizes(planned.student_config)["num_hidden_layers"]
                layer_map(
                    block.layer_map, num_student, own_sizes(planned.teacher_config)["num_hidden_layers"]
                )
        except RecipeError as error:
            yield Finding("layer_map", "error", str(error))


def check_heads(planned: PlannedRun) -> Iterator[Finding]:
    """Check that both models have the same number of heads: scores are compared head by head."""
    if planned.student_config is None or planned.layers is None or planned.layers.relation_heads is not None:
        return
    student, teacher = (
        own_sizes(one)["num_attention_heads"] for one in (planned.student_config, planned.teacher_config)
    )
    layers = range(1, own_sizes(planned.student_config)["num_hidden_layers"] + 1)
    learnt = any(weight_of(f"attention_{number}", planned.layers.weights) for number in layers)
    if learnt and student != teacher:
        block = planned.layers.block
        yield Finding(
            "heads",
            "error",
            f"the student has {student} attention heads and its teacher {teacher}. Read both as a common "
            f"number of heads: --set {block}.relation_heads={np.gcd(student, teacher)}; or leave attention "
            f"out: --set {block}.weights.attention=0.",
        )


def check_widths(planned: PlannedRun) -> Iterator[Finding]:
    """Check that hidden states of different widths have a projection between them."""
    if planned.student_config is None:
        return
    student, teacher = (
        own_sizes(one)["hidden_size"] for one in (planned.student_config, planned.teacher_config)
    )
    blocks: dict[str, Any] = {planned.layers.block: planned.layers} if planned.layers is not None else {}
    blocks["patient"] = planned.recipe.patient if planned.recipe.method == "patient" else None
    for name, block in blocks.items():
        try:
            projection = block.projection if block is not None else "shared"
            check_projection(projection, student, teacher, key=f"{name}.projection")
        except RecipeError as error:
            yield Finding("widths", "error", str(error))


def check_whole_match(planned: PlannedRun) -> Iterator[Finding]:
    """Run the layer matching on a few tokens with untrained models, to find any other incompatibility."""
    known = (check_student, check_layer_map, check_heads, check_widths)
    if planned.layers is None or any(one.level == "error" for check in known for one in check(planned)):
        return
    try:
        match(
            untrained(planned.student_config, planned),
            untrained(planned.teacher_config, planned),
            planned.layers,
        )
    except (RecipeError, ModelError) as error:
        yield Finding("match", "error", str(error))


def check_length(planned: PlannedRun) -> Iterator[Finding]:
    """Check that neither model is asked for more positions than it has."""
    for config in (planned.teacher_config, planned.student_config):
        try:
            if config is not None:
                check_max_length(config, planned.tokenizer, planned.recipe.max_length)
        except ModelError as error:
            yield Finding("max_length", "error", str(error))
            return
