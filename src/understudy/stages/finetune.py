"""Fine-tune an encoder on a task: how teachers are made."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import PrinterCallback, ProgressCallback, set_seed

from understudy.data.encode import Collator, encode
from understudy.data.load import dev_splits, load_data
from understudy.errors import RecipeError
from understudy.evaluation.score import prepare_split, score_model
from understudy.models.pretrained import (
    check_max_length,
    load_config,
    load_model,
    load_tokenizer,
    model_labels,
)
from understudy.recipe.load import apply_settings, load_recipe
from understudy.recipe.recipe import Recipe
from understudy.recipe.shelf import shipped_recipes
from understudy.stages.result import (
    RECIPE,
    RESULT,
    StageResult,
    announce,
    check_output,
    data_content,
    hash_model,
    resolve_paths,
    score_content,
    versions,
    write_atomically,
    write_result,
)
from understudy.training.arguments import build_arguments
from understudy.training.checkpoint import last_complete_checkpoint
from understudy.training.progress import FiguresOnTheBar
from understudy.training.trainer import OrderedTrainer

logger = logging.getLogger(__name__)

# Checkpoints and tracker logs, beside the model.
TRAINING_FOLDER = "training"


def finetune(
    model: str | Path | None = None,
    *,
    output_dir: str | Path,
    task: str | None = None,
    data: str | Path | None = None,
    recipe: str | Path | None = None,
    settings: Sequence[str] | Mapping[str, Any] = (),
    overwrite: bool = False,
) -> StageResult:
    """Fine-tune an encoder and score it on the task's development set.

    Args:
        model: a folder or a hub name; the recipe's where not given.
        task: a name of the task table; the recipe's where not given.
        data: a folder in the task's layout, or a hub dataset. Files go into `settings`.
        recipe: a shipped name or a file; `finetune-TASK` where not given.
        settings: over the recipe, e.g. `{"training.seed": 7}`.
        output_dir: gets the model, its tokenizer, result.json, recipe.yaml and logs. A run that was
            interrupted there continues.

    Example:
        >>> understudy.finetune(                                    # doctest: +SKIP
        ...     "bert-base-uncased", task="mrpc", data="nyu-mll/glue", output_dir="teachers/mrpc"
        ... ).scores
        {'dev': {'f1': 0.89, 'accuracy': 0.85}}
    """
    return finetune_from_recipe(
        build_recipe(model, task=task, data=data, recipe=recipe, settings=settings),
        Path(output_dir),
        overwrite=overwrite,
    )


def build_recipe(
    model: str | Path | None,
    *,
    task: str | None,
    data: str | Path | None,
    recipe: str | Path | None,
    settings: Sequence[str] | Mapping[str, Any],
) -> Recipe:
    """The recipe that a command's arguments describe."""
    if recipe is None:
        if task is None:
            raise RecipeError("--task or --recipe must be given, e.g. --task mrpc.")
        recipe = f"finetune-{task}"
        if recipe not in shipped_recipes():
            known = ", ".join(
                name.removeprefix("finetune-") for name in shipped_recipes() if name.startswith("finetune-")
            )
            raise RecipeError(f"--task must be one of {known}; got {task!r}. Or give --recipe FILE.")
    given = {"model": model, "task": task, "data.source": data}
    over = {key: str(value) for key, value in given.items() if value is not None}
    loaded = load_recipe(recipe, over)
    if not settings:
        return loaded
    # Settings last: what is said with --set wins over everything.
    return Recipe.from_mapping(
        apply_settings(loaded.model_dump(exclude_defaults=True), settings), origin=str(recipe)
    )


def finetune_from_recipe(recipe: Recipe, output_dir: Path, *, overwrite: bool = False) -> StageResult:
    """Fine-tune as a recipe says; see `finetune`."""
    if recipe.model is None:
        raise RecipeError("model must be given: a folder or a hub name, e.g. bert-base-uncased.")
    recipe = resolve_paths(recipe)
    model_name = str(recipe.model)
    task = recipe.task_row
    training_dir = output_dir / TRAINING_FOLDER
    block = dict(recipe.training)
    if block.get("load_best_model_at_end"):
        block.setdefault("metric_for_best_model", task.headline)
        block.setdefault("greater_is_better", True)
    check_output(output_dir, recipe, overwrite=overwrite)
    arguments = build_arguments(block, training_dir)
    torch.set_flush_denormal(True)
    set_seed(arguments.seed)

    config = load_config(model_name)
    tokenizer = load_tokenizer(model_name)
    check_max_length(config, tokenizer, recipe.max_length)
    splits = dev_splits(task, recipe.data)
    with arguments.main_process_first(desc="reading the data"):
        data = load_data(task, recipe.data, ("train", *splits), labels=model_labels(config, task))
        announce(data)
        train = encode(
            data.splits["train"],
            task.kind,
            tokenizer,
            max_length=recipe.max_length,
            stride=recipe.data.stride,
        )
        dev = {
            split: prepare_split(
                task, data.splits[split], tokenizer, max_length=recipe.max_length, stride=recipe.data.stride
            )
            for split in splits
        }
    on_cpu = arguments.device.type == "cpu"
    model = load_model(
        model_name,
        task,
        data.labels,
        fine_tuned=False,
        dropout=recipe.dropout,
        attention=recipe.attention or ("eager" if on_cpu else None),
    )

    if arguments.should_save:
        output_dir.mkdir(parents=True, exist_ok=True)
        if overwrite:
            (output_dir / RESULT).unlink(missing_ok=True)
            shutil.rmtree(training_dir, ignore_errors=True)
        write_atomically(output_dir / RECIPE, recipe.to_yaml())
    choosing = dev[splits[0]]
    trainer = OrderedTrainer(
        model,
        arguments,
        data_collator=Collator(tokenizer),
        train_dataset=train,
        eval_dataset=choosing.encoded,
        processing_class=tokenizer,
        compute_metrics=choosing.metrics,
    )
    trainer.remove_callback(PrinterCallback)
    if not arguments.disable_tqdm:
        trainer.remove_callback(ProgressCallback)
        trainer.add_callback(FiguresOnTheBar())
    checkpoint = last_complete_checkpoint(training_dir)
    if checkpoint is not None:
        logger.warning("Continuing from %s", checkpoint)
    outcome = trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)

    scores = {split: score_model(model, tokenizer, dev[split]) for split in splits}
    content = {
        "stage": "finetune",
        "task": task.name,
        "model": model_name,
        **score_content(scores),
        **data_content(data),
        "steps": outcome.global_step,
        "seconds": {"training": round(outcome.metrics["train_runtime"], 1)},
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "seed": arguments.seed,
        "hashes": {"model": hash_model(model_name), **data.hashes},
        "versions": versions(),
    }
    if arguments.should_save:
        # The saved model keeps the dropout it came with, for whoever trains it further.
        for name, value in config.to_dict().items():
            if "dropout" in name:
                setattr(model.config, name, value)
        model.save_pretrained(output_dir)
        tokenizer.save_pretrained(output_dir)
        for path in training_dir.glob("checkpoint-*"):
            shutil.rmtree(path)
        write_result(output_dir, content)
    return StageResult(output_dir, content)
