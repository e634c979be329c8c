"""Training for extractive question answering: cross entropy over start and end positions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from numpy.typing import NDArray
from torch import Tensor

from understudy.augmentation.examples import Side, change_text, moved_by, plain_side
from understudy.augmentation.replace import Variant
from understudy.capture.representations import Representations
from understudy.data.decode import best_answer
from understudy.data.kind import Kind, Row
from understudy.data.task import Task
from understudy.evaluation.metrics import Metric, own_metric
from understudy.evaluation.outcomes import Predictions, no_answer_details
from understudy.evaluation.squad import score_answer
from understudy.kinds.question_answering.rows import QuestionAnsweringRows
from understudy.objectives.patient import label_loss
from understudy.objectives.tinybert import span_prediction_loss

# B batch, L tokens

_LABELS = {"start_logits": "start_positions", "end_logits": "end_positions"}


class QuestionAnswering(QuestionAnsweringRows, Kind):
    """An answer span in the context, or no answer."""

    predicts_labels = False

    def prediction_losses(
        self,
        student: Representations,
        teacher: Representations,
        batch: Mapping[str, Tensor],
        *,
        temperature: float,
        padded: bool,
    ) -> dict[str, Tensor]:
        """Return TinyBERT Eq. 10 over positions, half for starts and half for ends."""
        return {
            name: 0.5
            * span_prediction_loss(
                student.logits[key],
                teacher.logits[key],
                batch["attention_mask"],
                temperature=temperature,
                padded=padded,
            )
            for name, key in (("starts", "start_logits"), ("ends", "end_logits"))
        }

    def label_loss(self, student: Representations, batch: Mapping[str, Tensor]) -> Tensor:
        real_BL = batch["attention_mask"] > 0
        lowest = torch.finfo(torch.float32).min
        losses = [
            label_loss(torch.where(real_BL, student.logits[key].float(), lowest), batch[label])
            for key, label in _LABELS.items()
        ]
        return torch.stack(losses).mean(dim=0)

    def soft_label_loss(
        self,
        student: Representations,
        teacher: Representations,
        batch: Mapping[str, Tensor],
        *,
        temperature: float,
        squared: bool,
    ) -> Tensor:
        losses = [
            span_prediction_loss(
                student.logits[key], teacher.logits[key], batch["attention_mask"], temperature=temperature
            )
            for key in _LABELS
        ]
        return (temperature**2 if squared else 1.0) * torch.stack(losses).mean(dim=0)

    def judge(
        self, task: Task, rows: Dataset, encoded: Dataset, logits: tuple[NDArray[Any], ...]
    ) -> Predictions:
        starts, ends = logits
        windows: Mapping[int, list[int]] = defaultdict(list)
        for index, row in enumerate(encoded["row"][:]):
            windows[row].append(index)
        offset_starts, offset_ends = encoded["offset_starts"], encoded["offset_ends"]
        values: list[str] = []
        outcomes, margins, if_answered = [], [], []
        for row in rows:
            answer = best_answer(
                (starts[index], ends[index], offset_starts[index], offset_ends[index])
                for index in windows[row["row"]]
            )
            text = row["context"][answer.start : answer.end]
            golds = row["answers"]["text"]
            value = "" if task.unanswerable and answer.is_null() else text
            values.append(value)
            outcomes.append((*score_answer(value, golds, unanswerable=task.unanswerable), float(bool(golds))))
            margins.append(answer.null_score - answer.score)
            if_answered.append(score_answer(text, golds, unanswerable=task.unanswerable))
        array = np.array(outcomes, dtype=np.float64)
        details = {}
        if task.unanswerable:
            details = no_answer_details(array, np.array(margins), np.array(if_answered))
        return Predictions(values, array, details)

    def metric(self, name: str) -> Metric:
        return own_metric(name, self.metrics)

    def sides(self, row: Row, stop_words: frozenset[str], *, swap_entities: bool) -> list[Side]:
        """Return the question and the context, without the words of answers."""
        answers = row["answers"]
        taken = [
            (start, start + len(text))
            for text, start in zip(answers["text"], answers["answer_start"], strict=True)
        ]
        return [
            plain_side("question", row["question"], stop_words),
            plain_side("context", row["context"], stop_words, taken),
        ]

    def change(self, row: Row, side: Side, variant: Variant) -> Row:
        changed = {**row, side.name: change_text(side, variant)}
        if side.name == "context":
            starts = [start + moved_by(variant, start) for start in row["answers"]["answer_start"]]
            changed["answers"] = {"text": list(row["answers"]["text"]), "answer_start": starts}
        return changed

    def gold(self, row: Mapping[str, Any]) -> Any:
        texts = row["answers"]["text"]
        return texts[0] if texts else ""


KIND = QuestionAnswering()
