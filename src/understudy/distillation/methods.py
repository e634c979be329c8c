"""The methods of distillation and their stages."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from datasets import Dataset
from numpy.typing import NDArray
from transformers import PreTrainedModel, TrainerCallback

from understudy.data.encode import TEACHER_STATES
from understudy.distillation.folds import answer_by_folds, read_folds
from understudy.distillation.layers import distill_intermediate, layer_objectives, match
from understudy.distillation.predictions_file import add_predictions
from understudy.distillation.rows import Prepared, start_student
from understudy.distillation.runs import choose_on_dev, whole_batch
from understudy.distillation.teacher_cache import add_teacher_answers
from understudy.distillation.trials import TrialPlan, train_trials
from understudy.errors import RecipeError
from understudy.models.cut import Cut
from understudy.models.layer_map import layer_map
from understudy.models.pretrained import check_max_length, load_config
from understudy.models.settings import STUDENT
from understudy.models.student import base_config
from understudy.models.teacher import load_teacher
from understudy.recipe.distillation import (
    IntermediateSettings,
    JointSettings,
    PatientSettings,
    PredictionSettings,
    SoftLabelSettings,
    TrialSettings,
)
from understudy.recipe.recipe import STAGES, Recipe
from understudy.training.arguments import build_arguments
from understudy.training.model import match_models
from understudy.training.objectives import JointObjectives, PatientObjectives, PredictionObjectives
from understudy.training.shared import SharedTeacher
from understudy.workspace.folders import INTERMEDIATE, JOINT, PATIENT, PREDICTION, SOFT_LABELS
from understudy.workspace.hashes import hash_model
from understudy.workspace.result import read_part

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Distillation:
    """A distillation: its recipe, rows, output folder, callbacks for every trainer, and how it shares its
    teacher with other students, if it does."""

    recipe: Recipe
    prepared: Prepared
    output_dir: Path
    teacher_hash: str | None
    callbacks: Sequence[TrainerCallback] = ()
    shared: SharedTeacher | None = None

    @property
    def teacher(self) -> str:
        assert self.recipe.teacher is not None  # distill checked it
        return self.recipe.teacher

    def load_teacher(self) -> PreTrainedModel:
        return load_teacher(self.teacher, self.prepared.task, self.prepared.data.labels)


def main_block(recipe: Recipe) -> TrialSettings:
    """Return the block of a method's last stage, which every recipe of that method must have."""
    names = {"tinybert": "prediction", "joint": "joint", "soft-labels": "soft_labels", "patient": "patient"}
    name = names[str(recipe.method)]
    block: TrialSettings | None = getattr(recipe, name)
    if block is None:
        raise RecipeError(f"{name} must be given with method: {recipe.method}; without it nothing is learnt.")
    return block


def check_distillation(run: Distillation) -> None:
    """Check heads, labels, shapes, layer maps and widths before anything is written."""
    recipe = run.recipe
    arguments = build_arguments(main_block(recipe).training, run.output_dir)
    for name in STAGES:
        block: TrialSettings | IntermediateSettings | None = getattr(recipe, name)
        for choice in block.choices() if block is not None else ():
            try:
                build_arguments(choose_on_dev(choice.training, run.prepared.task), run.output_dir)
            except RecipeError as error:
                raise RecipeError(f"{name}.{error}") from None
    student, cut = start_student(recipe, run.prepared, arguments, draft=True)
    check_max_length(student.config, run.prepared.tokenizer, recipe.max_length)
    if recipe.prediction is not None:
        _check_vectors(recipe.prediction, run.prepared.task.kind.vector_size(student.config))
    if arguments.should_save:
        logger.info("Student: %s", _describe_student(recipe, student))
    if recipe.teacher is None:
        with_answers(run, main_block(recipe), quiet=True)
        return
    if recipe.unseen:
        read_folds(run.teacher, run.prepared.data, run.prepared.task.rows)
    teacher = run.load_teacher()
    if recipe.intermediate is not None:
        match(student, teacher, recipe.intermediate, cut)
    for joint in recipe.joint.choices() if recipe.joint is not None else ():
        if joint.layers:
            match(student, teacher, joint, cut)
    if recipe.patient is not None:
        _match_patient(run, recipe.patient, student, cut)


def _check_vectors(settings: PredictionSettings, size: int | None) -> None:
    """Refuse settings for vectors if the student makes none, or shorter ones."""
    for name in ("dimensions", "similarities"):
        is_given = bool(getattr(settings, name)) or name in settings.search
        if is_given and size is None:
            raise RecipeError(f"prediction.{name} is for embeddings: this task has no vectors. Leave it out.")
    too_large = [one for one in settings.dimensions if size is not None and one >= size]
    if too_large:
        raise RecipeError(
            f"prediction.dimensions must be smaller than the vectors, which have {size} numbers; got "
            f"{too_large[0]}."
        )


