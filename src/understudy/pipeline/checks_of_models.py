"""Do teacher and student fit the task, and each other?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from understudy.data.labels import check_labels as compare_labels
from understudy.data.labels import named_labels
from understudy.errors import ModelError, RecipeError
from understudy.evaluation.score import predict_logits
from understudy.models.cut import check_cut
from understudy.models.families import own_sizes
from understudy.models.layer_map import layer_map
from understudy.models.pretrained import (
    check_max_length,
    has_head_for,
    load_config,
    load_model,
    load_tokenizer,
)
from understudy.models.student import base_config, check_start
from understudy.objectives.compose import weight_of
from understudy.pipeline.facts import Facts, Finding, num_parameters, untrained
from understudy.recipe.distillation import IntermediateSettings, PatientSettings
from understudy.stages.intermediate import match


def check_teacher_head(facts: Facts) -> Iterator[Finding]:
    """A teacher that was never fine-tuned has no part to teach."""
    config = facts.teacher_config
    wrong = facts.task.kind.check_head(config) if has_head_for(config, facts.task) else None
    if facts.fine_tuned and wrong is not None:
        yield Finding(
            "teacher_head",
            "error",
            f"the teacher {facts.teacher} does not fit {facts.task.name}: {wrong}. Use a teacher fine-tuned "
            "on this task, or another task.",
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
    config, guess = facts.teacher_config, facts.task.kind.best_guess(facts.dev.rows)
    if not facts.fine_tuned or not has_head_for(config, facts.task) or any(check_labels(facts)):
        return
    if guess is None:
        return
    model = load_model(facts.teacher, facts.task, facts.data.labels, fine_tuned=True)
    logits = predict_logits(model, facts.tokenizer, facts.dev.encoded, batch_size=32)
    said, meant = facts.dev.judge(logits).values, facts.dev.rows["label"][:]
    right = float(np.mean(np.array(said) == np.array(meant)))
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
    layers = range(1, own_sizes(facts.student_config)["num_hidden_layers"] + 1)
    learnt = any(weight_of(f"attention_{number}", facts.layers.weights) for number in layers)
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


def check_length(facts: Facts) -> Iterator[Finding]:
    """Neither model may be asked for more positions than it has."""
    for config in (facts.teacher_config, facts.student_config):
        try:
            if config is not None:
                check_max_length(config, facts.tokenizer, facts.recipe.max_length)
        except ModelError as error:
            yield Finding("max_length", "error", str(error))
            return
