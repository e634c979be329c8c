"""The texts of a task: those to search for, and those that must not be found."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from datasets import Dataset

from understudy.data.kind import Kind
from understudy.data.load import TaskData
from understudy.data.settings import DataSettings
from understudy.data.unlabelled import unlabelled_source
from understudy.errors import RecipeError
from understudy.mining.settings import MineSettings


@dataclass(frozen=True)
class TaskTexts:
    """The texts of a task.

    Attributes:
        fields: the columns of a row: one, or two for pairs.
        queries: texts to search for; for pairs, both texts of a row follow each other.
        train: all training texts.
        excluded: texts of development and other sets.
        hashes: a hash of the other sets, if there are any.
    """

    fields: tuple[str, ...]
    queries: list[str]
    train: list[str]
    excluded: list[str]
    hashes: dict[str, str]


def task_texts(
    data: TaskData, kind: Kind, settings: MineSettings, read_as: DataSettings, seed: int
) -> TaskTexts:
    """Collect the texts of a task.

    Args:
        read_as: the recipe's columns and encoding, for the rows to exclude.

    Raises:
        RecipeError: if the rows are not texts or pairs.
    """
    fields = tuple(name for name in kind.sentence_fields if name in data.columns)
    if not fields:
        raise RecipeError(f"mine finds texts and pairs of texts; rows of {kind} are neither.")
    train = data.splits["train"]
    num_rows = max(1, settings.texts // len(fields))
    chosen = np.sort(np.random.default_rng(seed).permutation(len(train))[:num_rows])
    excluded = [
        text for split in data.splits if split != "train" for text in _texts(data.splits[split], fields)
    ]
    hashes: dict[str, str] = {}
    if settings.exclude:
        source = unlabelled_source(
            kind, settings.exclude, read_as.columns, fields, encoding=read_as.encoding, key="mine.exclude"
        )
        hashes["exclude"] = source.key
        excluded += [
            str(row.values[name]) for row in source.rows() for name in fields if row.values.get(name)
        ]
    return TaskTexts(
        fields, list(_texts(train.select(chosen), fields)), list(_texts(train, fields)), excluded, hashes
    )


def _texts(rows: Dataset, fields: Sequence[str]) -> Iterable[str]:
    columns = [rows[name][:] for name in fields]
    return (text for texts in zip(*columns, strict=True) for text in texts)