def _describe_student(recipe: Recipe, student: PreTrainedModel) -> str:
    """Describe a student's size and start."""
    config, settings = student.config, recipe.student
    layers = f"{config.num_hidden_layers} layer{'s' * (config.num_hidden_layers != 1)}"
    size = f"{layers} of {config.hidden_size}, {student.num_parameters() / 1e6:.1f}M"
    if settings.start == "cut":
        chosen = settings.layers or "spaced"
        return f"{size} parameters, cut from {settings.source or 'its teacher'} (layers: {chosen})"
    return f"{size} parameters, " + (f"from {settings.model}" if settings.model else "from random weights")


def teach(run: Distillation) -> str:
    """Distil with the recipe's method, and return the name of the stage that holds the student."""
    return _METHODS[str(run.recipe.method)](run)


def _tinybert(run: Distillation) -> str:
    recipe, start = run.recipe, None
    settings = main_block(recipe)
    assert isinstance(settings, PredictionSettings)
    if recipe.intermediate is not None:
        distill_intermediate(
            recipe,
            recipe.intermediate,
            run.prepared,
            run.output_dir / INTERMEDIATE,
            callbacks=run.callbacks,
            shared=run.shared,
        )
        if torch.distributed.is_initialized():
            torch.distributed.barrier()  # the first process has saved it
        start = run.output_dir / INTERMEDIATE / STUDENT
    padded = recipe.normalization == "padded"
    kind = run.prepared.task.kind
    plan = TrialPlan(
        settings,
        lambda: with_answers(run, settings),
        lambda chosen: PredictionObjectives(
            kind,
            chosen.temperature,
            padded,
            dimensions=chosen.dimensions,
            similarities=chosen.similarities,
        ),
        callbacks=run.callbacks,
    )
    train_trials(recipe, plan, run.prepared, run.output_dir / PREDICTION, start=start)
    return PREDICTION


def _joint(run: Distillation) -> str:
    """Train on layers, predictions and labels in one sum; the teacher runs beside the student."""
    recipe, settings = run.recipe, run.recipe.joint
    assert settings is not None
    plan = TrialPlan(
        settings,
        lambda: run.prepared.epoch,
        lambda chosen: joint_objectives(run.prepared, chosen, padded=recipe.normalization == "padded"),
        callbacks=run.callbacks,
        teacher=run.load_teacher,
        shared=run.shared,
    )
    train_trials(recipe, plan, run.prepared, run.output_dir / JOINT, start=None)
    return JOINT


def joint_objectives(prepared: Prepared, settings: JointSettings, *, padded: bool) -> JointObjectives:
    """Return the objectives of the joint method with the settings of a block of the recipe."""
    return JointObjectives(
        prepared.task.kind,
        layer_objectives(settings, padded=padded),
        layers=settings.layers,
        until=settings.until,
        predictions=settings.predictions,
        labels=settings.labels,
        unlabelled_layers=settings.rows == "unlabelled",
        temperature=settings.temperature,
        class_weights=prepared.class_weights,
    )


def _soft_labels(run: Distillation, *, layers: tuple[int, ...] = ()) -> str:
    """Train on labels and soft labels. The states of `layers` are cached too, for a following stage."""
    settings = run.recipe.soft_labels
    assert settings is not None

    def train() -> Dataset:
        rows = with_answers(run, settings, layers)
        return rows.remove_columns([TEACHER_STATES]) if layers else rows

    plan = TrialPlan(
        settings,
        train,
        lambda chosen: PatientObjectives(
            run.prepared.task.kind,
            alpha=chosen.alpha,
            temperature=chosen.temperature,
            squared=chosen.squared,
            class_weights=run.prepared.class_weights,
        ),
        callbacks=run.callbacks,
    )
    train_trials(run.recipe, plan, run.prepared, run.output_dir / SOFT_LABELS, start=None)
    return SOFT_LABELS


def _patient(run: Distillation) -> str:
    """Follow the paper's order: choose α and T with plain soft labels, then β with these fixed."""
    settings = main_block(run.recipe)
    assert isinstance(settings, PatientSettings)
    teacher_layers = _patient_layers(run, settings)
    soft = run.recipe.soft_labels or SoftLabelSettings()
    if soft.search:
        _soft_labels(run, layers=teacher_layers)
        if torch.distributed.is_initialized():
            torch.distributed.barrier()  # the first process has chosen
        result = read_part(run.output_dir / SOFT_LABELS)
        assert result is not None  # the first process has written it
        soft = soft.choose(result["values"])
    plan = TrialPlan(
        settings,
        lambda: with_answers(run, settings, teacher_layers),
        lambda chosen: patient_objectives(run.prepared, soft, chosen),
        teacher_config=load_config(run.teacher),
        callbacks=run.callbacks,
    )
    train_trials(run.recipe, plan, run.prepared, run.output_dir / PATIENT, start=None)
    return PATIENT


