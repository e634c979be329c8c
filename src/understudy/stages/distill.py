"""Task distillation: a student learns a fine-tuned teacher's part, in two stages."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import TrainingArguments

from understudy.errors import RecipeError
from understudy.evaluation.compare import compare
from understudy.evaluation.score import score_model
from understudy.models.pretrained import load_model
from understudy.models.student import check_start, parse_student
from understudy.models.teacher import load_teacher
from understudy.recipe.load import build_recipe, load_recipe, what_is_given
from understudy.recipe.recipe import Recipe
from understudy.stages.intermediate import distill_intermediate, match
from understudy.stages.prediction import distill_predictions
from understudy.stages.result import (
    INTERMEDIATE,
    PREDICTION,
    RESULT,
    STUDENT,
    StageResult,
    check_output,
    data_content,
    hash_model,
    resolve_paths,
    saved_recipe,
    score_content,
    start_output,
    versions,
    write_result,
)
from understudy.stages.training import Prepared, prepare, start_student
from understudy.training.arguments import build_arguments
from understudy.training.cpu import tune_cpu


def distill(
    teacher: str | Path | None = None,
    *,
    output_dir: str | Path,
    student: str | None = None,
    method: str = "tinybert",
    task: str | None = None,
    data: str | Path | None = None,
    recipe: str | Path | None = None,
    settings: Sequence[str] | Mapping[str, Any] = (),
    overwrite: bool = False,
) -> StageResult:
    """Distil a fine-tuned teacher into a small student and score both on the development set.

    Args:
        teacher: a folder or a hub name; one that `finetune` wrote knows its task and data.
        student: a shape (`tinybert-4l-312d`, `6l-384d`), or a saved encoder to start from; the
            recipe's where not given.
        method: `tinybert`, intermediate layers and then predictions.
        recipe: a shipped name or a file; `METHOD-TASK` where not given.
        settings: over the recipe, e.g. `{"prediction.temperature": 2}`.
        output_dir: gets the student in `student/`, result.json, recipe.yaml and a folder per stage. A
            run that was interrupted there continues.

    Example:
        >>> understudy.distill(                                    # doctest: +SKIP
        ...     "teachers/mrpc", student="tinybert-4l-312d", output_dir="students/mrpc"
        ... ).scores
        {'dev': {'f1': 0.83, 'accuracy': 0.75}}
    """
    return distill_from_recipe(
        distill_recipe(
            teacher,
            student=student,
            method=method,
            task=task,
            data=data,
            recipe=recipe,
            settings=settings,
        ),
        Path(output_dir),
        overwrite=overwrite,
    )


def distill_recipe(
    teacher: str | Path | None,
    *,
    student: str | None,
    method: str,
    task: str | None,
    data: str | Path | None,
    recipe: str | Path | None,
    settings: Sequence[str] | Mapping[str, Any],
) -> Recipe:
    """The recipe that a command's arguments describe, with what the teacher's own recipe knows."""
    given = what_is_given({"teacher": teacher, "data.source": data})
    if student is not None:
        given["student"] = parse_student(student)  # in place of the recipe's whole block
    saved = saved_recipe(teacher) if teacher is not None else None
    known = load_recipe(saved) if saved is not None else None
    if known is not None and task is None and recipe is None:
        task = known.task
    if recipe is not None and load_recipe(recipe).method != method:
        raise RecipeError(
            f"{recipe} is no recipe for --method {method}: its method is {load_recipe(recipe).method}."
        )
    built = build_recipe(method, given, task=task, recipe=recipe, settings=settings)
    no_data = not any(getattr(built.data, name) for name in ("source", "train", "dev"))
    if known is not None and known.task == built.task and no_data:
        # What the recipe says about the data (its length) stands; the rest is the teacher's.
        values = known.data.model_dump(exclude_defaults=True) | built.data.model_dump(exclude_defaults=True)
        built = built.model_copy(update={"data": type(built.data).model_validate(values)})
    return built


def distill_from_recipe(recipe: Recipe, output_dir: Path, *, overwrite: bool = False) -> StageResult:
    """Distil as a recipe says; see `distill`.

    In a distributed run every process returns, and the first one's result alone has content.
    """
    if recipe.teacher is None:
        raise RecipeError("teacher must be given: a folder or a hub name of a fine-tuned model.")
    check_start(recipe.student)
    if recipe.prediction is None:
        raise RecipeError("prediction must be given: without it a student's head learns nothing.")
    intermediate, prediction = recipe.intermediate, recipe.prediction
    recipe, output_dir = resolve_paths(recipe), output_dir.expanduser().resolve()
    check_output(output_dir, recipe, overwrite=overwrite)
    teacher = str(recipe.teacher)
    arguments = build_arguments({"seed": recipe.seed, **prediction.training}, output_dir)
    tune_cpu()
    prepared = prepare(recipe, teacher, arguments)
    _preflight(recipe, prepared, arguments)
    hashes = {"teacher": hash_model(teacher), **prepared.data.hashes}
    for name in (recipe.student.model, recipe.student.source):
        if name is not None:
            hashes["student"] = hash_model(name)
    with arguments.main_process_first(desc="preparing the output folder"):
        if arguments.should_save:
            start_output(output_dir, recipe, hashes, overwrite=overwrite)

    start = None
    if intermediate is not None:
        distill_intermediate(recipe, intermediate, prepared, output_dir / INTERMEDIATE)
        _wait(arguments)
        start = output_dir / INTERMEDIATE / STUDENT
    distill_predictions(
        recipe,
        prediction,
        prepared,
        output_dir / PREDICTION,
        start=start,
        teacher_hash=hashes["teacher"],
    )
    if not arguments.should_save:
        return StageResult(output_dir, {})
    shutil.rmtree(output_dir / STUDENT, ignore_errors=True)
    shutil.copytree(output_dir / PREDICTION / STUDENT, output_dir / STUDENT)
    content = _summary(recipe, prepared, output_dir, hashes)
    write_result(output_dir, content)
    return StageResult(output_dir, content)


def _preflight(recipe: Recipe, prepared: Prepared, arguments: TrainingArguments) -> None:
    """Find what would fail before anything is written: heads, labels, shapes, maps, widths."""
    teacher = load_teacher(str(recipe.teacher), prepared.task, prepared.data.labels)
    student = start_student(recipe, prepared, arguments, sample_rows=1)
    if recipe.intermediate is not None:
        match(student, teacher, recipe.intermediate)


def _summary(
    recipe: Recipe, prepared: Prepared, output_dir: Path, hashes: Mapping[str, str]
) -> dict[str, Any]:
    """Student beside teacher, and what each stage did."""
    task, labels = prepared.task, prepared.data.labels
    models = [
        load_model(name, task, labels, fine_tuned=True)
        for name in (str(output_dir / STUDENT), str(recipe.teacher))
    ]
    scores, others = (
        {split: score_model(model, prepared.tokenizer, rows) for split, rows in prepared.dev.items()}
        for model in models
    )
    stages = {
        name: json.loads((output_dir / name / RESULT).read_text("utf-8"))
        for name in (INTERMEDIATE, PREDICTION)
        if (output_dir / name / RESULT).exists()
    }
    return {
        "stage": "distill",
        "method": recipe.method,
        "task": task.name,
        "model": str(output_dir / STUDENT),
        **score_content(scores),
        "against": {"model": str(recipe.teacher), **score_content(others)},
        **compare(task, scores, others),
        **data_content(prepared.data),
        "parameters": dict(
            zip(("student", "teacher"), (model.num_parameters() for model in models), strict=True)
        ),
        "stages": stages,
        "seed": recipe.seed,
        "hashes": dict(hashes),
        "versions": versions(),
    }


def _wait(arguments: TrainingArguments) -> None:
    if arguments.world_size > 1:
        torch.distributed.barrier()
