"""An artifact is scored as it is shipped, on rows of the user."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from exported import fine_tune
from kinds import EXAMPLES
from typer.testing import CliRunner

import understudy
from understudy.artifacts.artifact import ARTIFACT
from understudy.cli.app import app
from understudy.errors import ModelError


@pytest.fixture(scope="module")
def artifact(encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported")
    model = fine_tune(encoder, "classification", folder, steps=30)
    understudy.export(model, output_dir=folder / "artifact", speed=False, tolerance=100.0)
    return folder / "artifact"


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("rows") / "new.csv"
    texts = ["good film", "bad film", "a very bad movie", "the movie was great", "it was awful", "good"]
    with file.open("w", newline="") as lines:
        writer = csv.writer(lines)
        writer.writerow(["text", "label"])
        writer.writerows([text, ("neg" if "bad" in text or "awful" in text else "pos")] for text in texts)
    return file


@pytest.mark.parametrize("form", [None, "fp32", "int8"])
def test_scores_are_those_of_its_predictions(artifact: Path, rows: Path, form: str | None) -> None:
    name = f"{artifact}:{form}" if form else str(artifact)
    result = understudy.evaluate(name, settings={"data.dev": str(rows)})
    with rows.open() as lines:
        meant = list(csv.DictReader(lines))
    predict = understudy.Predictor(artifact, model=form)
    right = [predict(row["text"])["label"] == row["label"] for row in meant]
    assert result.scores["dev"]["accuracy"] == pytest.approx(np.mean(right))
    assert result.content["counts"]["dev"]["rows"] == len(meant)


def test_forms_are_compared_on_the_command_line(artifact: Path, rows: Path) -> None:
    called = CliRunner().invoke(
        app,
        ["evaluate", str(artifact), "--against", f"{artifact}:fp32", "--dev", str(rows), "--json"],
    )
    assert called.exit_code == 0, called.output
    content = json.loads(called.stdout.splitlines()[-1])
    assert content["model"] == str(artifact)
    assert content["against"]["model"] == f"{artifact}:fp32"
    assert "accuracy" in content["difference"]["dev"]


def test_its_own_development_set_gives_the_scores_of_its_card(artifact: Path) -> None:
    saved = json.loads((artifact / ARTIFACT).read_text())["models"]
    dev = EXAMPLES["classification"].write(artifact.parent)
    for form in ("fp32", "int8"):
        result = understudy.evaluate(f"{artifact}:{form}", settings={"data.dev": str(dev)})
        assert result.content["scores"]["dev"] == saved[form]["scores"]["dev"]


def test_refusals(artifact: Path, encoder: Path, rows: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="its scores on the development set are in its README"):
        understudy.evaluate(artifact)
    with pytest.raises(ModelError, match="the artifact has fp32, int8"):
        understudy.evaluate(f"{artifact}:int9", settings={"data.dev": str(rows)})
    with pytest.raises(ModelError, match="is not an artifact, so it has no 'int8'"):
        understudy.evaluate(f"{encoder}:int8", task="classification", settings={"data.dev": str(rows)})
    with pytest.raises(ModelError, match="is an artifact already"):
        understudy.export(artifact, output_dir=tmp_path / "again")
    (tmp_path / "other.csv").write_text("text,label\ngood,fine\nbad,poor\n", "utf-8")
    with pytest.raises(ModelError, match="fine"):
        understudy.evaluate(artifact, settings={"data.dev": str(tmp_path / "other.csv")})


def test_thresholds_of_labels_count(encoder: Path, tmp_path: Path) -> None:
    model = fine_tune(encoder, "multi-label", tmp_path, steps=30)
    artifact = tmp_path / "artifact"
    understudy.export(model, output_dir=artifact, speed=False, int8=False)
    content = json.loads((artifact / ARTIFACT).read_text())
    thresholds = {name: (0.999, 0.001)[place % 2] for place, name in enumerate(content["labels"])}
    content["thresholds"] = dict(reversed(thresholds.items()))  # named, in whatever order
    content["temperature"] = 2.0
    (artifact / ARTIFACT).write_text(json.dumps(content))
    file = EXAMPLES["multi-label"].write(tmp_path)
    understudy.evaluate(artifact, settings={"data.dev": str(file)}, output_dir=tmp_path / "scored")
    lines = (tmp_path / "scored" / "predictions.jsonl").read_text("utf-8").splitlines()
    scored = [json.loads(line) for line in lines]
    predict = understudy.Predictor(artifact)
    labels = [predict(row["text"])["labels"] for row in scored]
    assert [sorted(row["prediction"]) for row in scored] == [sorted(one) for one in labels]
    assert all(name in one for one in labels for name in content["labels"][1::2])  # the low threshold's
