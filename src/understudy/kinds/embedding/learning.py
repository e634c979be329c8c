"""Training for embeddings: the angle between a student's vector and its teacher's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset
from numpy.typing import NDArray
from torch import Tensor
from transformers import MODEL_MAPPING, AutoConfig

from understudy.capture.representations import Representations
from understudy.data.kind import Row
from understudy.data.task import Task
from understudy.evaluation.metrics import Metric
from understudy.evaluation.outcomes import Predictions, places_of
from understudy.evaluation.vectors import (
    RANK_METRICS,
    compare_vectors,
    cosines,
    find_vector_metric,
    nearest,
    ranks,
)
from understudy.kinds.embedding import model as models
from understudy.kinds.embedding.pooling import pooling_of, set_pooling, write_length
from understudy.kinds.embedding.rows import EmbeddingRows
from understudy.kinds.text_learning import TextKind
from understudy.objectives.vectors import vector_loss

_PAIR = ("text", "text_pair")


class Embedding(EmbeddingRows, TextKind):
    """A vector for each text."""

    has_agreement = False
    picture = "scatter"

    def configure(self, config: Any, labels: Sequence[str] | None, teacher_config: Any | None = None) -> None:
        set_pooling(config, teacher_config)

    def vector_size(self, config: Any) -> int | None:
        return pooling_of(config).dimension

    def own_class(self, config: Any) -> Any | None:
        return models.pooled_class(config)

    def finish_cut(self, student: Any, channels: Tensor, source: Any) -> None:
        models.place_channels(student, channels, source)

    def finish_folder(self, folder: Path, max_length: int) -> None:
        base = MODEL_MAPPING[type(AutoConfig.from_pretrained(folder))]
        write_length(folder, max_length, with_pooler=models.has_pooler(base))

    def prediction_losses(
        self,
        student: Representations,
        teacher: Representations,
        batch: Mapping[str, Tensor],
        *,
        temperature: float,
        padded: bool,
    ) -> dict[str, Tensor]:
        return {"predictions": vector_loss(student.logits["logits"], teacher.logits["logits"])}

    def judge(
        self, task: Task, rows: Dataset, encoded: Dataset, logits: tuple[NDArray[Any], ...]
    ) -> Predictions:
        """Compare the vectors of pairs: outcomes are the cosine, the score, and the rank of the second text.

        The rank, among the second texts of all rows, is computed only if a metric of the task needs it.
        """
        vectors = logits[0][places_of(rows, encoded)]
        first, second = vectors[:, 0], vectors[:, 1]
        values = cosines(first, second)
        places = np.full(len(values), np.nan)
        if set(task.metrics) & set(RANK_METRICS):
            places = ranks(first, second, rows["text_pair"][:])
        outcomes = np.stack([values, np.asarray(rows["label"][:]), places], axis=1).astype(np.float64)
        _, distinct = np.unique(np.array(rows["text"][:], dtype=object), return_index=True)
        return Predictions(values.tolist(), outcomes, {}, vectors=first[np.sort(distinct)])

    def metric(self, name: str) -> Metric:
        return find_vector_metric(name)

    def compare(self, first: Predictions, second: Predictions) -> dict[str, float]:
        assert first.vectors is not None
        assert second.vectors is not None
        return compare_vectors(first.vectors, second.vectors)

    def label_rows(
        self, task: Task, rows: Dataset, encoded: Dataset, logits: tuple[NDArray[Any], ...]
    ) -> list[Row]:
        """Pair each text with its nearest and with another one; the label is the cosine of their vectors."""
        vectors = logits[0][places_of(rows, encoded)]
        texts, total = rows["text"][:], len(rows)
        near = nearest(vectors, 1)[:, 0]
        others = (np.arange(total) + np.random.default_rng(0).integers(1, total, total)) % total
        made = []
        for partners in (near, others):
            similar = cosines(vectors, vectors[partners])
            for text, partner, value in zip(texts, partners, similar, strict=True):
                made.append({"text": text, "text_pair": texts[partner], "label": float(value)})
        return made

    def join_texts(self, logits: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
        return logits.reshape(*shape[:-1], -1)

    def texts(self, row: Mapping[str, Any]) -> tuple[str, ...]:
        return tuple(str(row[name]) for name in _PAIR if row.get(name))

    def count_tokens(self, tokenizer: Any, row: Mapping[str, Any]) -> int:
        return max(len(tokenizer(text)["input_ids"]) for text in self.texts(row))


KIND = Embedding()
