"""The trustworthiness of a run's probabilities: reliability, and what abstaining gains."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from understudy.artifacts.artifact import ARTIFACT
from understudy.report.charts import reliability
from understudy.report.markup import safe, section, side_by_side, table
from understudy.workspace.folders import ARTIFACT_FOLDER, TEACHER_INT8


def confidence_section(folder: Path, *, with_teacher: bool) -> str:
    """Return the section of a run's report; empty if its predictions have no calibrated probabilities.

    Args:
        with_teacher: whether the teacher was exported too.
    """
    places = {"student": ARTIFACT_FOLDER, **({"teacher": TEACHER_INT8} if with_teacher else {})}
    found = {name: _calibration(folder / place) for name, place in places.items()}
    known = {name: one for name, one in found.items() if one is not None}
    if "student" not in known:
        return ""
    lines = [
        [safe(name), f"{one['temperature']:.2f}", f"{one['error_before']:.3f}", f"{one['error_after']:.3f}"]
        for name, one in known.items()
    ]
    head = ["in int8", "temperature", "calibration error before", "after"]
    note = (
        "Probabilities are calibrated if 0.9 is right nine times out of ten: the dots lie on the diagonal. "
        "One temperature, fitted on the development set, divides the logits; the most probable label stays "
        "the same. The error after it is that of rows that it was not fitted on."
    )
    if known["student"]["temperature"] == 1:
        note += " For this student no temperature lowers that error, so none is applied."
    pictures = [reliability(one["bins_before"], one["bins_after"], title=name) for name, one in known.items()]
    content = f"<p>{note}</p>{side_by_side(pictures, 'small')}{table(head, lines)}"
    return section("Confidence", content + _abstaining(known["student"]))


def _abstaining(calibration: Mapping[str, Any]) -> str:
    """Return a table of what abstaining gains; empty if a row has several decisions."""
    if calibration["num_decisions"] != calibration["num_rows"]:
        return ""
    lines = [
        [f"{100 * row['share']:.0f} %", f"{row['threshold']:.2f}", f"{row['accuracy']:.3f}"]
        for row in calibration["answered"]
    ]
    gains = calibration["answered"][-1]["accuracy"] > calibration["answered"][0]["accuracy"]
    more = "it is right more often" if gains else "it is not right more often: its confidence says little"
    note = f"<p>If the student answers only above a probability, {more}:</p>"
    return note + table(["answered", "from", "accuracy"], lines)


def _calibration(artifact: Path) -> Mapping[str, Any] | None:
    file = artifact / ARTIFACT
    if not file.is_file():
        return None
    found: Mapping[str, Any] | None = json.loads(file.read_text("utf-8"))["details"].get("calibration")
    return found
