from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from understudy.evaluation.calibration import calibrate
from understudy.report.confidence import confidence_section


def write_artifact(folder: Path, *, calibrated: bool) -> None:
    generator = np.random.default_rng(0)
    logits = generator.normal(size=(200, 2)) * 4
    wrong = generator.random(200) < 0.2
    found = calibrate(logits, np.where(wrong, logits.argmin(axis=1), logits.argmax(axis=1)))
    assert found is not None
    folder.mkdir()
    details = {"calibration": found.content()} if calibrated else {}
    (folder / "artifact.json").write_text(json.dumps({"details": details}), "utf-8")


def test_a_report_shows_how_far_probabilities_can_be_trusted(tmp_path: Path) -> None:
    write_artifact(tmp_path / "artifact", calibrated=True)
    shown = confidence_section(tmp_path, with_teacher=True)
    assert shown.count("<svg") == 1
    assert "<td>student</td>" in shown
    assert "<td>100 %</td>" in shown
    write_artifact(tmp_path / "teacher-int8", calibrated=True)
    assert confidence_section(tmp_path, with_teacher=False).count("<svg") == 1
    assert confidence_section(tmp_path, with_teacher=True).count("<svg") == 2


def test_without_probabilities_there_is_no_such_section(tmp_path: Path) -> None:
    assert confidence_section(tmp_path, with_teacher=True) == ""
    write_artifact(tmp_path / "artifact", calibrated=False)
    assert confidence_section(tmp_path, with_teacher=True) == ""
