"""A student with the tokens of its texts only: its teacher is read with the same smaller vocabulary."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from datasets import Dataset
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerFast

from understudy.data.unlabelled import unlabelled_source
from understudy.distillation.rows import Prepared
from understudy.errors import RecipeError
from understudy.kinds import get_rows
from understudy.models.pretrained import load_encoder, load_model, load_tokenizer
from understudy.models.settings import VocabularySettings
from understudy.models.vocabulary import kept_ids, trim_model, trim_tokenizer
from understudy.recipe.recipe import Recipe
from understudy.workspace.objects import model_path

logger = logging.getLogger(__name__)

_BATCH = 1_000


@dataclass(frozen=True)
class Vocabulary:
    """The tokens that a student keeps.

    Attributes:
        kept: their ids in the teacher's vocabulary, in the student's order.
        full_size: the number of the teacher's tokens.
        outside: the share of the development sets' tokens that the student reads as smaller pieces.
    """

    kept: list[int]
    full_size: int
    outside: float

    @property
    def content(self) -> dict[str, Any]:
        return {"size": len(self.kept), "of": self.full_size, "outside": round(self.outside, 6)}


def with_vocabulary(recipe: Recipe, prepared: Prepared) -> tuple[Recipe, Vocabulary | None]:
    """Return the recipe with its models in the student's vocabulary, and the vocabulary; None for the whole.

    The models are saved in the cache with the embeddings of the kept tokens only. So teacher and student read
    the same tokens.

    Args:
        prepared: the recipe's rows in the teacher's own vocabulary.
    """
    settings = recipe.student.vocabulary
    if settings is None:
        return recipe, None
    if recipe.teacher is None or recipe.unseen:
        other = "unseen" if recipe.unseen else "soft_labels.predictions"
        raise RecipeError(f"student.vocabulary and {other} exclude each other.")
    vocabulary = choose_vocabulary(settings, prepared)
    logger.info(
        "Vocabulary: %s of %s tokens are kept; %.2f %% of the development tokens are read as smaller pieces.",
        f"{len(vocabulary.kept):,}",
        f"{vocabulary.full_size:,}",
        100 * vocabulary.outside,
    )

    def trimmed(model: str, *, has_head: bool) -> str:
        labels = prepared.data.labels
        loaded = (
            load_model(model, prepared.task, labels, fine_tuned=True) if has_head else load_encoder(model)
        )
        trim_model(loaded, vocabulary.kept)
        return str(model_path(loaded, trim_tokenizer(load_tokenizer(model), vocabulary.kept)))

    starts = {name: getattr(recipe.student, name) for name in ("model", "source")}
    student = {name: trimmed(model, has_head=False) for name, model in starts.items() if model is not None}
    changed = {
        "teacher": trimmed(recipe.teacher, has_head=True),
        "student": recipe.student.model_copy(update=student),
    }
    return recipe.model_copy(update=changed), vocabulary


def choose_vocabulary(settings: VocabularySettings, prepared: Prepared) -> Vocabulary:
    """Choose tokens by how often the rows to learn from, and a corpus, have them."""
    tokenizer = prepared.tokenizer
    total = len(tokenizer)
    counts = _count(_ids_of(prepared.train), total)
    if settings.corpus:
        counts += _count(_read(settings.corpus, tokenizer), total)
    used = np.flatnonzero(counts >= settings.min_count)
    order = used[np.argsort(-counts[used], kind="stable")].tolist()
    kept = kept_ids(tokenizer, order)
    if settings.size is not None:
        kept = _at_most(tokenizer, order, settings.size)
    seen = sum((_count(_ids_of(split.encoded), total) for split in prepared.dev.values()), np.zeros(total))
    return Vocabulary(kept, total, 1 - float(seen[kept].sum() / max(1, seen.sum())))


def _at_most(tokenizer: PreTrainedTokenizerFast, used: list[int], size: int) -> list[int]:
    """Keep as many of the tokens as a size allows, the first ones first."""
    least = len(kept_ids(tokenizer, ()))
    if size < least:
        raise RecipeError(
            f"student.vocabulary.size must be {least:,} or more: so many are special tokens and characters."
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
    """Yield the tokens of encoded rows, of all their texts or windows."""
    for batch in rows.select_columns(["input_ids"]).with_format(None).iter(_BATCH):
        yield np.fromiter(_flat(batch["input_ids"]), np.int64)


def _read(files: list[str], tokenizer: PreTrainedTokenizerFast) -> Iterator[NDArray[np.int64]]:
    """Yield the tokens of the texts of a corpus."""
    source = unlabelled_source(get_rows("embedding"), files, {}, key="student.vocabulary.corpus")
    texts: list[str] = []
    for row in source.rows():
        if isinstance(row.values.get("text"), str):
            texts.append(row.values["text"])
        if len(texts) == _BATCH:
            yield _tokens(texts, tokenizer)
            texts = []
    yield _tokens(texts, tokenizer)


def _tokens(texts: list[str], tokenizer: PreTrainedTokenizerFast) -> NDArray[np.int64]:
    encodings = tokenizer.backend_tokenizer.encode_batch(texts, add_special_tokens=False)
    return np.fromiter(_flat(one.ids for one in encodings), np.int64)


def _flat(values: Iterable[Any]) -> Iterator[int]:
    for value in values:
        if isinstance(value, list):
            yield from _flat(value)
        else:
            yield value
