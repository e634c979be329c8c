"""The command that a finished run suggests: it replaces nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from understudy.cli.run_summary import next_command


def test_the_next_run_has_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "runs" / "reviews"
    (folder / "teacher").mkdir(parents=True)
    more_steps = "--set prediction.training.max_steps=900"
    assert next_command(folder, more_steps) == (
        f"understudy run runs/reviews/teacher --recipe runs/reviews/recipe.yaml {more_steps} "
        "--output-dir runs/reviews-2"
    )
    (tmp_path / "runs" / "reviews-2").mkdir()
    assert next_command(folder, more_steps).endswith("--output-dir runs/reviews-3")


def test_a_teacher_is_trained_again_on_more_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run" / "teacher").mkdir(parents=True)
    assert next_command(tmp_path / "run", "--set data.max_rows=null") == (
        "understudy run --recipe run/recipe.yaml --set data.max_rows=null --output-dir run-2"
    )


def test_advice_that_is_no_option_is_said_as_it_is(tmp_path: Path) -> None:
    assert next_command(tmp_path, "use the fp32 model") == "use the fp32 model"
