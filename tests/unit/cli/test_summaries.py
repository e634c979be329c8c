"""What commands say at their end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from understudy.cli.summaries import print_scores
from understudy.workspace.result import StageResult


def distilled(**more: Any) -> dict[str, Any]:
    return {
        "stage": "distill",
        "task": "sst2",
        "model": "student",
        "scores": {"dev": {"accuracy": {"value": 0.5, "low": 0.4, "high": 0.6}}},
        "counts": {"dev": {"rows": 100}},
        "parameters": {"student": 14_000_000},
        "stages": {"prediction": {"steps": 300, "seconds": {"training": 60.0}}},
        **more,
    }


def said(content: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> str:
    print_scores(StageResult(Path("students/sst2"), content))
    return " ".join(capsys.readouterr().err.split())


def test_the_next_command_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(distilled(), capsys).endswith(
        "Next: understudy export students/sst2 --output-dir students/sst2-artifact"
    )
    finetuned = distilled(stage="finetune", steps=300, seconds={"training": 60.0})
    assert said(finetuned, capsys).endswith(
        "Next: understudy distill students/sst2 --output-dir students/sst2-student"
    )


def test_a_student_that_gives_one_answer_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert "same answer" not in said(distilled(), capsys)
    assert "The student gives the same answer to every development row" in said(
        distilled(constant=["student"]), capsys
    )
