"""Train a student once for every combination of a stage's values, and keep the best on the dev set."""

from __future__ import annotations

import logging
import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from accelerate.utils import broadcast_object_list
from datasets import Dataset
from transformers import PreTrainedModel, TrainerCallback, TrainingArguments, set_seed

from understudy.data.encode import Collator
from understudy.distillation.rows import Prepared, choose_attention, start_student
from understudy.distillation.runs import (
    LOSSES,
    choose_on_dev,
    remove_checkpoints,
    save_model,
    train_to_the_end,
    write_losses,
)
from understudy.distillation.search import Trial, search_grid
from understudy.errors import TrainingError
from understudy.evaluation.score import score_model
from understudy.models.cut import Cut
from understudy.models.pretrained import load_model
from understudy.models.projections import saved_projections
from understudy.models.settings import STUDENT
from understudy.models.student import base_config
from understudy.models.teacher import cast_linears
from understudy.recipe.distillation import TrialSettings
from understudy.recipe.recipe import Recipe
from understudy.training.arguments import build_arguments
from understudy.training.average import WeightAverage
from understudy.training.model import match_models
from understudy.training.objectives import Objectives
from understudy.training.precision import precision_of
from understudy.training.shared import SharedTeacher
from understudy.training.trainer import DistillationTrainer, autocast_dtype
from understudy.workspace.folders import TRAINING_FOLDER, TRIALS
from understudy.workspace.result import read_part, write_part

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrialPlan:
    """A stage's settings, rows and objectives.

    Attributes:
        settings: its block of the recipe.
        train: returns the encoded rows with the teacher's predictions; not called for a finished stage.
        objectives: returns the objectives of a trial with these settings.
        teacher_config: the config of the teacher whose hidden states the rows carry, if any.
        callbacks: callbacks for the trainer of every trial.
        teacher: loads a teacher that runs beside the student; None if the rows carry its predictions.
        shared: shares that teacher with other students.
    """

    settings: TrialSettings
    train: Callable[[], Dataset]
    objectives: Callable[[Any], Objectives]
    teacher_config: Any = None
    callbacks: Sequence[TrainerCallback] = ()
    teacher: Callable[[], PreTrainedModel] | None = None
    shared: SharedTeacher | None = None


def train_trials(
    recipe: Recipe, plan: TrialPlan, prepared: Prepared, output_dir: Path, *, start: Path | None
) -> None:
    """Train every combination of the search.

    The best one on the first development set is saved to `output_dir/student`. A folder that holds the
    finished stage is left unchanged.

    Args:
        start: the student of an earlier stage. Defaults to the recipe's.
    """
    if read_part(output_dir) is not None:
        shutil.rmtree(output_dir / TRIALS, ignore_errors=True)
        return
    base = build_arguments({"seed": recipe.seed, **plan.settings.training}, output_dir / TRAINING_FOLDER)
    train = plan.train()

    stage = f"{plan.shared.current}, {output_dir.name}" if plan.shared is not None else output_dir.name
    total = math.prod(len(values) for values in plan.settings.search.values())
    if total > 1 and base.should_save:
        names = ", ".join(plan.settings.search)
        key = output_dir.name.replace("-", "_")
        logger.info(
            "%s: a search of %d trials over %s; each is a whole training. To train once: --set "
            "'%s.search={}'",
            *(stage, total, names, key),
        )

    def run(number: int, values: Mapping[str, Any]) -> float:
        if total > 1 and base.should_save:
            shown = ", ".join(f"{name} {value}" for name, value in values.items())
            logger.info("%s: trial %d of %d: %s", stage, number + 1, total, shown)
        try:
            folder = output_dir / TRIALS / str(number)
            return _run_trial(recipe, plan, prepared, train, folder, start, values)
        except TrainingError as error:
            # Other values may work; in a distributed run the other processes would not know of the failure.
            if not plan.settings.search or base.world_size > 1:
                raise
            logger.warning("A trial is left out: %s", error)
            return math.nan

    trials = _try_all(plan.settings.search, output_dir, run, base)
    if not base.should_save:
        return
    if trials[0].score == -math.inf:
        raise TrainingError("every trial's loss stopped being a number. Try smaller learning rates.")
    best = output_dir / TRIALS / str(trials[0].number)
    for name in (STUDENT, LOSSES, TRAINING_FOLDER):
        _copy(best / name, output_dir / name)
    found = read_part(best)
    assert found is not None  # it was just written
    content = found | {
        "stage": output_dir.name,
        # No score if the loss became NaN.
        "trials": [
            {"values": trial.values, "score": trial.score if math.isfinite(trial.score) else None}
            for trial in trials
        ],
    }
    write_part(output_dir, content)
    shutil.rmtree(output_dir / TRIALS)


