"""Fine-tune an encoder on a task, to make a teacher."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, set_seed

from understudy.distillation.folds import train_folds
from understudy.distillation.recipes import finetune_recipe
from understudy.distillation.rows import describe_rows, prepare
from understudy.distillation.runs import choose_on_dev, save_model, train_to_the_end
from understudy.distillation.teachers import (
    best_step,
    describe_memory,
    hold_out,
    make_trainer,
    score_memory,
    start_model,
    with_held_out,
)
from understudy.errors import RecipeError
from understudy.evaluation.score import score_content, score_model
from understudy.models.pretrained import load_config, load_model
from understudy.recipe.recipe import Recipe
from understudy.recipe.resolve import refuse_other_stages, resolve_paths
from understudy.training.arguments import build_arguments, check_callbacks
from understudy.training.cpu import tune_cpu
from understudy.training.precision import precision_of
from understudy.workspace.folders import TRAINING_FOLDER, check_output, remove_leftovers, start_output
from understudy.workspace.hashes import hash_model, versions
from understudy.workspace.lock import one_at_a_time
from understudy.workspace.objects import given_settings
from understudy.workspace.result import write_result
from understudy.workspace.results import FinetuneResult

logger = logging.getLogger(__name__)


def finetune(
    model: str | Path | None = None,
    *,
    output_dir: str | Path,
    task: str | None = None,
    data: str | Path | Mapping[str, Any] | None = None,
    recipe: str | Path | None = None,
    settings: Sequence[str] | Mapping[str, Any] = (),
    overwrite: bool = False,
    callbacks: Sequence[TrainerCallback] = (),
) -> FinetuneResult:
    """Fine-tune an encoder and score it on the task's development set.

    Args:
        model: a folder or a hub name. Defaults to the recipe's.
        task: a name from the task table. Defaults to the recipe's.
        data: a folder in the task's layout, a hub dataset, or splits: `{"train": …, "dev": …}`, with files,
            datasets, or frames of pandas or polars; see `distill`.
        recipe: a shipped name or a file. Defaults to `finetune-TASK`.
        settings: override the recipe, e.g. `{"training.seed": 7}`.
        output_dir: gets the model, its tokenizer, result.json, recipe.yaml and logs. An interrupted run is
            resumed.
        callbacks: callbacks of the transformers Trainer.

    Examples:
        >>> understudy.finetune(                                    # doctest: +SKIP
        ...     "bert-base-uncased", task="mrpc", data="nyu-mll/glue", output_dir="teachers/mrpc"
        ... ).scores
        {'dev': {'f1': 0.89, 'accuracy': 0.85}}
    """
    chosen = given_settings(data, (), None, settings)
    return finetune_from_recipe(
        finetune_recipe(model, task=task, data=None, recipe=recipe, settings=chosen),
        Path(output_dir),
        overwrite=overwrite,
        callbacks=callbacks,
    )


@one_at_a_time
def finetune_from_recipe(
    recipe: Recipe,
    output_dir: Path,
    *,
    overwrite: bool = False,
    callbacks: Sequence[TrainerCallback] = (),
) -> FinetuneResult:
    """Fine-tune according to a recipe. See `finetune`.

    In a distributed run every process returns, but only the first one's result has content.
    """
    check_callbacks(callbacks)
    if recipe.model is None:
        raise RecipeError("model must be given: a folder or a hub name, e.g. bert-base-uncased.")
    refuse_other_stages(recipe)
    recipe, output_dir = resolve_paths(recipe), output_dir.expanduser().resolve()
    check_output(output_dir, recipe, overwrite=overwrite)
    task, model_name, training_dir = recipe.task_definition, str(recipe.model), output_dir / TRAINING_FOLDER
    given = recipe.training
    training = choose_on_dev(given, task) if recipe.held_out is None else with_held_out(given)
    arguments = build_arguments({"seed": recipe.seed, **training}, training_dir)
    tune_cpu()
    set_seed(arguments.seed)
    prepared = prepare(recipe, model_name, arguments)
    tokenizer, data = prepared.tokenizer, prepared.data
    model = start_model(recipe, prepared, arguments)
    hashes = {"model": hash_model(model_name), **data.hashes}
    with arguments.main_process_first(desc="preparing the output folder"):
        if arguments.should_save:
            start_output(output_dir, recipe, hashes, overwrite=overwrite)
    held_out = hold_out(prepared, recipe.held_out, recipe.seed) if recipe.held_out is not None else None
    trainer = make_trainer(model, prepared, arguments, callbacks, held_out)
    outcome = train_to_the_end(trainer)
    folds = train_folds(recipe, prepared, output_dir, callbacks)
    if not arguments.should_save:
        return FinetuneResult(output_dir, {})

    save_model(model, tokenizer, output_dir, load_config(model_name))
    # Score the model as it was saved, in float32.
    saved = load_model(str(output_dir), task, data.labels, fine_tuned=True)
    scores = {split: score_model(saved, tokenizer, rows) for split, rows in prepared.dev.items()}
    memory: dict[str, Any] = {}
    if held_out is not None:
        memory = {"memory": score_memory(saved, prepared, recipe, held_out)}
        logger.info(describe_memory(memory["memory"]))
    content = {
        "stage": "finetune",
        "task": task.name,
        "model": model_name,
        **score_content(scores),
        **describe_rows(prepared),
        **memory,
        **folds,
        "steps": outcome.global_step,
        **({"best_step": best_step(trainer)} if held_out is not None else {}),
        # Since the last start, if the run was interrupted.
        "seconds": {"training": round(outcome.metrics["train_runtime"], 3)},
        "parameters": saved.num_parameters(),
        "precision": asdict(precision_of(arguments, recipe.training)),
        "seed": arguments.seed,
        "hashes": hashes,
        "versions": versions(),
    }
    write_result(output_dir, content)
    remove_leftovers(output_dir)
    return FinetuneResult(output_dir, content)
