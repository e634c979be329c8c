"""Every command and code block of the tutorials, in their order, each page in an empty folder."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from commands import commands, run_code, run_command, run_settings, stand_ins, write_data

import understudy
from understudy.predictor import Predictor
from understudy.recipe.load import parse_settings

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def names(encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.chdir(tmp_path)
    write_data(tmp_path)
    return stand_ins(tmp_path, encoder)


@pytest.mark.parametrize(
    ("page", "count"), [("your-csv", 4), ("search", 2), ("glue-task", 11), ("cluster", 5)]
)
def test_the_commands_of_a_tutorial_run(
    page: str, count: int, names: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (DOCS / "tutorials" / f"{page}.md").read_text("utf-8")
    found = commands(text)
    assert len(found) == count
    for arguments in found:
        run_command(arguments, names)
    if page == "your-csv":
        # The page says that this run is finished already; tiny settings must say the same.
        whole = understudy.run

        def tiny_run(*arguments: object, settings: dict[str, object], **options: object) -> object:
            more = parse_settings(run_settings("desk-classification"))
            return whole(*arguments, settings=settings | more, **options)

        monkeypatch.setattr(understudy, "run", tiny_run)
        assert run_code(text, names) == 2
    if page == "search":
        written = np.load("vectors.npy")
        Path("vectors.npy").unlink()
        assert run_code(text, names) == 2
        assert np.array_equal(np.load("vectors.npy"), written)
        assert len(written) == 40


def test_a_run_from_python(names: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    whole = understudy.run

    def tiny_run(*arguments: object, **options: object) -> object:
        return whole(*arguments, settings=run_settings("desk-classification"), **options)

    monkeypatch.setattr(understudy, "run", tiny_run)
    assert run_code((DOCS / "how-to" / "python.md").read_text("utf-8"), names) == 1


def test_the_loss_of_ones_own_trains(names: dict[str, str], tmp_path: Path) -> None:
    run_command(["finetune", names["ENCODER"], "--task", "mrpc", "--data", names["nyu-mll/glue"],
                 "--output-dir", "teachers/mrpc"], names)  # fmt: skip
    text = (DOCS / "how-to" / "own-loss.md").read_text("utf-8")
    assert run_code(text, names) == 1
    arguments = [
        "distill",
        "teachers/mrpc",
        "--student",
        "students/cosine/student",
        "--output-dir",
        "students/own",
    ]
    run_command([*arguments, "--set", "intermediate=null", "--set", "prediction.training.max_steps=1"], names)


def test_the_commands_of_several_labels_run(names: dict[str, str], tmp_path: Path) -> None:
    text = (DOCS / "how-to" / "multi-label.md").read_text("utf-8")
    (table,) = re.findall(r"```csv\n(.*?)```", text, flags=re.DOTALL)
    for name in ("train", "dev"):
        (tmp_path / f"{name}.csv").write_text(table, "utf-8")
    found = commands(text)
    assert len(found) == 5
    for arguments in found:
        run_command(arguments, names)
    assert run_code(text, names) == 1
    assert (tmp_path / "predicted.csv").read_text("utf-8").startswith("text,labels,predicted_labels\n")


def test_the_code_of_deploying_runs(names: dict[str, str], tmp_path: Path) -> None:
    run_command(["finetune", names["ENCODER"], "--task", "sst2", "--data", names["nyu-mll/glue"],
                 "--output-dir", "teachers/sst2"], names)  # fmt: skip
    run_command(["export", "teachers/sst2", "--output-dir", "ARTIFACT"], names)
    (tmp_path / "texts.txt").write_text("good\nbad\n")
    assert run_code((DOCS / "how-to" / "deploy.md").read_text("utf-8"), names) == 1
    assert Predictor("ARTIFACT")("good film")["label"] in ("positive", "negative")
