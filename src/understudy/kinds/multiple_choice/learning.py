"""Training for multiple choice: cross entropy over the choices of a question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from datasets import Dataset
from numpy.typing import NDArray
from torch import Tensor

from understudy.augmentation.examples import Side, change_text, plain_side
from understudy.augmentation.replace import Variant
from understudy.data.kind import Row
from understudy.data.task import Task
from understudy.evaluation.metrics import Metric, find_metric
from understudy.evaluation.outcomes import Predictions, places_of
from understudy.kinds.class_losses import ClassLosses
from understudy.kinds.multiple_choice.rows import MultipleChoiceRows


class MultipleChoice(MultipleChoiceRows, ClassLosses):
    """The best of several choices; the model reads each as a separate text."""

    def judge(
        self, task: Task, rows: Dataset, encoded: Dataset, logits: tuple[NDArray[Any], ...]
    ) -> Predictions:
        values = logits[0].argmax(axis=-1)[places_of(rows, encoded)]
        outcomes = np.stack([values, np.asarray(rows["label"][:])], axis=1).astype(np.float64)
        return Predictions(values.tolist(), outcomes, {})

    def metric(self, name: str) -> Metric:
        return find_metric(name, of="classes")

    def sides(self, row: Row, stop_words: frozenset[str], *, swap_entities: bool) -> list[Side]:
        """Return the context and each choice, but never the question."""
        sides = [plain_side("context", row["context"], stop_words)]
        return sides + [plain_side(f"choices.{n}", text, stop_words) for n, text in enumerate(row["choices"])]

    def change(self, row: Row, side: Side, variant: Variant) -> Row:
        text = change_text(side, variant)
        if side.name == "context":
            return {**row, "context": text}
        place = int(side.name.removeprefix("choices."))
        return {**row, "choices": [text if n == place else choice for n, choice in enumerate(row["choices"])]}

    def best_guess(self, rows: Dataset) -> float | None:
        return 1 / len(rows["choices"][0])

    def num_values(self, encoded: Dataset, labels: Sequence[str] | None) -> NDArray[np.int64]:
        return np.array([len(choices) for choices in encoded["input_ids"]])

    def separate_texts(self, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return tuple(ids_BL.unsqueeze(1) for ids_BL in inputs)

    def join_texts(self, logits: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
        return logits.reshape(shape[:2])

    def texts(self, row: Mapping[str, Any]) -> tuple[str, ...]:
        return (f"{row['context']} {row.get('question') or ''}", *map(str, row["choices"]))

    def count_tokens(self, tokenizer: Any, row: Mapping[str, Any]) -> int:
        question = row.get("question") or ""
        return max(len(tokenizer(row["context"], f"{question} {one}")["input_ids"]) for one in row["choices"])


KIND = MultipleChoice()
