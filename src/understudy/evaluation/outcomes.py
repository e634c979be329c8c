"""Logits to predictions, and predictions to the per-row outcomes that metrics read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from datasets import Dataset
from numpy.typing import NDArray

from understudy.data.decode import best_answer, word_tags
from understudy.data.tasks import Task
from understudy.evaluation.metrics import Outcomes, span_counts
from understudy.evaluation.squad import score_answer

Logits = NDArray[np.floating] | tuple[NDArray[np.floating], ...]


@dataclass(frozen=True)
class Predictions:
    """What a model said about each row of a dataset, in the dataset's order.

    Attributes:
        values: label ids, scores, answer texts or lists of tags, by kind.
        outcomes: the same judged against the gold labels.
        details: figures beside the metrics (SQuAD 2.0: by answerable and not, best threshold).
    """

    values: list[Any]
    outcomes: Outcomes
    details: dict[str, float]


def judge(task: Task, rows: Dataset, encoded: Dataset, logits: Logits) -> Predictions:
    """Predictions and outcomes of a whole split.

    Args:
        rows: the checked rows.
        encoded: what was run, in the order of `logits`; it may be sorted in any way and have
            several windows a row.
    """
    if task.kind == "question-answering":
        return _judge_answers(task, rows, encoded, logits)
    assert isinstance(logits, np.ndarray)
    position = {row: index for index, row in enumerate(encoded["row"][:])}
    order = np.array([position[row] for row in rows["row"][:]])
    if task.kind == "token-classification":
        return _judge_tags(rows, encoded, logits, order)
    if task.kind == "regression":
        values = logits.reshape(len(logits), -1)[order, 0].astype(np.float64)
    else:
        values = logits.argmax(axis=-1)[order]
    outcomes = np.stack([values, np.asarray(rows["label"][:])], axis=1).astype(np.float64)
    if task.labels:
        # Metrics count in the published order (F1 is that of label 1), whatever order the model has.
        published = [task.labels.index(name) for name in rows.features["label"].names]
        outcomes = np.array(published, dtype=np.float64)[outcomes.astype(np.int64)]
    return Predictions(values.tolist(), outcomes, {})


def _judge_tags(
    rows: Dataset, encoded: Dataset, logits: NDArray[np.floating], order: NDArray[np.int64]
) -> Predictions:
    names: Sequence[str] = rows.features["tags"].feature.names
    all_word_ids = encoded["word_ids"]
    values, outcomes = [], []
    for row_tags, index in zip(rows["tags"], order, strict=True):
        predicted = word_tags(logits[index], all_word_ids[int(index)], len(row_tags), names.index("O"))
        predicted_names = [names[tag] for tag in predicted]
        values.append(predicted_names)
        outcomes.append(span_counts(predicted_names, [names[tag] for tag in row_tags]))
    return Predictions(values, np.array(outcomes, dtype=np.float64), {})


def _judge_answers(task: Task, rows: Dataset, encoded: Dataset, logits: Logits) -> Predictions:
    starts, ends = logits[0], logits[1]
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
        details = _no_answer_details(array, np.array(margins), np.array(if_answered))
    return Predictions(values, array, details)


def _no_answer_details(
    outcomes: Outcomes, margins: NDArray[np.float64], if_answered: NDArray[np.float64]
) -> dict[str, float]:
    """As the official 2.0 script: scores by answerable and not, and the best threshold in hindsight."""
    answerable = outcomes[:, 2] == 1
    details = {}
    for name, chosen in (("has_answer", answerable), ("no_answer", ~answerable)):
        if chosen.any():
            details[f"{name}_exact_match"] = float(outcomes[chosen, 0].mean())
            details[f"{name}_f1"] = float(outcomes[chosen, 1].mean())
    # Raising the threshold past a margin answers that question instead of leaving it empty.
    order = np.argsort(margins, kind="stable")
    if_empty = (~answerable).astype(np.float64)
    for column, name in enumerate(("best_exact_match", "best_f1")):
        gains = (if_answered[:, column] - if_empty)[order]
        totals = if_empty.sum() + np.concatenate([[0.0], np.cumsum(gains)])
        best = int(totals.argmax())
        details[name] = float(totals[best] / len(outcomes))
        details[f"{name}_threshold"] = float(margins[order[best - 1]] if best else margins.min() - 1)
    return details
