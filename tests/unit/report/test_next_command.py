"""The command that a finished run suggests: it replaces nothing."""

from __future__ import annotations

from pathlib import Path

from understudy.report.verdict import next_command


def test_the_next_run_has_a_folder_of_its_own(tmp_path: Path) -> None:
    folder = tmp_path / "reviews"
    (folder / "teacher").mkdir(parents=True)
    more_steps = "--set prediction.training.max_steps=900"
    assert next_command(folder, more_steps, shown="runs/reviews") == (
        f"understudy run runs/reviews/teacher --recipe runs/reviews/recipe.yaml {more_steps} "
        "--output-dir runs/reviews-2"
    )
    (tmp_path / "reviews-2").mkdir()
    assert next_command(folder, more_steps, shown="runs/reviews").endswith("--output-dir runs/reviews-3")


def test_a_teacher_is_trained_again_on_more_rows(tmp_path: Path) -> None:
    (tmp_path / "run" / "teacher").mkdir(parents=True)
    assert next_command(tmp_path / "run", "--set data.max_rows=null", shown="run") == (
        "understudy run --recipe run/recipe.yaml --set data.max_rows=null --output-dir run-2"
    )


def test_a_weak_teacher_is_trained_longer(tmp_path: Path) -> None:
    (tmp_path / "run" / "teacher").mkdir(parents=True)
    longer = "--set finetune.training.max_steps=1000"
    assert next_command(tmp_path / "run", longer, shown="run") == (
        f"understudy run --recipe run/recipe.yaml {longer} --output-dir run-2"
    )


def test_advice_that_is_no_option_is_said_as_it_is(tmp_path: Path) -> None:
    assert next_command(tmp_path, "use the fp32 model", shown="run") == "use the fp32 model"
