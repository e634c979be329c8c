"""Run all preflight checks; each finding says what is wrong and what to do about it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

from understudy.data.load import load_data
from understudy.data.sources import dev_splits
from understudy.distillation.recipes import find_teacher
from understudy.models.heads import model_labels
from understudy.models.pretrained import load_config
from understudy.pipeline.preflight.data import (
    check_augment,
    check_balance,
    check_class_weights,
    check_labelled_rows,
    check_leak,
    check_rows,
    check_truncation,
    check_unseen_labels,
)
from understudy.pipeline.preflight.machine import (
    check_accelerator,
    check_disk,
    check_openvino,
    check_precision,
    check_processes,
    check_training_blocks,
)
from understudy.pipeline.preflight.models import (
    check_heads,
    check_labels,
    check_layer_map,
    check_length,
    check_metric,
    check_student,
    check_teacher_head,
    check_teacher_is_constant,
    check_teacher_knows,
    check_teacher_memory,
    check_tokenizers,
    check_unseen,
    check_whole_match,
    check_widths,
)
from understudy.pipeline.preflight.planned_run import LEVELS, Finding, PlannedRun
from understudy.recipe.recipe import Recipe

logger = logging.getLogger(__name__)

CHECKS: tuple[Callable[[PlannedRun], Iterator[Finding]], ...] = (
    check_processes,
    check_teacher_head,
    check_labels,
    check_teacher_is_constant,
    check_teacher_knows,
    check_teacher_memory,
    check_unseen,
    check_student,
    check_tokenizers,
    check_layer_map,
    check_heads,
    check_widths,
    check_whole_match,
    check_training_blocks,
    check_length,
    check_truncation,
    check_labelled_rows,
    check_metric,
    check_rows,
    check_leak,
    check_unseen_labels,
    check_class_weights,
    check_balance,
    check_augment,
    check_openvino,
    check_disk,
    check_accelerator,
    check_precision,
)


def preflight(recipe: Recipe, output_dir: Path) -> tuple[PlannedRun, list[Finding]]:
    """Check a whole run before it starts, and return its findings: errors, warnings, notes.

    Raises:
        DataError, ModelError: if rows cannot be read or a model is missing; the message says what to do.
    """
    logger.info("Checking rows, models and machine, which takes up to a minute")
    teacher = find_teacher(recipe)
    task, fine_tuned = recipe.task_definition, recipe.teacher is not None
    labels = model_labels(load_config(teacher), task) if fine_tuned else None
    data = load_data(task, recipe.data, ("train", *dev_splits(task, recipe.data)), labels=labels)
    planned = PlannedRun(recipe, output_dir, data, teacher, fine_tuned)
    findings = [finding for check in CHECKS for finding in check(planned)]
    return planned, sorted(findings, key=lambda finding: LEVELS.index(finding.level))
