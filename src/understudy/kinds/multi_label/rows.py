"""Rows of multi-label classification: a text or a pair, with any number of labels."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from understudy.data.decode import sigmoid
from understudy.data.kind import Batch, ColumnType, Encoded, Logits, Prediction, Reading, Row
from understudy.data.labels import SEPARATOR, join_labels, split_labels
from understudy.data.rows import BadRowError, is_clean, label_id, label_name
from understudy.data.tokens import TextReader
from understudy.kinds.texts import TextRows, order_names

# A label is predicted at this probability or more, unless an artifact has thresholds.
THRESHOLD = 0.5


class MultiLabelRows(TextRows):
    """Any number of labels for each text or pair, including none."""

    name = "multi-label"
    has_plain_labels = False
    usual_columns: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **TextRows.usual_columns,
        "label": ("labels", "label", "categories", "tags", "topics", "genres", "classes", "targets"),
    }
    has_named_labels = True
    metrics = ("micro_f1", "macro_f1")

    def columns(self, fields: Collection[str]) -> dict[str, ColumnType]:
        return {**super().columns(fields), "label": ["label"]}

    def check(self, values: Mapping[str, Any], ids: Mapping[str, int] | None) -> Row:
        found = {label_id(one, ids or {}) for one in _listed(values["label"])}
        return {**self.check_texts(values), "label": sorted(found)}

    def placeholder(self, values: Mapping[str, Any], ids: Mapping[str, int] | None) -> Any:
        return []

    def label_names(self, value: Any) -> Iterable[str]:
        try:
            names = [label_name(one) for one in _listed(value)]
        except BadRowError:
            return []  # reported with its row
        return [name for name in names if is_clean(name)]

    def order_labels(self, found: Iterable[str]) -> tuple[str, ...]:
        return order_names(found)

    def encode(
        self, batch: Batch, reader: TextReader, names: Sequence[str], labels: Sequence[str] | None = None
    ) -> Encoded:
        """Encode texts, and labels as 1.0 for each that a row has and 0.0 for the others."""
        encoded = super().encode(batch, reader, names)
        places = range(len(labels or ()))
        encoded["labels"] = [[float(place in found) for place in places] for found in batch["label"]]
        return encoded

    def decode(
        self, reading: Reading, logits: Logits, labels: Sequence[str], *, unanswerable: bool
    ) -> Prediction:
        probabilities = dict(zip(labels, sigmoid(logits[0][0]).tolist(), strict=True))
        given = [name for name, probability in probabilities.items() if probability >= THRESHOLD]
        return {"labels": given, "probabilities": probabilities}

    def apply_thresholds(self, prediction: Prediction, thresholds: Mapping[str, float]) -> Prediction:
        probabilities: Mapping[str, float] = prediction["probabilities"]
        given = [name for name, probability in probabilities.items() if probability >= thresholds[name]]
        return {**prediction, "labels": given}

    def show(self, prediction: Prediction) -> str:
        return "\t".join(f"{name} {prediction['probabilities'][name]:.3f}" for name in prediction["labels"])

    def labels_given(self, prediction: Prediction) -> list[str]:
        return list(prediction["labels"])

    def cells(self, prediction: Prediction) -> Prediction:
        return {**super().cells(prediction), "labels": join_labels(prediction["labels"])}


def _listed(value: Any) -> list[Any]:
    """Return the labels of a row: a list, or a cell of a table."""
    if isinstance(value, str):
        return split_labels(value)
    if isinstance(value, list | tuple):
        return list(value)
    if value is None or value != value:  # NaN
        raise BadRowError("null label", "label is null; a row without labels has an empty list or cell")
    detail = f"label must be a list, or names with {SEPARATOR!r} between them; got {value!r}"
    raise BadRowError("labels have the wrong form", detail)


ROWS = MultiLabelRows()
