"""Compare two models on the same rows: differences with paired intervals, and agreement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from understudy.data.task import Task
from understudy.evaluation.bootstrap import estimate_difference
from understudy.evaluation.score import Score


def differences(task: Task, scores: Mapping[str, Score], others: Mapping[str, Score]) -> dict[str, Any]:
    """Return the first model's score minus the second's, with paired intervals, by split and metric."""
    return {
        split: {
            metric: asdict(
                estimate_difference(
                    task.kind.metric(metric),
                    score.predictions.outcomes,
                    others[split].predictions.outcomes,
                )
            )
            for metric in task.metrics
        }
        for split, score in scores.items()
    }


def compare(task: Task, scores: Mapping[str, Score], others: Mapping[str, Score]) -> dict[str, Any]:
    """Return `difference` by split and metric (the first model minus the second) and `agreement` by split.

    `closeness` has the kind's own figures on how close two models are, if it defines any.
    """
    content: dict[str, Any] = {"difference": differences(task, scores, others)}
    if task.kind.has_agreement:
        content["agreement"] = {split: _agreement(score, others[split]) for split, score in scores.items()}
    closeness = {
        split: task.kind.compare(score.predictions, others[split].predictions)
        for split, score in scores.items()
    }
    if any(closeness.values()):
        content["closeness"] = closeness
    return content


def _agreement(first: Score, second: Score) -> float:
    """Return the share of rows on which both give the same prediction."""
    pairs = zip(first.predictions.values, second.predictions.values, strict=True)
    return sum(bool(one == other) for one, other in pairs) / first.num_rows
