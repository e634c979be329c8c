"""Task distillation: a student learns a task from a fine-tuned teacher."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from transformers import TrainerCallback

from understudy.data.load import load_data
from understudy.data.sources import dev_splits
from understudy.distillation.agreement import resolve_distillation
from understudy.distillation.methods import Distillation, check_distillation, main_block, teach
from understudy.distillation.rows import prepare
from understudy.distillation.summary import hash_inputs, summarize_distillation
from understudy.distillation.vocabulary import hash_vocabulary, with_vocabulary
from understudy.errors import OutputError
from understudy.models.heads import model_labels
from understudy.models.pretrained import load_config
from understudy.models.settings import STUDENT, check_start
from understudy.planning.budget import with_target
from understudy.recipe.inputs import check_has_teacher
from understudy.recipe.load import load_recipe
from understudy.recipe.recipe import Recipe
from understudy.recipe.resolve import refuse_other_stages
from understudy.training.arguments import build_arguments, check_callbacks
from understudy.training.cpu import tune_cpu
from understudy.training.shared import SharedTeacher
from understudy.workspace.folders import (
    RECIPE,
    RESULT,
    check_output,
    refuse_single_run,
    remove_leftovers,
    start_output,
)
from understudy.workspace.hashes import hash_model
from understudy.workspace.lock import one_at_a_time
from understudy.workspace.result import write_outcomes, write_result
from understudy.workspace.results import DistillResult


@one_at_a_time
def distill_from_recipe(
    recipe: Recipe,
    output_dir: Path,
    *,
    overwrite: bool = False,
    callbacks: Sequence[TrainerCallback] = (),
    shared: SharedTeacher | None = None,
) -> DistillResult:
    """Distil according to a recipe: train the student and score it next to its teacher.

    In a distributed run every process returns, but only the first one's result has content.
    """
    check_callbacks(callbacks)
    check_has_teacher(recipe)
    check_start(recipe.student)
    refuse_other_stages(recipe)
    output_dir = output_dir.expanduser().resolve()
    arguments = build_arguments({"seed": recipe.seed, **main_block(recipe).training}, output_dir)
    with arguments.main_process_first(desc="preparing the development set"):
        recipe = with_target(resolve_distillation(recipe), output_dir)
    check_output(output_dir, recipe, overwrite=overwrite)
    tune_cpu()
    prepared = prepare(recipe, recipe.tokenizer_model, arguments)
    hashes = hash_inputs(recipe, prepared.data) | hash_vocabulary(recipe)
    with arguments.main_process_first(desc="choosing the vocabulary"):
        learnt, vocabulary = with_vocabulary(recipe, prepared)
    teacher_hash = hashes.get("teacher")
    if vocabulary is not None:
        prepared = prepare(learnt, learnt.tokenizer_model, arguments)
        teacher_hash = hash_model(str(learnt.teacher))
    run = Distillation(learnt, prepared, output_dir, teacher_hash, callbacks, shared)
    check_distillation(run)
    with arguments.main_process_first(desc="preparing the output folder"):
        if arguments.should_save:
            start_output(output_dir, recipe, hashes, overwrite=overwrite)
    last = teach(run)
    if not arguments.should_save:
        return DistillResult(output_dir, {})
    shutil.rmtree(output_dir / STUDENT, ignore_errors=True)
    shutil.copytree(output_dir / last / STUDENT, output_dir / STUDENT)
    prepared.task.kind.finish_folder(output_dir / STUDENT, recipe.max_length)
    content, scores = summarize_distillation(recipe, prepared, output_dir, hashes, vocabulary)
    write_outcomes(output_dir, scores)
    write_result(output_dir, content)
    remove_leftovers(output_dir)
    return DistillResult(output_dir, content)


def distill_together(
    recipes: Mapping[str, Recipe],
    output_dir: Path,
    *,
    overwrite: bool = False,
    callbacks: Sequence[TrainerCallback] = (),
) -> dict[str, DistillResult]:
    """Distil several students of one teacher, each into a folder named after it; see `SharedTeacher`.

    Students that an earlier call has finished are not distilled again.
    """
    refuse_single_run(output_dir)
    shared, done = SharedTeacher(), {}
    for name, recipe in recipes.items():
        if not overwrite and (found := finished_distillation(recipe, output_dir / name)) is not None:
            done[name] = found
    runs = {
        name: partial(
            distill_from_recipe,
            recipe,
            output_dir / name,
            overwrite=overwrite,
            callbacks=callbacks,
            shared=shared,
        )
        for name, recipe in recipes.items()
        if name not in done
    }
    done |= shared.run_all(runs)
    return {name: done[name] for name in recipes}


def finished_distillation(recipe: Recipe, folder: Path) -> DistillResult | None:
    """Return the finished distillation of a recipe in a folder, or None.

    Raises:
        OutputError: if it belongs to another recipe, or its inputs have changed.
    """
    if not (folder / RESULT).is_file():
        return None
    recipe = with_target(resolve_distillation(recipe), folder)
    content = json.loads((folder / RESULT).read_text("utf-8"))
    task, config = recipe.task_definition, load_config(recipe.tokenizer_model)
    data = load_data(
        task, recipe.data, ("train", *dev_splits(task, recipe.data)), labels=model_labels(config, task)
    )
    hashes = hash_inputs(recipe, data) | hash_vocabulary(recipe)
    if load_recipe(folder / RECIPE) != recipe or content["hashes"] != hashes:
        raise OutputError(
            f"{folder} holds a finished run of another recipe, or of data or a teacher that have changed "
            "since. Use --overwrite to replace it, or another --output-dir."
        )
    return DistillResult(folder.resolve(), content)
