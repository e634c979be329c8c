"""Training time of a whole run, estimated at its start from a few steps of the teacher's shape."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch

from understudy.distillation.methods import main_block
from understudy.distillation.runs import whole_batch
from understudy.models.flop import forward_flop
from understudy.pipeline.preflight.planned_run import PlannedRun, untrained
from understudy.planning.steps import num_steps, stage_choices
from understudy.recipe.distillation import LayerSettings
from understudy.training.arguments import build_arguments
from understudy.training.trainer import autocast_dtype

_BATCH = 8
_STEPS = 3  # the fastest counts: the first one includes preparation


def estimate_training(planned: PlannedRun, length: int) -> float | None:
    """Estimate the seconds of training in a run; None if its student cannot be built.

    Each stage takes tokens × operations, at the measured speed of training steps of the untrained teacher.

    Args:
        length: the usual number of tokens of a text.
    """
    recipe, teacher, student = planned.recipe, planned.teacher_config, planned.student_config
    if student is None:
        return None
    teacher_flop, student_flop = (forward_flop(config, length) for config in (teacher, student))
    num_labelled = len(planned.data.splits.get("train", ()))
    flop = 0.0
    if recipe.finetune is not None and not planned.fine_tuned:
        teachers = 1 + (recipe.finetune.folds or 0)
        flop += teachers * 3 * teacher_flop * _num_rows(recipe.finetune.training, num_labelled, planned)
    is_asked = False
    for choices in stage_choices(recipe).values():
        for settings in choices:
            rows = _num_rows(settings.training, planned.num_train, planned)
            flop += rows * 3 * student_flop
            if isinstance(settings, LayerSettings):
                flop += rows * teacher_flop  # the teacher runs at every step
            elif not is_asked:
                flop += min(rows, planned.num_train) * teacher_flop  # here it runs once for each row
                is_asked = True
    return flop * _tokens_of_a_row(planned) * _seconds_of_flop(planned, length, teacher_flop)


def _num_rows(training: dict[str, Any], num_rows: int, planned: PlannedRun) -> int:
    """Return how many rows a stage reads, counting a row each time it is read."""
    arguments = build_arguments(training, planned.output_dir)
    return num_steps(arguments, num_rows) * whole_batch(arguments)


def _tokens_of_a_row(planned: PlannedRun) -> float:
    """Return the mean number of tokens of a row, which is several texts for a question with choices."""
    rows = planned.dev.encoded["input_ids"][:]
    return float(np.mean([len(ids) if isinstance(ids[0], int) else sum(map(len, ids)) for ids in rows]))


def _seconds_of_flop(planned: PlannedRun, length: int, teacher_flop: float) -> float:
    """Measure the seconds of an operation in training: forward, backward and optimiser of the teacher."""
    arguments = build_arguments(main_block(planned.recipe).training, planned.output_dir)
    dtype = autocast_dtype(arguments)
    model = untrained(planned.teacher_config, planned).to(arguments.device)
    optimizer = torch.optim.AdamW(model.parameters())
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(5, planned.teacher_config.vocab_size, (_BATCH, length), generator=generator)
    tokens = tokens.to(arguments.device)
    taken = []
    for _ in range(_STEPS):
        started = time.perf_counter()
        with torch.autocast(arguments.device.type, dtype, enabled=dtype != torch.float32):
            outputs = model.base_model(input_ids=tokens).last_hidden_state
        outputs.float().square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if arguments.device.type == "cuda":
            torch.cuda.synchronize()
        taken.append(time.perf_counter() - started)
    return min(taken) / (3 * teacher_flop * _BATCH * length)
