"""Code shared by the kinds with one text or a pair, without torch."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from understudy.data.columns import column_option
from understudy.data.encodings import TRUNCATED, are_truncated, model_columns, with_lengths
from understudy.data.kind import Batch, ColumnType, Encoded, Reading, Row, RowKind
from understudy.data.labels import is_number
from understudy.data.rows import BadRowError, check_text
from understudy.data.tokens import TextReader
from understudy.errors import DataError
from understudy.kinds.given import check_given, name_fields


def order_names(found: Iterable[str]) -> tuple[str, ...]:
    """Sort the labels of a source, numbers numerically and words alphabetically; refuse fewer than two."""
    names = list(found)
    if len(names) < 2:
        raise DataError(
            f"there must be two or more different labels; found {sorted(names)}. Check that the file is "
            f"whole, or name another column with {column_option('label')}."
        )
    if all(is_number(name) for name in names):
        return tuple(sorted(names, key=lambda name: (float(name), name)))
    return tuple(sorted(names))


def check_number(value: Any) -> float:
    """Return the score of a row."""
    if value is None or value == "":
        raise BadRowError("null label", "the score is null")
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise BadRowError("score is not a number", f"label must be a number, got {value!r}") from None
    if not math.isfinite(number):
        raise BadRowError("score is not finite", f"label must be a finite number, got {value!r}")
    return number


class TextRows(RowKind):
    """Rows of one text or a pair of texts with one label."""

    auto_class = "AutoModelForSequenceClassification"
    pipeline = "text-classification"
    required: ClassVar[tuple[str, ...]] = ("text", "label")
    optional: ClassVar[tuple[str, ...]] = ("text_pair",)
    inputs: ClassVar[tuple[str, ...]] = ("text", "text_pair")
    sentence_fields: ClassVar[tuple[str, ...]] = ("text", "text_pair")
    accepts_predictions = True
    usual_columns: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "text": (
            "text", "sentence", "sentence1", "premise", "question1", "text1", "review", "content",
            "document", "body", "message", "comment", "tweet", "title", "utterance", "query",
        ),
        "text_pair": ("text_pair", "sentence2", "hypothesis", "question2", "text2"),
        "label": (
            "label", "labels", "class", "category", "target", "sentiment", "intent", "gold_label",
            "score", "rating", "y", "answer",
        ),
    }  # fmt: skip

    def columns(self, fields: Collection[str]) -> dict[str, ColumnType]:
        texts: dict[str, ColumnType] = {name: "text" for name in self.learnt_fields if name in fields}
        return {**texts, "label": "label" if self.has_named_labels else "number"}

    def check_texts(self, values: Mapping[str, Any]) -> Row:
        """Check the texts of a row."""
        return {name: check_text(values[name], name) for name in self.inputs if name in values}

    def encode(
        self, batch: Batch, reader: TextReader, names: Sequence[str], labels: Sequence[str] | None = None
    ) -> Encoded:
        encodings = reader.texts(batch["text"], batch.get("text_pair"))
        encoded = model_columns(encodings, names)
        encoded[TRUNCATED] = are_truncated(encodings)
        encoded["labels"] = batch["label"]
        return with_lengths(encoded, batch["row"])

    def parse(self, given: Any, fields: Sequence[str]) -> Row:
        row = name_fields(given, fields)
        for name in fields:
            if name not in row:
                raise DataError(f"a row must have {' and '.join(fields)}; {name} is missing.")
            check_given(row[name], name)
        return row

    def read(self, rows: Sequence[Row], reader: TextReader, fields: Sequence[str]) -> Iterable[Reading]:
        columns = [[row[name] for row in rows] for name in fields]
        return [Reading(row, [encoding]) for row, encoding in zip(rows, reader.texts(*columns), strict=True)]