_METHODS: Mapping[str, Callable[[Distillation], str]] = {
    "tinybert": _tinybert,
    "joint": _joint,
    "soft-labels": _soft_labels,
    "patient": _patient,
}


def with_answers(
    run: Distillation, settings: TrialSettings, layers: tuple[int, ...] = (), *, quiet: bool = False
) -> Dataset:
    """Return the training rows with the teacher's predictions, or those of a file.

    If nothing is learnt from predictions (α = 0: plain training on labels), the rows are unchanged.
    """
    if isinstance(settings, SoftLabelSettings) and settings.predictions is not None:
        prepared, file = run.prepared, Path(settings.predictions)
        return add_predictions(prepared.train, prepared.task.kind, prepared.data.labels, file, quiet=quiet)
    assert run.teacher_hash is not None  # distill asked for a teacher
    arguments = build_arguments({"seed": run.recipe.seed, **settings.training}, run.output_dir)
    places = places_that_are_read(run, settings)
    rows, order = run.prepared.train, None
    if places is not None:
        asked, order = np.unique(places, return_inverse=True)  # the teacher predicts each row once
        if len(asked) < len(rows):
            if arguments.should_save:
                logger.info("The steps read %s of %s rows.", f"{len(asked):,}", f"{len(rows):,}")
            rows = rows.select(asked)

    def answer(asked_rows: Dataset, model: str) -> Dataset:
        return add_teacher_answers(
            asked_rows,
            run.prepared.task.kind,
            lambda: load_teacher(model, run.prepared.task, run.prepared.data.labels),
            run.prepared.tokenizer,
            str(run.teacher_hash) if model == run.teacher else hash_model(model),
            arguments,
            layers=layers,
        )

    if not layers and isinstance(settings, SoftLabelSettings) and not settings.reads_predictions:
        answered = rows
    elif run.recipe.unseen:
        folds = read_folds(run.teacher, run.prepared.data, run.prepared.task.rows)
        answered = answer_by_folds(rows, run.teacher, folds, answer)
    else:
        answered = answer(rows, run.teacher)
    is_each_once = order is None or np.array_equal(order, np.arange(len(rows)))
    return answered if is_each_once else answered.select(order)


def places_that_are_read(run: Distillation, settings: TrialSettings) -> NDArray[np.int64] | None:
    """Return the places of the training rows that the steps read; None if they read each row once.

    If `max_steps` ends every trial before the end of the first epoch, only as many rows as the steps read are
    drawn, with the seed.
    """
    places, longest = run.prepared.places, 0
    num_rows = len(run.prepared.train) if places is None else len(places)
    for choice in settings.choices():
        arguments = build_arguments(choice.training, run.output_dir)
        steps = arguments.max_steps
        longest = max(longest, steps * whole_batch(arguments) if steps > 0 else num_rows)
    if longest >= num_rows:
        return places
    drawn = np.sort(np.random.default_rng(run.recipe.seed).permutation(num_rows)[:longest])
    return drawn if places is None else places[drawn]


def _patient_layers(run: Distillation, settings: PatientSettings) -> tuple[int, ...]:
    """Return the teacher layer of each student layer."""
    num_student = base_config(run.recipe.student, run.teacher).num_hidden_layers
    return layer_map(settings.layer_map, num_student, load_config(run.teacher).num_hidden_layers)


def patient_objectives(
    prepared: Prepared, soft: SoftLabelSettings, settings: PatientSettings
) -> PatientObjectives:
    """Build Patient KD's objectives from two blocks of the recipe."""
    return PatientObjectives(
        prepared.task.kind,
        settings.layer_map,
        alpha=soft.alpha,
        beta=settings.beta,
        temperature=soft.temperature,
        squared=soft.squared,
        normalized=settings.normalized,
        projection=settings.projection,
        class_weights=prepared.class_weights,
    )


def _match_patient(
    run: Distillation, settings: PatientSettings, student: PreTrainedModel, cut: Cut | None
) -> None:
    try:
        match_models(
            student,
            None,
            patient_objectives(run.prepared, SoftLabelSettings(), settings),
            teacher_config=load_config(run.teacher),
            channels=cut.hidden if cut is not None else None,
        )
    except RecipeError as error:
        raise RecipeError(f"patient.{error}") from None
