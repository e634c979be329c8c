"""The verdict on a student: every level, and why it is not ready."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from understudy.report.verdict import falling_share, judge_student


def summary(low: float, value: float, high: float, *, int8: float = 0.0, rows: int = 5_000) -> dict[str, Any]:
    def model(name: str, score: float) -> dict[str, Any]:
        return {"model": name, "scores": {"accuracy": {"value": score}}}

    return {
        "models": [
            model("teacher", 0.9),
            model("student", 0.9 + value),
            model("student, fp32", 0.9 + value),
            model("student, int8", 0.9 + value + int8),
        ],
        "split": "dev",
        "difference": {"dev": {"accuracy": {"low": low, "value": value, "high": high}}},
        "stages": {"intermediate": {"steps": 600}, "prediction": {"steps": 300}},
        "counts": {"train": {"rows": rows}, "dev": {"rows": 100}},
    }


def write_losses(folder: Path, losses: list[float]) -> None:
    (folder / "prediction").mkdir()
    lines = [f"{step},{loss}" for step, loss in enumerate(losses)]
    (folder / "prediction" / "losses.csv").write_text("\n".join(["step,loss", *lines]) + "\n")


@pytest.mark.parametrize(
    ("interval", "tolerate", "level"),
    [
        ((-0.015, -0.005, 0.005), 2.0, "ready"),
        ((-0.03, -0.01, 0.01), 2.0, "close"),  # too few rows to tell
        ((-0.06, -0.04, -0.01), 2.0, "close"),
        ((-0.06, -0.04, -0.021), 2.0, "not ready"),
        ((-0.06, -0.04, -0.021), 6.0, "ready"),
        ((0.01, 0.02, 0.03), 0.0, "ready"),
    ],
)
def test_every_level(
    interval: tuple[float, float, float], tolerate: float, level: str, tmp_path: Path
) -> None:
    verdict = judge_student(summary(*interval), tmp_path, tolerate)
    assert verdict.level == level
    assert verdict.sentence.startswith(level.capitalize())
    assert bool(verdict.causes) == bool(verdict.steps) == (level != "ready")


def test_the_figures_are_those_of_the_shipped_form(tmp_path: Path) -> None:
    verdict = judge_student(summary(-0.01, -0.005, 0.0, int8=-0.03), tmp_path, 2.0)
    assert verdict.sentence == (
        "Not ready: it loses 3.5 points of accuracy against its teacher (95 %: -4.0 to -3.0); 2 may be lost."
    )
    assert verdict.causes[0] == "int8 loses 3.0 of these points; the fp32 file does not."
    assert "fp32" in verdict.steps[0]


def test_a_falling_loss_asks_for_more_steps(tmp_path: Path) -> None:
    write_losses(tmp_path, [1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.35, 0.3, 0.25])
    verdict = judge_student(summary(-0.1, -0.08, -0.06), tmp_path, 2.0)
    assert "still falling: by 27% over the last fifth" in verdict.causes[0]
    assert verdict.steps == ("--set prediction.training.max_steps=900",)


def test_few_rows_ask_for_more(tmp_path: Path) -> None:
    write_losses(tmp_path, [1.0] * 10)
    verdict = judge_student(summary(-0.1, -0.08, -0.06, rows=300), tmp_path, 2.0)
    assert verdict.causes == ("It learnt from 300 rows only.",)
    assert verdict.steps[0].startswith("--unlabelled")


def test_otherwise_it_says_that_nothing_is_obvious(tmp_path: Path) -> None:
    verdict = judge_student(summary(-0.1, -0.08, -0.06), tmp_path, 2.0)
    assert verdict.causes[0].startswith("Nothing obvious")


def test_a_short_log_says_nothing() -> None:
    assert falling_share([3.0, 2.0, 1.0]) is None
