"""Whole runs of several students of one teacher, and the smallest that loses no more than it may."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from understudy.distillation.agreement import resolve_distillation
from understudy.models.pretrained import load_config
from understudy.models.settings import name_students, student_inside
from understudy.pipeline.messages import show_messages
from understudy.pipeline.preflight.checks import preflight
from understudy.pipeline.run import make_all, refuse, run_from_recipe, run_recipe, start_state
from understudy.pipeline.run_stages import stages_of
from understudy.pipeline.student import Distilled
from understudy.planning.budget import smaller_shapes
from understudy.recipe.load import parse_settings
from understudy.recipe.recipe import Recipe
from understudy.recipe.resolve import input_paths
from understudy.report.figures import find_model, shipped_form
from understudy.report.frontier import holds, summarize_students, write_frontier
from understudy.stages.bench import bench
from understudy.training.shared import SharedTeacher
from understudy.workspace.folders import (
    ARTIFACT_FOLDER,
    RESULT,
    STATE,
    TEACHER,
    TEACHER_INT8,
    check_apart,
    check_free,
)
from understudy.workspace.lock import only_process_in
from understudy.workspace.objects import data_settings, model_path
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
    model: str | Path,
    students: Sequence[str] = (),
    *,
    output_dir: str | Path,
    lose: float | None = None,
    task: str | None = None,
    data: str | Path | Mapping[str, Any] | None = None,
    recipe: str | Path | None = None,
    settings: Sequence[str] | Mapping[str, Any] = (),
    callbacks: Sequence[TrainerCallback] = (),
    overwrite: bool = False,
) -> StudentsResult:
    """Run the whole way for several students of one teacher, and compare them.

    Without `lose`, all students learn at once, and each forward pass of the teacher serves all of them. With
    it, they are trained from the first to the last, until one loses more points than that.

    Args:
        model: a fine-tuned teacher, or an encoder that becomes one, once for all students.
        students: shapes, or saved encoders, the largest first. Defaults to five shapes from half of the
            teacher's layers down.
        lose: the points of the first metric that a student may lose; the fastest one that loses no more is
            chosen. Without it, `tolerate` of the recipe is what it may lose.
        task, data, recipe, settings, callbacks: see `run`.
        output_dir: gets a run per student, in a folder of its name, and report.html with the comparison.

    Examples:
        >>> found = understudy.run_students(                       # doctest: +SKIP
        ...     "teachers/sst2", lose=2, output_dir="runs/sst2"
        ... )
        >>> found.chosen                                           # doctest: +SKIP
        '6l-384d'
    """
    output_dir = Path(output_dir).expanduser().resolve()
    given: dict[str, Any] = {"task": task, "recipe": recipe, "data": None}
    given["settings"] = {**data_settings(data), **parse_settings(settings)}
    if lose is not None:
        given["settings"] = {**given["settings"], "tolerate": lose, "student.target": None}
    with show_messages(), only_process_in(output_dir):
        path = str(model_path(model, None))
        if not students:
            students = [shape.name for shape in smaller_shapes(load_config(str(student_inside(path))))]
        named = name_students(list(students))
        first = run_recipe(path, student=next(iter(named.values())), **given)
        check_free(output_dir, (STATE,))
        check_apart(output_dir, input_paths(first))
        output_dir.mkdir(parents=True, exist_ok=True)
        start_state(output_dir, overwrite=overwrite)
        if first.teacher is None:
            path = _make_teacher(first, output_dir, callbacks)
            given["settings"] = _without_finetune(given["settings"], first)
        recipes = {name: run_recipe(path, student=student, **given) for name, student in named.items()}
        again: dict[str, Any] = {"overwrite": overwrite, "callbacks": callbacks}
        if lose is None:
            runs = _run_together(recipes, output_dir, again)
        else:
            runs = _run_until(recipes, output_dir, lose, again)
        contents = {name: run.content for name, run in runs.items()}
        content = summarize_students(contents, first.tolerate, _time_all(path, contents, output_dir))
        (output_dir / RESULT).unlink(missing_ok=True)
        write_frontier(output_dir, content)
        write_result(output_dir, content)
    return StudentsResult(output_dir, content)


def _make_teacher(recipe: Recipe, output_dir: Path, callbacks: Sequence[TrainerCallback]) -> str:
    """Fine-tune the teacher of all students, unless that is done; return its folder."""
    planned, findings = preflight(resolve_distillation(recipe), output_dir)
    refuse(findings)
    make_all([next(stages_of(planned, callbacks))], output_dir)
    return str(output_dir / TEACHER)


def _without_finetune(settings: Mapping[str, Any], recipe: Recipe) -> dict[str, Any]:
    """Return the settings of students whose teacher is fine-tuned; its encoder still augments."""
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
    models = {"teacher": str(student_inside(teacher))}
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
    """Run the students in their order, up to the first that loses too much."""
    runs = {}
    for name, recipe in recipes.items():
        logger.info("Student %s", name)
        runs[name] = run_from_recipe(recipe, output_dir / name, **options)
        if not holds(runs[name].content, lose):
            left = list(recipes)[len(runs) :]
            if left:
                logger.info("%s loses more than %g points; smaller ones are left out.", name, lose)
            break
    return runs
