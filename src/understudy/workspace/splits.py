"""Rows of a recipe, encoded for scoring."""

from __future__ import annotations

from datasets import Dataset
from transformers import PreTrainedTokenizerFast

from understudy.evaluation.score import EvaluationSplit, prepare_split
from understudy.recipe.recipe import Recipe


def split_of(recipe: Recipe, rows: Dataset, tokenizer: PreTrainedTokenizerFast) -> EvaluationSplit:
    """Encode rows for scoring, at a recipe's length. See `prepare_split`."""
    return prepare_split(
        recipe.task_definition, rows, tokenizer, max_length=recipe.max_length, stride=recipe.data.stride
    )
