"""Run a model over a split and score it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from numpy.typing import NDArray
from torch import Tensor
from transformers import EvalPrediction, PreTrainedModel, PreTrainedTokenizerFast

from understudy.data.encode import Collator, encode
from understudy.data.task import Task
from understudy.evaluation.bootstrap import Estimate, estimate
from understudy.evaluation.outcomes import Logits, Predictions
from understudy.models.pretrained import default_device
from understudy.progress import progress


@dataclass(frozen=True)
class EvaluationSplit:
    """A split ready for scoring: its rows, and their encoding sorted by length for speed."""

    task: Task
    rows: Dataset
    encoded: Dataset

    def judge(self, logits: Logits) -> Predictions:
        """Turn the logits of this split into predictions; additional outputs of the model are ignored."""
        outputs = len(self.task.kind.outputs)
        found: Predictions = self.task.kind.judge(self.task, self.rows, self.encoded, logits[:outputs])
        return found

    def metrics(self, prediction: EvalPrediction) -> dict[str, float]:
        """Compute the metrics for Trainer's `compute_metrics`."""
        made = prediction.predictions
        return self.metrics_of(made if isinstance(made, tuple) else (made,))

    def metrics_of(self, logits: Logits) -> dict[str, float]:
        """Return the metrics of a model's logits on this split, without intervals."""
        outcomes = self.judge(logits).outcomes
        return {name: self.task.kind.metric(name)(outcomes) for name in self.task.metrics}


def prepare_split(
    task: Task,
    rows: Dataset,
    tokenizer: PreTrainedTokenizerFast,
    *,
    max_length: int,
    stride: int | None = None,
) -> EvaluationSplit:
    """Encode a split for scoring, longest rows first, so that a lack of memory shows at once."""
    encoded = encode(rows, task.kind, tokenizer, max_length=max_length, stride=stride)
    order = np.argsort(-np.asarray(encoded["length"][:]), kind="stable")
    return EvaluationSplit(task, rows, encoded.select(order))


@dataclass(frozen=True)
class Score:
    """A model's scores on one split."""

    metrics: dict[str, Estimate]
    details: dict[str, float]
    predictions: Predictions
    num_rows: int


def score_model(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    split: EvaluationSplit,
    *,
    batch_size: int = 64,
) -> Score:
    """Predict a split and score it, with intervals."""
    return score_logits(split, predict_logits(model, tokenizer, split.encoded, batch_size=batch_size))


def score_logits(split: EvaluationSplit, logits: Logits) -> Score:
    """Score a model's logits on a split, with intervals."""
    predictions = split.judge(logits)
    metric = split.task.kind.metric
    metrics = {name: estimate(metric(name), predictions.outcomes) for name in split.task.metrics}
    return Score(metrics, predictions.details, predictions, len(split.rows))


def predict_logits(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, encoded: Dataset, *, batch_size: int
) -> Logits:
    """Return the logits of every encoded row, in the model's own precision.

    Trainer is not used: a process that has trained in bf16 keeps casting to it.
    """
    device = default_device()
    model = model.to(device).eval()  # type: ignore[arg-type]  # transformers' decorator loses the type

    def run(batch: Mapping[str, Tensor]) -> tuple[NDArray[np.float32], ...]:
        with torch.inference_mode():
            output = model(**{name: value.to(device) for name, value in batch.items()})
        names = [name for name in output if name.endswith("logits")]
        return tuple(output[name].float().cpu().numpy() for name in names)

    return collect_logits(run, tokenizer, encoded, batch_size=batch_size)


def collect_logits(
    run: Callable[[Mapping[str, Tensor]], tuple[NDArray[np.float32], ...]],
    tokenizer: PreTrainedTokenizerFast,
    encoded: Dataset,
    *,
    batch_size: int,
) -> Logits:
    """Return the logits of every row, from any batch function; token logits are padded to the longest row."""
    collate = Collator(tokenizer)
    parts: list[tuple[NDArray[np.float32], ...]] = []
    with progress("Scoring", len(encoded), "rows") as advance:
        for start in range(0, len(encoded), batch_size):
            rows = [encoded[index] for index in range(start, min(start + batch_size, len(encoded)))]
            parts.append(run(collate(rows)))
            advance(len(rows))
    return tuple(_join(arrays) for arrays in zip(*parts, strict=True))


def _join(arrays: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    """Concatenate batches, padding each with zeros to the largest shape."""
    shape = np.max([array.shape[1:] for array in arrays], axis=0)
    result = np.zeros((sum(map(len, arrays)), *shape), dtype=np.float32)
    start = 0
    for array in arrays:
        place = (slice(start, start + len(array)), *(slice(size) for size in array.shape[1:]))
        result[place] = array
        start += len(array)
    return result


def score_content(scores: Mapping[str, Score]) -> dict[str, Any]:
    """Return the scores for result.json."""
    return {
        "scores": {
            split: {name: asdict(figure) for name, figure in score.metrics.items()}
            for split, score in scores.items()
        },
        "details": {split: score.details for split, score in scores.items() if score.details},
    }
