"""Rows of ranking: a query and a passage with its relevance, or a query with a right and a wrong passage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from understudy.data.decode import sigmoid
from understudy.data.encodings import several_columns
from understudy.data.kind import Batch, Encoded, Logits, Prediction, Reading, Row
from understudy.data.queries import group_rows
from understudy.data.rows import BadRowError, check_text
from understudy.data.tokens import TextReader
from understudy.kinds.texts import TextRows, check_number

if TYPE_CHECKING:
    from datasets import Dataset

NEGATIVE = "negative"


class RankingRows(TextRows):
    """A score for each passage of a query: how relevant it is."""

    name = "ranking"
    pipeline = "text-ranking"
    required = ("text", "text_pair")
    optional = ("label", NEGATIVE)
    unlabelled_fields = (NEGATIVE,)
    scored_fields = ("label",)
    has_classes = False
    has_relevance = True
    accepts_predictions = False
    metrics = ("ndcg_at_10", "mrr_at_10")
    example = '("a query", "a passage")'
    library = "sentence-transformers"
    usual_columns: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "text": ("query", "question", "anchor", "text", "sentence1", "title"),
        "text_pair": (
            "passage", "positive", "document", "answer", "context", "text_pair", "sentence2", "sentence",
            "response", "body",
        ),
        "label": ("label", "labels", "relevance", "score", "target", "y"),
        NEGATIVE: (NEGATIVE, "negative_passage", "hard_negative"),
    }  # fmt: skip

    @property
    def group_fields(self) -> tuple[str, ...]:
        return ("text",)

    def loading(self, name: str) -> str:
        return (
            "from sentence_transformers import CrossEncoder\n\n"
            f'model = CrossEncoder("{name}")\nmodel.predict([{self.example}])'
        )

    def check_scored(self, rows: Dataset) -> str | None:
        if group_rows(rows["text"][:], np.asarray(rows["label"][:])):
            return None
        return (
            "rows to score a ranking on must have several passages for a query, some more relevant than "
            "others: one row for each passage, with the query repeated. No query has that."
        )

    def check(self, values: Mapping[str, Any], ids: Mapping[str, int] | None) -> Row:
        texts = self.check_texts(values)
        if NEGATIVE in values:
            return {**texts, NEGATIVE: check_text(values[NEGATIVE], NEGATIVE), "label": 1.0}
        if "label" not in values:
            raise BadRowError(
                "missing column",
                "a pair must have its relevance in a column label; without one, give it as --unlabelled",
            )
        relevance = check_number(values["label"])
        if relevance < 0:
            raise BadRowError("negative label", f"relevance must be 0 or more, got {values['label']!r}")
        return {**texts, "label": relevance}

    def encode(
        self, batch: Batch, reader: TextReader, names: Sequence[str], labels: Sequence[str] | None = None
    ) -> Encoded:
        """Encode pairs; of a triple, `input_ids` has a list for each passage."""
        if NEGATIVE not in batch:
            return super().encode(batch, reader, names, labels)
        sides = [reader.texts(batch["text"], batch[name]) for name in ("text_pair", NEGATIVE)]
        encoded = several_columns(list(zip(*sides, strict=True)), names)
        return {**encoded, "labels": batch["label"], "row": list(batch["row"])}

    def decode(
        self, reading: Reading, logits: Logits, labels: Sequence[str], *, unanswerable: bool
    ) -> Prediction:
        return {"score": float(sigmoid(np.asarray(logits[0][0], np.float64).reshape(-1))[0])}

    def show(self, prediction: Prediction) -> str:
        return f"{prediction['score']:.4f}"


ROWS = RankingRows()
