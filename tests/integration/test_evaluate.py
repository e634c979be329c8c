from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from kinds import write_classification
from test_finetune import settings_for
from typer.testing import CliRunner

import understudy
from understudy.cli.app import app
from understudy.errors import ModelError, OutputError, RecipeError


@pytest.fixture(scope="module")
def teachers(encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("teachers")
    file = write_classification(folder)
    for name, steps in (("short", 1), ("long", 60)):
        settings = settings_for(file) | {"training.max_steps": steps, "training.report_to": "none"}
        understudy.finetune(encoder, task="classification", output_dir=folder / name, settings=settings)
    return folder / "short", folder / "long"


def test_a_folder_of_ours_knows_its_task_and_data(teachers: tuple[Path, Path]) -> None:
    result = CliRunner().invoke(app, ["evaluate", str(teachers[1]), "--json"])
    assert result.exit_code == 0
    content = json.loads(result.stdout)  # nothing but JSON on standard output
    assert content["task"] == "classification"
    saved = json.loads((teachers[1] / "result.json").read_text())
    assert content["scores"] == saved["scores"]
    assert "accuracy" in result.stderr
    assert "score (95 %)" in result.stderr


def test_two_models_on_the_same_rows(teachers: tuple[Path, Path], tmp_path: Path) -> None:
    short, long = teachers
    content = understudy.evaluate(long, against=short, output_dir=tmp_path / "out").content
    ours, theirs = (part["scores"]["dev"]["accuracy"]["value"] for part in (content, content["against"]))
    difference = content["difference"]["dev"]["accuracy"]
    assert difference["value"] == pytest.approx(ours - theirs)
    assert difference["low"] <= difference["value"] <= difference["high"]
    assert 0 <= content["agreement"]["dev"] <= 1
    assert json.loads((tmp_path / "out" / "result.json").read_text())["difference"] == content["difference"]


def test_a_model_agrees_with_itself(teachers: tuple[Path, Path]) -> None:
    content = understudy.evaluate(teachers[0], against=teachers[0]).content
    assert content["agreement"]["dev"] == 1.0
    assert content["difference"]["dev"]["accuracy"] == {"value": 0.0, "low": 0.0, "high": 0.0}


def test_batches_change_nothing(teachers: tuple[Path, Path]) -> None:
    results = [understudy.evaluate(teachers[1], batch_size=size).scores for size in (1, 3, 64)]
    assert results[0] == results[1] == results[2]


def test_labels_in_another_order_are_an_error_that_shows_both(teachers: tuple[Path, Path]) -> None:
    with pytest.raises(ModelError, match=r"(?s) 0  neg +pos.*--set 'data\.labels=\[\"neg\", \"pos\"\]'"):
        understudy.evaluate(teachers[1], settings={"data.labels": ["pos", "neg"]})


def test_an_encoder_without_a_head_is_refused(encoder: Path, tmp_path: Path) -> None:
    file = str(write_classification(tmp_path))
    with pytest.raises(
        ModelError, match=r"has no head for classification.*BertForMaskedLM.*understudy finetune"
    ):
        understudy.evaluate(encoder, task="classification", settings={"data.dev": file})


def test_a_model_that_does_not_know_its_task_is_told(encoder: Path) -> None:
    with pytest.raises(RecipeError, match="--task must be given"):
        understudy.evaluate(encoder)


def test_a_result_is_not_overwritten(teachers: tuple[Path, Path]) -> None:
    with pytest.raises(OutputError, match="holds a result already"):
        understudy.evaluate(teachers[0], output_dir=teachers[0])


def test_a_classifier_is_no_regression(teachers: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("text,label\ngood film,1.5\n", "utf-8")
    settings = {"data.dev": str(tmp_path / "new.csv"), "data.train": None}
    with pytest.raises(ModelError, match="a head of 2 labels, and a number needs one"):
        understudy.evaluate(teachers[0], task="regression", settings=settings)


def test_both_models_are_looked_at_before_one_is_run(teachers: tuple[Path, Path]) -> None:
    with pytest.raises(ModelError, match=r"nowhere.*is neither a model's folder here nor a hub name"):
        understudy.evaluate(teachers[0], against="nowhere/at-all")


def test_an_unfinished_run_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text("task: mrpc\ndata:\n  source: glue\n")
    with pytest.raises(OutputError, match="holds an unfinished run"):
        understudy.evaluate(tmp_path)


def test_a_model_that_does_not_name_its_labels_is_taken_by_number_and_that_is_said(
    teachers: tuple[Path, Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.copytree(teachers[1], tmp_path / "unnamed")
    config = json.loads((tmp_path / "unnamed" / "config.json").read_text())
    config |= {"id2label": {"0": "LABEL_0", "1": "LABEL_1"}, "label2id": {"LABEL_0": 0, "LABEL_1": 1}}
    (tmp_path / "unnamed" / "config.json").write_text(json.dumps(config))
    result = understudy.evaluate(tmp_path / "unnamed")
    assert result.scores == understudy.evaluate(teachers[1]).scores
    assert "does not name its labels; its ids are taken in this order: neg, pos" in caplog.text


def test_new_data_take_the_place_of_the_recipes(teachers: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("text,label\ngood film,pos\n", "utf-8")
    result = understudy.evaluate(teachers[1], settings={"data.dev": str(tmp_path / "new.csv")})
    assert result.content["counts"]["dev"]["rows"] == 1
