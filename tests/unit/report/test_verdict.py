"""The verdict on a student: every level, and why it is not ready."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from understudy.report.verdict import falling_share, judge_student


def summary(
    low: float,
    value: float,
    high: float,
    *,
    int8: float = 0.0,
    rows: int = 5_000,
    teacher_int8: dict[str, Any] | None = None,
    megabytes: int = 15,
) -> dict[str, Any]:
    def model(name: str, score: float, size: int = megabytes, ms: float = 3.0) -> dict[str, Any]:
        return {
            "model": name,
            "scores": {"accuracy": {"value": score}},
            "bytes": 1_000_000 * size,
            "times_smaller": 134 / size,
            "milliseconds": {"1": ms},
            "cpu_milliseconds": {"1": ms},
            "times_faster": {"1": 46 / ms},
            "cpu_times_faster": {"1": 46 / ms},
        }

    has_int8 = teacher_int8 is not None and "difference" in teacher_int8
    return {
        "teacher_int8": teacher_int8,
        "models": [
            model("teacher", 0.9, 134, 46.0),
            *([model("teacher, int8", 0.899, 34, 20.0)] if has_int8 else []),
            model("student", 0.9 + value),
            model("student, fp32", 0.9 + value),
            model("student, int8", 0.9 + value + int8),
        ],
        "split": "dev",
        "difference": {"dev": {"accuracy": {"low": low, "value": value, "high": high}}},
        "stages": {"intermediate": {"steps": 600}, "prediction": {"steps": 300}},
        "constant": [],
        "teacher_guess": None,
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


def test_rows_that_were_left_out_come_first(tmp_path: Path) -> None:
    write_losses(tmp_path, [1.0] * 10)
    (tmp_path / "recipe.yaml").write_text("data: {max_rows: 300}\n")
    verdict = judge_student(summary(-0.1, -0.08, -0.06, rows=300), tmp_path, 2.0)
    assert verdict.causes == ("It learnt from 300 rows, because data.max_rows left the others out.",)
    assert verdict.steps == ("--set data.max_rows=null",)


def test_the_next_command_mends_all_that_was_too_little(tmp_path: Path) -> None:
    (tmp_path / "teacher").mkdir()
    (tmp_path / "teacher" / "result.json").write_text('{"steps": 40}')
    folder = tmp_path / "distilled"
    folder.mkdir()
    write_losses(folder, [1.0] * 10)
    (folder / "recipe.yaml").write_text("data: {max_rows: 300}\n")
    given = summary(-0.1, -0.08, -0.06, rows=300) | {"stages": {"prediction": {"steps": 40}}}
    verdict = judge_student(given, folder, 2.0)
    assert verdict.causes == (
        "The teacher was fine-tuned for 40 steps only.",
        "The stage prediction took 40 steps only.",
        "It learnt from 300 rows, because data.max_rows left the others out.",
    )
    assert verdict.steps == (
        "--set finetune.training.max_steps=1000 --set prediction.training.max_steps=1000 "
        "--set data.max_rows=null",
    )


def test_one_answer_to_every_row_is_never_ready(tmp_path: Path) -> None:
    constant = summary(-0.01, 0.0, 0.01) | {"constant": ["student"]}
    assert judge_student(constant, tmp_path, 2.0).level == "not ready"


def test_a_useless_teacher_is_named_first(tmp_path: Path) -> None:
    constant = summary(-0.01, 0.006, 0.02) | {"constant": ["teacher", "student"]}
    verdict = judge_student(constant, tmp_path, 2.0)
    assert (verdict.level, verdict.sentence) == (
        "not ready",
        "Not ready: its teacher gives one answer to every row.",
    )
    assert "fine-tune the teacher longer" in verdict.steps[0]


@pytest.mark.parametrize(("steps", "wanted"), [(10, 1_000), (400, 1_200)])
def test_a_teacher_that_hardly_beats_one_answer_is_trained_longer(
    steps: int, wanted: int, tmp_path: Path
) -> None:
    (tmp_path / "teacher").mkdir()
    (tmp_path / "teacher" / "result.json").write_text(f'{{"steps": {steps}}}')
    guess = {"right": 0.58, "answer": "pos", "share": 0.53}
    student = summary(-0.01, 0.006, 0.02) | {"teacher_guess": guess}
    verdict = judge_student(student, tmp_path / "distilled", 2.0)
    assert verdict.sentence == (
        "Not ready: its teacher is right on 58% of the development rows, hardly more than always answering "
        "'pos' (53%)."
    )
    assert verdict.steps == (f"--set finetune.training.max_steps={wanted}",)


@pytest.mark.parametrize(("num_scored", "level"), [(3, "close"), (20, "ready")])
def test_a_few_queries_prove_nothing(num_scored: int, level: str, tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "outcomes.npz", **{"student/dev": np.zeros((num_scored, 2))})
    verdict = judge_student(summary(0.0, 0.0, 0.0), tmp_path, 2.0)
    assert verdict.level == level
    assert ("the number of rows or queries that could be scored is 3" in verdict.sentence) == (
        level == "close"
    )


def test_a_small_development_set_that_settles_nothing_is_named(tmp_path: Path) -> None:
    assert judge_student(summary(-0.035, 0.01, 0.055), tmp_path, 2.0).sentence == (
        "Close: it gains 1.0 points of accuracy against its teacher, but 100 development rows do not rule "
        "out a loss of 3.5 (95 %: -3.5 to +5.5); 2 may be lost."
    )


def test_few_steps_ask_for_more(tmp_path: Path) -> None:
    few = summary(-0.1, -0.08, -0.06)
    few["stages"] = {"intermediate": {"steps": 6}, "prediction": {"steps": 4}}
    verdict = judge_student(few, tmp_path, 2.0)
    assert verdict.causes[:2] == (
        "The stage intermediate took 6 steps only.",
        "The stage prediction took 4 steps only.",
    )
    # One command that mends both.
    assert verdict.steps[0] == (
        "--set intermediate.training.max_steps=1000 --set prediction.training.max_steps=1000"
    )


def test_few_rows_ask_for_more(tmp_path: Path) -> None:
    write_losses(tmp_path, [1.0] * 10)
    verdict = judge_student(summary(-0.1, -0.08, -0.06, rows=300), tmp_path, 2.0)
    assert verdict.causes == (
        "It learnt from 300 rows only. More text of the task helps, without labels too; `understudy mine` "
        "finds some in a corpus.",
    )
    assert verdict.steps[0] == "--unlabelled FILE"  # it becomes a part of a command


def test_otherwise_it_says_that_nothing_is_obvious(tmp_path: Path) -> None:
    verdict = judge_student(summary(-0.1, -0.08, -0.06), tmp_path, 2.0)
    assert verdict.causes[0].startswith("Nothing obvious")


def int8(low: float, value: float, high: float) -> dict[str, Any]:
    return {"difference": {"dev": {"accuracy": {"low": low, "value": value, "high": high}}}}


FIGURES = (
    "accuracy 0.899 (-0.1 points, 95 %: -0.5 to +0.3), 34.0 MB (3.9 times smaller than the teacher), "
    "20.0 ms for one text (2.3 times faster)."
)


@pytest.mark.parametrize("interval", [(-0.1, -0.08, -0.06), (-0.03, -0.01, 0.01)])
def test_the_teacher_in_int8_is_better_than_a_student_that_is_not_ready(
    interval: tuple[float, float, float], tmp_path: Path
) -> None:
    verdict = judge_student(summary(*interval, teacher_int8=int8(-0.005, -0.001, 0.003)), tmp_path, 2.0)
    assert (
        verdict.alternative
        == f"For now the teacher in int8 (folder teacher-int8) is the better choice: {FIGURES}"
    )
    assert verdict.prefers_teacher


def test_a_teacher_with_one_answer_is_never_the_better_choice(tmp_path: Path) -> None:
    said = summary(-0.1, -0.08, -0.06, teacher_int8=int8(-0.005, -0.001, 0.003)) | {"constant": ["teacher"]}
    verdict = judge_student(said, tmp_path, 2.0)
    assert verdict.alternative is None
    assert not verdict.prefers_teacher


def test_a_ready_student_that_is_smaller_or_faster_is_preferred(tmp_path: Path) -> None:
    exported = int8(-0.005, -0.001, 0.003)
    ready = (-0.015, -0.005, 0.005)
    verdict = judge_student(summary(*ready, teacher_int8=exported), tmp_path, 2.0)
    assert verdict.alternative == f"For comparison, the teacher in int8: {FIGURES}"
    assert not verdict.prefers_teacher
    # Larger, but still faster.
    assert not judge_student(
        summary(*ready, teacher_int8=exported, megabytes=60), tmp_path, 2.0
    ).prefers_teacher
    slow = summary(*ready, teacher_int8=exported, megabytes=60)
    slow["models"][-1]["cpu_milliseconds"]["1"] = 25.0
    verdict = judge_student(slow, tmp_path, 2.0)
    assert (
        verdict.alternative == f"The teacher in int8 is neither larger nor slower than the student: {FIGURES}"
    )
    assert verdict.prefers_teacher


def test_a_teacher_that_loses_in_int8_is_not_recommended(tmp_path: Path) -> None:
    not_ready = summary(-0.1, -0.08, -0.06, teacher_int8=int8(-0.021, -0.01, 0.0))
    verdict = judge_student(not_ready, tmp_path, 2.0)
    assert verdict.alternative is not None
    assert verdict.alternative.startswith("For comparison, the teacher in int8: accuracy 0.899 (-1.0 points")
    assert not verdict.prefers_teacher


def test_a_busy_machine_is_named_beside_the_verdict(tmp_path: Path) -> None:
    busy = summary(-0.1, -0.08, -0.06, teacher_int8=int8(-0.005, -0.001, 0.003))
    busy["models"][1]["times_faster"]["1"] = None
    verdict = judge_student(busy, tmp_path, 2.0)
    assert verdict.alternative is not None
    assert verdict.alternative.endswith(
        "20.0 ms for one text (the machine was busy; 2.3 times faster by CPU time)."
    )


def test_no_alternative_is_said_or_left_out(tmp_path: Path) -> None:
    failed = summary(-0.1, -0.08, -0.06, teacher_int8={"failed": "int8 loses 3 points."})
    verdict = judge_student(failed, tmp_path, 2.0)
    assert verdict.alternative == "The teacher in int8 is no alternative: int8 loses 3 points."
    assert not verdict.prefers_teacher
    assert judge_student(summary(-0.1, -0.08, -0.06), tmp_path, 2.0).alternative is None


def test_a_short_log_says_nothing() -> None:
    assert falling_share([3.0, 2.0, 1.0]) is None
