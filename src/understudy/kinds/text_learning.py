"""Training code shared by the kinds with one text or a pair."""

from __future__ import annotations

from typing import Any

import numpy as np
from datasets import Dataset
from numpy.typing import NDArray

from understudy.augmentation.examples import Side, change_text, plain_side
from understudy.augmentation.replace import Variant
from understudy.data.kind import Kind, Row
from understudy.data.task import Task
from understudy.evaluation.metrics import Metric, find_metric
from understudy.evaluation.outcomes import Predictions, places_of
from understudy.kinds.texts import TextRows


class TextKind(TextRows, Kind):
    """One text or a pair of texts with one label."""

    def predict(self, logits_BC: NDArray[Any]) -> NDArray[Any]:
        """Return the prediction for each row, in the same form as its label."""
        return np.asarray(logits_BC.argmax(axis=-1))

    def judge(
        self, task: Task, rows: Dataset, encoded: Dataset, logits: tuple[NDArray[Any], ...]
    ) -> Predictions:
        values = self.predict(logits[0])[places_of(rows, encoded)]
        outcomes = np.stack([values, np.asarray(rows["label"][:])], axis=1).astype(np.float64)
        if task.labels:
            # Metrics use the published order (F1 is that of label 1), whatever the model's order.
            published = [task.labels.index(name) for name in rows.features["label"].names]
            outcomes = np.array(published, dtype=np.float64)[outcomes.astype(np.int64)]
        return Predictions(values.tolist(), outcomes, {})

    def metric(self, name: str) -> Metric:
        return find_metric(name, of="classes" if self.has_classes else "numbers")

    def sides(self, row: Row, stop_words: frozenset[str], *, swap_entities: bool) -> list[Side]:
        names = [name for name in self.inputs if row.get(name) is not None]
        return [plain_side(name, row[name], stop_words) for name in names]

    def change(self, row: Row, side: Side, variant: Variant) -> Row:
        return {**row, side.name: change_text(side, variant)}
