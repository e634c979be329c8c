"""Whole runs of several students of one teacher, and the choice of one by its loss of score."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from datasets import Dataset
from transformers import PreTrainedModel, PreTrainedTokenizerFast, TrainerCallback

from understudy.distillation.agreement import resolve_distillation
from understudy.errors import RecipeError
from understudy.models.pretrained import load_config
from understudy.models.settings import name_students, refuse_one_shape, teacher_inside
from understudy.pipeline.messages import show_messages
from understudy.pipeline.preflight.checks import preflight
from understudy.pipeline.preflight.planned_run import PlannedRun
from understudy.pipeline.run import make_all, refuse, run_from_recipe, run_recipe, start_state
from understudy.pipeline.run_stages import stages_of
from understudy.pipeline.student import Distilled
from understudy.planning.budget import smaller_shapes
from understudy.recipe.recipe import Recipe
from understudy.recipe.resolve import input_paths
from understudy.report.figures import find_model, shipped_form
from understudy.report.frontier import holds, summarize_students, write_frontier
from understudy.report.page import REPORT
from understudy.stages.bench import bench
from understudy.training.arguments import check_callbacks
from understudy.training.shared import SharedTeacher
from understudy.workspace.folders import (
    ARTIFACT_FOLDER,
    RESULT,
    STATE,
    TEACHER,
    TEACHER_INT8,
    check_apart,
    check_free,
    refuse_single_run,
)
from understudy.workspace.lock import only_process_in
from understudy.workspace.objects import given_settings, model_path
from understudy.workspace.result import StageResult, write_result

logger = logging.getLogger(__name__)


class StudentsResult(StageResult):
    """Several students of one teacher."""

    @property
    def chosen(self) -> str | None:
        """The name of the fastest student that loses no more than it may; None if there is none."""
        name: str | None = self.content["chosen"]
        return name

    @property
    def students(self) -> dict[str, Distilled]:
        """The students by name."""
        assert self.output_dir is not None
        return {
            name: Distilled(self.output_dir / name, one["run"])
            for name, one in self.content["students"].items()
        }


def run_students(
    model: str | Path | PreTrainedModel,
    students: Sequence[str] = (),
    *,
    output_dir: str | Path,
    lose: float | None = None,
    task: str | None = None,
    data: str | Path | Mapping[str, Any] | None = None,
    unlabelled: Sequence[str | Path | Dataset] = (),
    recipe: str | Path | None = None,
    settings: Sequence[str] | Mapping[str, Any] = (),
    metric: str | None = None,
    processing_class: PreTrainedTokenizerFast | None = None,
    revision: str | None = None,
    callbacks: Sequence[TrainerCallback] = (),
    overwrite: bool = False,
) -> StudentsResult:
    """Do a whole run for each of several students of one teacher, and compare them.

    Without `lose`, all students learn at once, and each forward pass of the teacher serves all of them. With
    it, they are trained one after the other, until one loses more points than that.

    Args:
        model: a fine-tuned teacher, or an encoder, which is fine-tuned once for all students.
        students: shapes, or saved encoders, the largest first. Defaults to five shapes from half of the
            teacher's layers down.
        lose: the points of the first metric that a student may lose. Defaults to the recipe's `tolerate`. The
            fastest student that loses no more is chosen.
        task, data, unlabelled, recipe, settings, metric, processing_class, revision, callbacks: see `run`.
        output_dir: gets a run per student, in a folder named after it, and report.html with the comparison.

    Examples:
        >>> found = understudy.run_students(                       # doctest: +SKIP
        ...     "teachers/sst2", lose=2, output_dir="runs/sst2"
        ... )
        >>> found.chosen                                           # doctest: +SKIP
        '6l-384d'
    """
    check_callbacks(callbacks)
    output_dir = Path(output_dir).expanduser().resolve()
    chosen = given_settings(data, unlabelled, metric, settings)
    refuse_one_shape(chosen)
    if lose is not None:
        if chosen.get("tolerate") is not None:
            raise RecipeError("--tolerate and the target say the same: what may be lost. Leave one out.")
        chosen["tolerate"] = lose
    with show_messages(), only_process_in(output_dir):
        path = str(model_path(model, processing_class, revision=revision))
        if not students:
            students = [shape.name for shape in smaller_shapes(load_config(str(teacher_inside(path))))]
        named = name_students(list(students))

        def build(path: str) -> dict[str, Recipe]:
            return {
                name: run_recipe(path, student=student, task=task, data=None, recipe=recipe, settings=chosen)
                for name, student in named.items()
            }

        recipes = build(path)
        first = next(iter(recipes.values()))
        refuse_single_run(output_dir)
        check_free(output_dir, (STATE,))
        check_apart(output_dir, input_paths(first))
        planned = _check_all(recipes, output_dir)
        output_dir.mkdir(parents=True, exist_ok=True)
        for name in (RESULT, REPORT):
            (output_dir / name).unlink(missing_ok=True)  # left by an earlier call
        start_state(output_dir, overwrite=overwrite)
        if first.teacher is None:
            path = _make_teacher(replace(planned, output_dir=output_dir), callbacks)
            chosen = _without_finetune(chosen, first)
            recipes = build(path)
        again: dict[str, Any] = {"overwrite": overwrite, "callbacks": callbacks}
        if lose is None:
            runs = _run_together(recipes, output_dir, again)
        else:
            runs = _run_until(recipes, output_dir, lose, again)
        contents = {name: run.content for name, run in runs.items()}
        content = summarize_students(contents, first.tolerate, _time_all(path, contents, output_dir))
        write_frontier(output_dir, content)
        write_result(output_dir, content)
    return StudentsResult(output_dir, content)


def _check_all(recipes: Mapping[str, Recipe], output_dir: Path) -> PlannedRun:
    """Check for every student what would fail later; return the plan of the first."""
    plans, findings = [], []
    for name, recipe in recipes.items():
        logger.info("Checking %s", name)
        planned, found = preflight(resolve_distillation(recipe), output_dir / name)
        plans.append(planned)
        findings += [replace(one, check=f"{name}, {one.check}") for one in found if one.level == "error"]
    refuse(findings)
    return plans[0]


def _make_teacher(planned: PlannedRun, callbacks: Sequence[TrainerCallback]) -> str:
    """Fine-tune the teacher of all students, unless that is done; return its folder."""
    make_all([next(stages_of(planned, callbacks))], planned.output_dir)
    return str(planned.output_dir / TEACHER)


def _without_finetune(settings: Mapping[str, Any], recipe: Recipe) -> dict[str, Any]:
    """Return settings for students whose teacher is already fine-tuned; its encoder still augments."""
    left = {name: value for name, value in settings.items() if name.partition(".")[0] != "finetune"}
    return {"augment.model": recipe.augment.model, **left} if recipe.augment is not None else left


def _run_together(
    recipes: Mapping[str, Recipe], output_dir: Path, options: Mapping[str, Any]
) -> dict[str, Distilled]:
    shared = SharedTeacher()
    return shared.run_all(
        {
            name: partial(run_from_recipe, recipe, output_dir / name, shared=shared, **options)
            for name, recipe in recipes.items()
        }
    )


def _time_all(teacher: str, runs: Mapping[str, Mapping[str, Any]], output_dir: Path) -> dict[str, float]:
    """Time teacher and students in one measurement; return the milliseconds for one text, by name."""
    first = next(iter(runs))
    models = {"teacher": str(teacher_inside(teacher))}
    if find_model(runs[first], "teacher, int8") is not None:
        models["teacher, int8"] = f"{output_dir / first / TEACHER_INT8}:int8"
    for name, run in runs.items():
        form = str(shipped_form(run)["model"]).removeprefix("student, ")
        models[name] = f"{output_dir / name / ARTIFACT_FOLDER}:{form}"
    logger.info("Timing %d models side by side", len(models))
    timed = bench(list(models.values()), batches=(1,), lengths=(runs[first]["length"],)).content
    return {name: row["median_ms"] for name, row in zip(models, timed["rows"], strict=True)}


def _run_until(
    recipes: Mapping[str, Recipe], output_dir: Path, lose: float, options: Mapping[str, Any]
) -> dict[str, Distilled]:
    """Run the students in order, up to the first that loses too much."""
    runs = {}
    for name, recipe in recipes.items():
        logger.info("Student %s", name)
        runs[name] = run_from_recipe(recipe, output_dir / name, **options)
        if not holds(runs[name].content, lose):
            logger.info("%s loses more than %g points: the search ends here.", name, lose)
            break
    return runs
