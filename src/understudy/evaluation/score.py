"""Run a model over a split and score it."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass

import numpy as np
import torch
from datasets import Dataset
from transformers import EvalPrediction, PreTrainedModel, PreTrainedTokenizerFast, Trainer, TrainingArguments

from understudy.data.encode import Collator, encode
from understudy.data.tasks import Task
from understudy.evaluation.bootstrap import Estimate, estimate
from understudy.evaluation.metrics import METRICS
from understudy.evaluation.outcomes import Logits, Predictions, judge


@dataclass(frozen=True)
class EvaluationSplit:
    """A split ready to be scored: its rows, and their encoding sorted by length for speed."""

    task: Task
    rows: Dataset
    encoded: Dataset

    def judge(self, logits: Logits) -> Predictions:
        """Predictions of this split from its logits; what a model returns after them is left out."""
        if self.task.kind == "question-answering":
            logits = logits[:2]
        elif isinstance(logits, tuple):
            logits = logits[0]
        return judge(self.task, self.rows, self.encoded, logits)

    def metrics(self, prediction: EvalPrediction) -> dict[str, float]:
        """For Trainer's `compute_metrics`."""
        outcomes = self.judge(prediction.predictions).outcomes
        return {name: METRICS[name](outcomes) for name in self.task.metrics}


def prepare_split(
    task: Task,
    rows: Dataset,
    tokenizer: PreTrainedTokenizerFast,
    *,
    max_length: int,
    stride: int | None = None,
) -> EvaluationSplit:
    """Encode a split for scoring, longest rows first: too little memory shows at once."""
    encoded = encode(rows, task.kind, tokenizer, max_length=max_length, stride=stride)
    order = np.argsort(-np.asarray(encoded["length"]), kind="stable")
    return EvaluationSplit(task, rows, encoded.select(order))


@dataclass(frozen=True)
class Score:
    """A model's figures on one split."""

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
    """Predict a split in float32 and score it, with intervals."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            per_device_eval_batch_size=batch_size,
            remove_unused_columns=False,
            report_to="none",
            dataloader_pin_memory=torch.accelerator.is_available(),
        )
        trainer = Trainer(model, arguments, data_collator=Collator(tokenizer))
        logits = trainer.predict(split.encoded).predictions
    predictions = split.judge(logits)
    metrics = {name: estimate(METRICS[name], predictions.outcomes) for name in split.task.metrics}
    return Score(metrics, predictions.details, predictions, len(split.rows))
