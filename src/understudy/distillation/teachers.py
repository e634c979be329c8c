"""Fine-tuning of teachers: an encoder with a head, and its trainer."""

from __future__ import annotations

from collections.abc import Sequence

from transformers import PreTrainedModel, TrainerCallback, TrainingArguments

from understudy.data.encode import Collator
from understudy.distillation.rows import Prepared, choose_attention
from understudy.models.pretrained import load_model
from understudy.recipe.recipe import Recipe
from understudy.training.trainer import OrderedTrainer


def start_model(recipe: Recipe, prepared: Prepared, arguments: TrainingArguments) -> PreTrainedModel:
    """Load the recipe's model with the task's head."""
    return load_model(
        str(recipe.model),
        prepared.task,
        prepared.data.labels,
        fine_tuned=False,
        dropout=recipe.dropout,
        attention=choose_attention(recipe, arguments),
    )


def make_trainer(
    model: PreTrainedModel,
    prepared: Prepared,
    arguments: TrainingArguments,
    callbacks: Sequence[TrainerCallback] = (),
) -> OrderedTrainer:
    """Build the trainer that fine-tunes a model on a task's labels."""
    return OrderedTrainer(
        model,
        arguments,
        data_collator=Collator(prepared.tokenizer),
        train_dataset=prepared.train,
        eval_dataset=prepared.first_dev.encoded,
        processing_class=prepared.tokenizer,
        compute_metrics=prepared.first_dev.metrics,
        callbacks=list(callbacks),
    )
