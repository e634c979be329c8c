"""A file of the predictions for every row, for inspection and comparison."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from understudy.data.labels import label_names
from understudy.data.load import TaskData
from understudy.evaluation.score import Score
from understudy.files import write_atomically

PREDICTIONS = "predictions.jsonl"


def write_predictions(
    path: Path,
    data: TaskData,
    label_field: str,
    scores: Mapping[str, Score],
    others: Mapping[str, Score] | None,
) -> None:
    """Write every row with its fields, its label, and the predictions of one or both models."""
    lines = []
    for split, rows in data.splits.items():
        said = {"prediction": scores[split]} | ({"against": others[split]} if others else {})
        for place, row in enumerate(rows):
            row[label_field] = label_names(row[label_field], data.labels)
            answers = {
                who: label_names(score.predictions.values[place], data.labels) for who, score in said.items()
            }
            lines.append(json.dumps({"split": split, **row, **answers}, ensure_ascii=False) + "\n")
    write_atomically(path, "".join(lines))


def read_predictions(path: Path, split: str) -> list[dict[str, Any]]:
    """Read the rows of a split from a file written by `write_predictions`."""
    # Not splitlines: a text may contain other line separators.
    rows = [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]
    return [row for row in rows if row["split"] == split]
