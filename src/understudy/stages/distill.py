"""Task distillation: a student learns a fine-tuned teacher's part."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from understudy.artifacts.onnx import input_names
from understudy.data.load import TaskData
from understudy.errors import RecipeError
from understudy.evaluation.compare import compare
from understudy.evaluation.score import Score, score_model
from understudy.files import hash_file
from understudy.models.pretrained import load_model
from understudy.models.student import STUDENT, check_start, place_shape, student_inside, student_settings
from understudy.recipe.distillation import Method
from understudy.recipe.load import build_recipe, load_recipe, parse_settings, what_is_given
from understudy.recipe.recipe import Recipe
from understudy.stages.described import describe_input
from understudy.stages.methods import Run, main_block, preflight, teach
from understudy.stages.result import (
    RESULT,
    STAGES,
    StageResult,
    check_output,
    data_content,
    hash_model,
    hash_start,
    refuse_other_stages,
    resolve_paths,
    saved_recipe,
    score_content,
    start_output,
    versions,
    why_no_recipe,
    write_outcomes,
    write_result,
)
from understudy.stages.training import Prepared, prepare
from understudy.training.arguments import build_arguments
from understudy.training.cpu import tune_cpu

# What the shipped recipes of a method are called.
PREFIXES = {"tinybert": "tinybert", "patient": "pkd", "soft-labels": "soft-labels"}


def distill_recipe(
    teacher: str | Path | None,
    *,
    student: str | None,
    method: str,
    predictions: str | Path | None,
    task: str | None,
    data: str | Path | None,
    recipe: str | Path | None,
    settings: Sequence[str] | Mapping[str, Any],
    without: Sequence[str] = (),
) -> Recipe:
    """The recipe that a command's arguments describe, with what the teacher's own recipe knows.

    Args:
        without: blocks of the named recipe that are left out.
    """
    if method not in get_args(Method):
        raise RecipeError(f"--method must be one of {', '.join(get_args(Method))}; got {method!r}.")
    if predictions is not None and method != "soft-labels":
        raise RecipeError("--predictions goes with --method soft-labels: a file has no layers to learn from.")
    teacher = student_inside(teacher) if teacher is not None else None
    given: dict[str, Any] = dict.fromkeys(without)
    given |= what_is_given({"teacher": teacher, "data.source": data, "soft_labels.predictions": predictions})
    settings = parse_settings(settings)
    if student is not None:
        start = student_settings(student)
        if "student" in start:
            given |= start
        else:
            settings = start | settings
    settings = place_shape(settings)
    saved = saved_recipe(teacher) if teacher is not None else None
    known = load_recipe(saved) if saved is not None else None
    if known is not None and task is None and recipe is None:
        task = known.task
    if recipe is not None and load_recipe(recipe).method != method:
        raise RecipeError(
            f"{recipe} is no recipe for --method {method}: its method is {load_recipe(recipe).method}."
        )
    if task is None and recipe is None and teacher is not None:
        raise RecipeError(f"--task or --recipe must be given, e.g. --task mrpc: {why_no_recipe(teacher)}.")
    built = build_recipe(PREFIXES[method], given, task=task, recipe=recipe, settings=settings)
    no_data = not any(getattr(built.data, name) for name in ("source", "train", "dev"))
    if known is not None and known.task == built.task and no_data:
        # What the recipe says about the data (its length) stands; the rest is the teacher's.
        values = known.data.model_dump(exclude_defaults=True) | built.data.model_dump(exclude_defaults=True)
        built = built.model_copy(update={"data": type(built.data).model_validate(values)})
    return built


def distill_from_recipe(recipe: Recipe, output_dir: Path, *, overwrite: bool = False) -> StageResult:
    """Distil as a recipe says: train the student, score it beside its teacher.

    In a distributed run every process returns, and the first one's result alone has content.
    """
    predictions = recipe.soft_labels.predictions if recipe.soft_labels is not None else None
    if recipe.teacher is None and predictions is None:
        raise RecipeError(
            "teacher must be given: a folder or a hub name of a fine-tuned model; or, with method: "
            "soft-labels, soft_labels.predictions: a file of predictions."
        )
    check_start(recipe.student)
    refuse_other_stages(recipe)
    recipe, output_dir = resolve_paths(recipe), output_dir.expanduser().resolve()
    check_output(output_dir, recipe, overwrite=overwrite)
    arguments = build_arguments({"seed": recipe.seed, **main_block(recipe).training}, output_dir)
    tune_cpu()
    prepared = prepare(recipe, recipe.reader, arguments)
    hashes = hash_inputs(recipe, prepared.data)
    run = Run(recipe, prepared, output_dir, hashes.get("teacher"))
    preflight(run)
    with arguments.main_process_first(desc="preparing the output folder"):
        if arguments.should_save:
            start_output(output_dir, recipe, hashes, overwrite=overwrite)
    last = teach(run)
    if not arguments.should_save:
        return StageResult(output_dir, {})
    shutil.rmtree(output_dir / STUDENT, ignore_errors=True)
    shutil.copytree(output_dir / last / STUDENT, output_dir / STUDENT)
    content, scores = _summary(recipe, prepared, output_dir, hashes)
    write_outcomes(output_dir, scores)
    write_result(output_dir, content)
    return StageResult(output_dir, content)


def hash_inputs(recipe: Recipe, data: TaskData) -> dict[str, str]:
    """Of all that a distillation is made of: rows, teacher or predictions, and the student's start."""
    hashes = dict(data.hashes)
    predictions = recipe.soft_labels.predictions if recipe.soft_labels is not None else None
    if recipe.teacher is not None:
        hashes["teacher"] = hash_model(recipe.teacher)
    elif predictions is not None and Path(predictions).is_file():  # another is refused in a moment
        hashes["predictions"] = hash_file(Path(predictions))
    return hashes | hash_start(recipe)


def _summary(
    recipe: Recipe, prepared: Prepared, output_dir: Path, hashes: Mapping[str, str]
) -> tuple[dict[str, Any], dict[str, dict[str, Score]]]:
    """Student beside teacher, where there is one, and what each stage did; and the scores with all rows."""
    task = prepared.task
    names = {"student": str(output_dir / STUDENT)}
    if recipe.teacher is not None:
        names["teacher"] = recipe.teacher
    models = {
        who: load_model(name, task, prepared.data.labels, fine_tuned=True) for who, name in names.items()
    }
    scores = {
        who: {split: score_model(model, prepared.tokenizer, rows) for split, rows in prepared.dev.items()}
        for who, model in models.items()
    }
    inputs = input_names(models["student"], prepared.tokenizer.model_input_names)
    beside: dict[str, Any] = {}
    if recipe.teacher is not None:
        beside = {
            "against": {"model": recipe.teacher, **score_content(scores["teacher"])},
            **compare(task, scores["student"], scores["teacher"]),
        }
    stages = {
        name: json.loads((output_dir / name / RESULT).read_text("utf-8"))
        for name in STAGES
        if (output_dir / name / RESULT).exists()
    }
    content = {
        "stage": "distill",
        "method": recipe.method,
        "task": task.name,
        "model": str(output_dir / STUDENT),
        **score_content(scores["student"]),
        **beside,
        **data_content(prepared.data),
        "input": describe_input(recipe, prepared.tokenizer, prepared.data, inputs),
        "parameters": {who: model.num_parameters() for who, model in models.items()},
        "stages": stages,
        "seed": recipe.seed,
        "hashes": dict(hashes),
        "versions": versions(),
    }
    return content, scores