def _run_trial(
    recipe: Recipe,
    plan: TrialPlan,
    prepared: Prepared,
    train: Dataset,
    folder: Path,
    start: Path | None,
    values: Mapping[str, Any],
) -> float:
    """Train once with these values in place of the recipe's; return the saved model's score in float32."""
    if (found := read_part(folder)) is not None:
        return float(found["score"])
    task, labels = prepared.task, prepared.data.labels
    chosen = plan.settings.choose(values)
    arguments = build_arguments(
        choose_on_dev({"seed": recipe.seed, **chosen.training}, task), folder / TRAINING_FOLDER
    )
    set_seed(arguments.seed)
    student, cut = _load_start(recipe, prepared, start, arguments)
    teacher = plan.teacher() if plan.teacher is not None else None
    model, teacher_layers = match_models(
        student,
        teacher,
        plan.objectives(chosen),
        teacher_config=plan.teacher_config,
        channels=cut.hidden if cut is not None else None,
    )
    if teacher is not None:
        cast_linears(teacher, autocast_dtype(arguments))
    if start is None and model.projections is not None:
        model.projections.continue_from(saved_projections(recipe.student.model))
    state_size = plan.teacher_config.hidden_size if plan.teacher_config is not None else 0
    trainer = DistillationTrainer(
        model,
        teacher,
        args=arguments,
        data_collator=Collator(prepared.tokenizer, keep_row=True, state_size=state_size),
        train_dataset=train,
        eval_dataset=prepared.first_dev.encoded,
        processing_class=prepared.tokenizer,
        compute_metrics=prepared.first_dev.metrics,
        callbacks=[*plan.callbacks, *([WeightAverage(chosen.average)] if chosen.average else [])],
        teacher_layers=teacher_layers,
        shared=plan.shared,
    )
    outcome = train_to_the_end(trainer)
    if not arguments.should_save:
        return 0.0
    original = base_config(recipe.student, recipe.tokenizer_model)
    save_model(student, prepared.tokenizer, folder / STUDENT, original)
    saved = load_model(str(folder / STUDENT), task, labels, fine_tuned=True)
    score = score_model(saved, prepared.tokenizer, prepared.first_dev).metrics[task.headline].value
    content = {
        "score": score,
        "values": dict(values),
        **({"layer_map": list(teacher_layers)} if teacher_layers else {}),
        "losses": write_losses(folder / LOSSES, trainer.state.log_history),
        "steps": outcome.global_step,
        # Since the last start, if the run was interrupted.
        "seconds": {"training": round(outcome.metrics["train_runtime"], 3)},
        "precision": asdict(precision_of(arguments, chosen.training)),
        "seed": arguments.seed,
    }
    write_part(folder, content)
    remove_checkpoints(folder / TRAINING_FOLDER)
    return score


def _load_start(
    recipe: Recipe, prepared: Prepared, start: Path | None, arguments: TrainingArguments
) -> tuple[PreTrainedModel, Cut | None]:
    if start is None:
        return start_student(recipe, prepared, arguments)
    student = load_model(
        str(start),
        prepared.task,
        prepared.data.labels,
        fine_tuned=True,
        dropout=recipe.dropout,
        attention=choose_attention(recipe, arguments),
    )
    return student, None


def _try_all(
    space: Mapping[str, Sequence[Any]],
    folder: Path,
    run: Callable[[int, Mapping[str, Any]], float],
    arguments: TrainingArguments,
) -> list[Trial]:
    """Run every combination, best first. In a distributed run the first process announces the next one."""
    if not space:
        return [Trial(0, {}, run(0, {}))]
    if arguments.process_index > 0:
        while (order := broadcast_object_list([None])[0]) is not None:
            run(*order)
        return []

    def run_together(number: int, values: Mapping[str, Any]) -> float:
        broadcast_object_list([(number, values)])
        return run(number, values)

    trials = search_grid(space, folder, run_together)
    broadcast_object_list([None])
    return trials


def _copy(source: Path, target: Path) -> None:
    """Copy a file or folder, replacing what an interrupted run may have left."""
    if source.is_dir():
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target)
    elif source.exists():
        shutil.copyfile(source, target)
