"""Training for ranking: relevance, a teacher's scores, and the margins between passages of a query."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from numpy.typing import NDArray
from torch import Tensor

from understudy.capture.representations import Representations
from understudy.data.decode import sigmoid
from understudy.data.kind import Row
from understudy.data.task import Task
from understudy.evaluation.metrics import Metric
from understudy.evaluation.outcomes import Predictions, places_of
from understudy.evaluation.ranking import find_rank_metric, rank_outcomes
from understudy.kinds.ranking.model import scorer_class
from understudy.kinds.ranking.rows import NEGATIVE, RankingRows
from understudy.kinds.text_learning import TextKind
from understudy.objectives.ranking import margin_loss, relevance_loss
from understudy.objectives.tinybert import regression_prediction_loss

# B rows, P passages of each: 1, or 2 of a triple


class Ranking(RankingRows, TextKind):
    """A score for each passage of a query: how relevant it is."""

    has_agreement = False

    def configure(self, config: Any, labels: Sequence[str] | None, teacher_config: Any | None = None) -> None:
        config.num_labels = 1

    def check_head(self, config: Any) -> str | None:
        if config.num_labels == 1:
            return None
        return f"it has a head of {config.num_labels} labels, and a ranking needs one output"

    def own_class(self, config: Any) -> Any | None:
        return scorer_class(config)

    def finish_folder(self, folder: Path, max_length: int) -> None:
        """Write the longest input into the tokenizer's settings, where CrossEncoder looks for it."""
        file = folder / "tokenizer_config.json"
        settings = json.loads(file.read_text("utf-8"))
        file.write_text(json.dumps({**settings, "model_max_length": max_length}, indent=2) + "\n", "utf-8")

    def prediction_losses(
        self,
        student: Representations,
        teacher: Representations,
        batch: Mapping[str, Tensor],
        *,
        temperature: float,
        padded: bool,
    ) -> dict[str, Tensor]:
        sides = [side.logits["logits"] for side in (student, teacher)]
        losses = {"predictions": regression_prediction_loss(*sides).mean(dim=-1)}
        if sides[0].shape[-1] > 1:
            losses["margins"] = margin_loss(*sides)
        return losses

    def label_loss(self, student: Representations, batch: Mapping[str, Tensor]) -> Tensor:
        return relevance_loss(student.logits["logits"], batch["labels"])

    def soft_label_loss(
        self,
        student: Representations,
        teacher: Representations,
        batch: Mapping[str, Tensor],
        *,
        temperature: float,
        squared: bool,
    ) -> Tensor:
        losses = self.prediction_losses(student, teacher, batch, temperature=temperature, padded=False)
        return torch.stack(list(losses.values())).sum(dim=0)

    def judge(
        self, task: Task, rows: Dataset, encoded: Dataset, logits: tuple[NDArray[Any], ...]
    ) -> Predictions:
        """Rank the passages of each query; there is one outcome for each query."""
        values = logits[0][places_of(rows, encoded)].reshape(len(rows), -1)[:, 0].astype(np.float64)
        outcomes = rank_outcomes(rows["text"][:], values, np.asarray(rows["label"][:]))
        return Predictions(values.tolist(), outcomes, {})

    def metric(self, name: str) -> Metric:
        return find_rank_metric(name)

    def label_rows(
        self, task: Task, rows: Dataset, encoded: Dataset, logits: tuple[NDArray[Any], ...]
    ) -> list[Row]:
        """Return a row for each passage of the rows; the label is its probability."""
        labels = sigmoid(logits[0][places_of(rows, encoded)]).reshape(len(rows), -1)
        names = ("text_pair", NEGATIVE)[: labels.shape[1]]
        return [
            {"text": row["text"], "text_pair": row[name], "label": float(label)}
            for row, values in zip(rows, labels, strict=True)
            for name, label in zip(names, values, strict=True)
        ]

    def join_texts(self, logits: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
        return logits.reshape(shape[0], -1)

    def texts(self, row: Mapping[str, Any]) -> tuple[str, ...]:
        return tuple(str(row[name]) for name in self.learnt_fields if row.get(name))

    def count_tokens(self, tokenizer: Any, row: Mapping[str, Any]) -> int:
        query, *passages = self.texts(row)
        return max(len(tokenizer(query, passage)["input_ids"]) for passage in passages)


KIND = Ranking()
