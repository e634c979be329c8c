from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from understudy.evaluation.calibration import calibrate
from understudy.report.confidence import confidence_section


def write_artifact(folder: Path, *, calibrated: bool) -> None:
    generator = np.random.default_rng(0)
    logits = generator.normal(size=(200, 2)) * 4
    found = calibrate(logits, generator.integers(0, 2, 200))
    assert found is not None
    folder.mkdir()
    details = {"calibration": found.content()} if calibrated else {}
    (folder / "artifact.json").write_text(json.dumps({"details": details}), "utf-8")


def test_a_report_shows_how_far_probabilities_can_be_trusted(tmp_path: Path) -> None:
    write_artifact(tmp_path / "artifact", calibrated=True)
    shown = confidence_section(tmp_path)
    assert shown.count("<svg") == 1
    assert "<td>student</td>" in shown
    assert "<td>100 %</td>" in shown
    write_artifact(tmp_path / "teacher-int8", calibrated=True)
    assert confidence_section(tmp_path).count("<svg") == 2


def test_without_probabilities_there_is_no_such_section(tmp_path: Path) -> None:
    assert confidence_section(tmp_path) == ""
    write_artifact(tmp_path / "artifact", calibrated=False)
    assert confidence_section(tmp_path) == ""
