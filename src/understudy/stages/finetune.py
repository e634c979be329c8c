"""Fine-tune an encoder on a task: how teachers are made."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import (
    PreTrainedModel,
    PreTrainedTokenizerFast,
    PrinterCallback,
    ProgressCallback,
    TrainingArguments,
    set_seed,
)
from transformers.trainer_utils import TrainOutput

from understudy.data.encode import Collator, encode
from understudy.data.load import load_data
from understudy.data.sources import dev_splits
from understudy.data.tasks import get_task
from understudy.errors import RecipeError
from understudy.evaluation.score import EvaluationSplit, prepare_split, score_model
from understudy.models.pretrained import (
    check_max_length,
    load_config,
    load_model,
    load_tokenizer,
    model_labels,
)
from understudy.recipe.load import apply_settings, load_recipe
from understudy.recipe.recipe import Recipe
from understudy.stages.result import (
    TRAINING_FOLDER,
    StageResult,
    announce,
    check_output,
    data_content,
    hash_model,
    resolve_paths,
    score_content,
    start_output,
    versions,
    write_result,
)
from understudy.training.arguments import build_arguments
from understudy.training.checkpoint import last_complete_checkpoint
from understudy.training.progress import FiguresOnTheBar
from understudy.training.trainer import OrderedTrainer

logger = logging.getLogger(__name__)


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
    row = get_task(task) if task is not None else None
    if recipe is None:
        if row is None:
            raise RecipeError("--task or --recipe must be given, e.g. --task mrpc.")
        recipe = f"finetune-{row.name}"
    elif row is not None and load_recipe(recipe).task != row.name:
        raise RecipeError(
            f"--task {row.name} and the recipe {recipe}, which is for {load_recipe(recipe).task}, exclude "
            f"each other. Leave one out, or say --set task={row.name} if that is what you mean."
        )
    given = {"model": model, "data.source": data}
    over = {key: str(value) for key, value in given.items() if value is not None}
    loaded = load_recipe(recipe, over)
    if not settings:
        return loaded
    # Settings last: what is said with --set wins over everything.
    return Recipe.from_mapping(
        apply_settings(loaded.model_dump(exclude_defaults=True), settings), origin=str(recipe)
    )


def finetune_from_recipe(recipe: Recipe, output_dir: Path, *, overwrite: bool = False) -> StageResult:
    """Fine-tune as a recipe says; see `finetune`.

    In a distributed run every process returns, and the first one's result alone has content.
    """
    if recipe.model is None:
        raise RecipeError("model must be given: a folder or a hub name, e.g. bert-base-uncased.")
    recipe, output_dir = resolve_paths(recipe), output_dir.expanduser().resolve()
    check_output(output_dir, recipe, overwrite=overwrite)
    task, model_name, training_dir = recipe.task_row, str(recipe.model), output_dir / TRAINING_FOLDER
    block = dict(recipe.training)
    if block.get("load_best_model_at_end"):
        block = {"metric_for_best_model": task.headline, "greater_is_better": True, **block}
    arguments = build_arguments(block, training_dir)
    torch.set_flush_denormal(True)
    set_seed(arguments.seed)

    config = load_config(model_name)
    tokenizer = load_tokenizer(model_name, task)
    check_max_length(config, tokenizer, recipe.max_length)
    lengths: dict[str, Any] = {"max_length": recipe.max_length, "stride": recipe.data.stride}
    splits = dev_splits(task, recipe.data)
    with arguments.main_process_first(desc="reading the data"):
        data = load_data(task, recipe.data, ("train", *splits), labels=model_labels(config, task))
        if arguments.should_save:
            announce(data)
        train = encode(data.splits["train"], task.kind, tokenizer, **lengths)
        dev = {split: prepare_split(task, data.splits[split], tokenizer, **lengths) for split in splits}
    model = load_model(
        model_name,
        task,
        data.labels,
        fine_tuned=False,
        dropout=recipe.dropout,
        attention=recipe.attention or ("eager" if arguments.device.type == "cpu" else None),
    )
    hashes = {"model": hash_model(model_name), **data.hashes}
    with arguments.main_process_first(desc="preparing the output folder"):
        if arguments.should_save:
            start_output(output_dir, recipe, hashes, overwrite=overwrite)
    checkpoint = last_complete_checkpoint(training_dir)
    outcome = _train(model, tokenizer, arguments, train, dev[splits[0]], checkpoint)
    if not arguments.should_save:
        return StageResult(output_dir, {})

    # The saved model keeps the dropout it came with, for whoever trains it further.
    for name, value in config.to_dict().items():
        if "dropout" in name:
            setattr(model.config, name, value)
    model.save_pretrained(output_dir)
    tokenizer.backend_tokenizer.no_truncation()  # our max_length is no property of the tokenizer
    tokenizer.save_pretrained(output_dir)
    # What is scored is what was saved, in float32.
    saved = load_model(str(output_dir), task, data.labels, fine_tuned=True)
    scores = {split: score_model(saved, tokenizer, dev[split]) for split in splits}
    content = {
        "stage": "finetune",
        "task": task.name,
        "model": model_name,
        **score_content(scores),
        **data_content(data),
        "steps": outcome.global_step,
        # Since the last start, where the run was interrupted.
        "seconds": {"training": round(outcome.metrics["train_runtime"], 1)},
        "parameters": saved.num_parameters(),
        "seed": arguments.seed,
        "hashes": hashes,
        "versions": versions(),
    }
    write_result(output_dir, content)
    for path in training_dir.glob("checkpoint-*"):
        shutil.rmtree(path)
    return StageResult(output_dir, content)


def _train(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    arguments: TrainingArguments,
    train: Dataset,
    dev: EvaluationSplit,
    checkpoint: Path | None,
) -> TrainOutput:
    """Train to the end, from a checkpoint where there is one."""
    trainer = OrderedTrainer(
        model,
        arguments,
        data_collator=Collator(tokenizer),
        train_dataset=train,
        eval_dataset=dev.encoded,
        processing_class=tokenizer,
        compute_metrics=dev.metrics,
    )
    trainer.remove_callback(PrinterCallback)
    if not arguments.disable_tqdm:
        trainer.remove_callback(ProgressCallback)
        trainer.add_callback(FiguresOnTheBar())
    if checkpoint is not None:
        logger.warning("Continuing from %s", checkpoint)
    return trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
