"""How far the probabilities of a run's models can be trusted: reliability, and what abstaining gains."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from understudy.artifacts.artifact import ARTIFACT
from understudy.report.charts import reliability
from understudy.report.markup import safe, section, side_by_side, table
from understudy.workspace.folders import ARTIFACT_FOLDER, TEACHER_INT8


def confidence_section(folder: Path) -> str:
    """Return the section of a run's report; empty if its predictions have no calibrated probabilities."""
    found = {
        "student": _calibration(folder / ARTIFACT_FOLDER),
        "teacher": _calibration(folder / TEACHER_INT8),
    }
    known = {name: one for name, one in found.items() if one is not None}
    if "student" not in known:
        return ""
    lines = [
        [safe(name), f"{one['temperature']:.2f}", f"{one['error_before']:.3f}", f"{one['error_after']:.3f}"]
        for name, one in known.items()
    ]
    head = ["in int8", "temperature", "calibration error before", "after"]
    answered = [
        [f"{100 * row['share']:.0f} %", f"{row['threshold']:.2f}", f"{row['accuracy']:.3f}"]
        for row in known["student"]["answered"]
    ]
    note = (
        "Probabilities are calibrated if 0.9 is right nine times out of ten: the dots lie on the diagonal. "
        "One temperature, fitted on the development set, divides the logits. It changes no prediction. The "
        "error after it is that of rows that it was not fitted on."
    )
    abstain = "If the student answers only above a probability, it is right more often:"
    pictures = [reliability(one["bins_before"], one["bins_after"], title=name) for name, one in known.items()]
    content = f"<p>{note}</p>{side_by_side(pictures)}{table(head, lines)}<p>{abstain}</p>"
    return section("Confidence", content + table(["answered", "from", "accuracy"], answered))


def _calibration(artifact: Path) -> Mapping[str, Any] | None:
    file = artifact / ARTIFACT
    if not file.is_file():
        return None
    found: Mapping[str, Any] | None = json.loads(file.read_text("utf-8"))["details"].get("calibration")
    return found
