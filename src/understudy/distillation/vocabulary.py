"""A student with only the tokens of its texts, and its teacher with the same smaller vocabulary."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from datasets import Dataset
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerFast

from understudy.artifacts.card import describe_vocabulary
from understudy.data.kind import RowKind
from understudy.data.sources import Source
from understudy.data.tokens import tokenize
from understudy.data.unlabelled import unlabelled_source
from understudy.distillation.rows import Prepared
from understudy.errors import RecipeError
from understudy.models.pretrained import load_model, load_tokenizer
from understudy.models.settings import VocabularySettings
from understudy.models.student import check_vocabulary
from understudy.models.vocabulary import kept_ids, trim_model, trim_tokenizer
from understudy.recipe.recipe import Recipe
from understudy.workspace.objects import model_path

logger = logging.getLogger(__name__)

_BATCH = 1_000
_MANY_OUTSIDE = 0.01  # of the development tokens


@dataclass(frozen=True)
class Vocabulary:
    """The tokens that a student keeps.

    Attributes:
        kept: their ids in the teacher's vocabulary, in the student's order.
        num_all: the number of the teacher's tokens.
        outside: the share of the development sets' tokens that the student reads as smaller pieces.
    """

    kept: list[int]
    num_all: int
    outside: float

    @property
    def content(self) -> dict[str, Any]:
        return {"size": len(self.kept), "of": self.num_all, "outside": round(self.outside, 6)}


def with_vocabulary(recipe: Recipe, prepared: Prepared) -> tuple[Recipe, Vocabulary | None]:
    """Return the recipe with its teacher in the student's vocabulary, and the vocabulary (None if whole).

    The teacher is saved in the cache with the embeddings of the kept tokens only, so that teacher and student
    read the same tokens. A saved student is reduced to them when it is loaded.

    Args:
        prepared: the recipe's rows in the teacher's own vocabulary.
    """
    settings = recipe.student.vocabulary
    if settings is None:
        return recipe, None
    assert recipe.teacher is not None  # the recipe was checked
    if recipe.student.model is not None:
        check_vocabulary(recipe.student.model, recipe.teacher)
    vocabulary = choose_vocabulary(settings, prepared, recipe)
    logger.info(describe_vocabulary(vocabulary.content))
    if vocabulary.outside > _MANY_OUTSIDE:
        logger.warning(
            "That is a lot: keep more tokens with student.vocabulary.size, or let more texts like these "
            "count, with --unlabelled or student.vocabulary.corpus."
        )
    teacher = load_model(recipe.teacher, prepared.task, prepared.data.labels, fine_tuned=True)
    trim_model(teacher, vocabulary.kept)
    path = model_path(teacher, trim_tokenizer(load_tokenizer(recipe.teacher), vocabulary.kept))
    return recipe.model_copy(update={"teacher": path}), vocabulary


def choose_vocabulary(settings: VocabularySettings, prepared: Prepared, recipe: Recipe) -> Vocabulary:
    """Choose tokens by how often they occur in the rows to learn from and in a corpus."""
    tokenizer = prepared.tokenizer
    total = 1 + max(tokenizer.get_vocab().values())
    counts = _count(_ids_of(prepared.train), total)
    if settings.corpus:
        counts += _count(_read(corpus_source(recipe), prepared.task.rows, tokenizer), total)
    used = np.flatnonzero(counts >= settings.min_count)
    order = used[np.argsort(-counts[used], kind="stable")].tolist()
    kept = kept_ids(tokenizer, order)
    if settings.size is not None:
        kept = _at_most(tokenizer, order, settings.size)
    seen = sum((_count(_ids_of(split.encoded), total) for split in prepared.dev.values()), np.zeros(total))
    return Vocabulary(kept, total, 1 - float(seen[kept].sum() / max(1, seen.sum())))


def hash_vocabulary(recipe: Recipe) -> dict[str, str]:
    """Hash the corpus of a vocabulary, if there is one."""
    vocabulary = recipe.student.vocabulary
    return {"vocabulary": corpus_source(recipe).key} if vocabulary is not None and vocabulary.corpus else {}


def _at_most(tokenizer: PreTrainedTokenizerFast, used: list[int], size: int) -> list[int]:
    """Keep as many of the tokens as a size allows, from the first on."""
    least = len(kept_ids(tokenizer, ()))
    if size < least:
        raise RecipeError(
            f"student.vocabulary.size must be {least:,} or more: special tokens and single characters alone "
            "take that many."
        )
    low, high = 0, len(used)
    while low < high:
        middle = (low + high + 1) // 2
        if len(kept_ids(tokenizer, used[:middle])) <= size:
            low = middle
        else:
            high = middle - 1
    return kept_ids(tokenizer, used[:low])


def _count(parts: Iterable[NDArray[np.int64]], total: int) -> NDArray[np.int64]:
    counts = np.zeros(total, np.int64)
    for ids in parts:
        counts += np.bincount(ids, minlength=total)
    return counts


def _ids_of(rows: Dataset) -> Iterator[NDArray[np.int64]]:
    """Yield the tokens of encoded rows, from all their texts or windows."""
    for batch in rows.select_columns(["input_ids"]).with_format(None).iter(_BATCH):
        yield np.fromiter(_flat(batch["input_ids"]), np.int64)


def corpus_source(recipe: Recipe) -> Source:
    """Return the texts of `student.vocabulary.corpus`, in the columns of the task's rows."""
    assert recipe.student.vocabulary is not None
    return unlabelled_source(
        recipe.task_definition.rows,
        recipe.student.vocabulary.corpus,
        recipe.data.columns,
        encoding=recipe.data.encoding,
        key="student.vocabulary.corpus",
    )


def _read(source: Source, kind: RowKind, tokenizer: PreTrainedTokenizerFast) -> Iterator[NDArray[np.int64]]:
    """Yield the tokens of the texts of a corpus."""
    texts: list[str] = []
    for row in source.rows():
        values = [row.values.get(name) for name in kind.inputs]
        texts += [value for value in values if isinstance(value, str)]
        texts += [" ".join(map(str, value)) for value in values if isinstance(value, list)]
        if len(texts) >= _BATCH:
            yield _tokens(texts, tokenizer)
            texts = []
    yield _tokens(texts, tokenizer)


def _tokens(texts: list[str], tokenizer: PreTrainedTokenizerFast) -> NDArray[np.int64]:
    encodings = tokenize(tokenizer.backend_tokenizer, texts, special_tokens=False)
    return np.fromiter(_flat(one.ids for one in encodings), np.int64)


def _flat(values: Iterable[Any]) -> Iterator[int]:
    for value in values:
        if isinstance(value, list):
            yield from _flat(value)
        else:
            yield value
