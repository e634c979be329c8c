"""A task with several labels for a text, the whole way: from two files to predictions in a third."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from kinds import EXAMPLES
from typer.testing import CliRunner

import understudy
from understudy.cli.app import app
from understudy.errors import ModelError
from understudy.predictor import Predictor

pytestmark = pytest.mark.usefixtures("short_timings")

TRAINING = {
    "per_device_train_batch_size": 16,
    "learning_rate": 5e-3,
    "report_to": "none",
    "disable_tqdm": True,
}
LABELS = ["animal", "colour", "film"]
TOPICS = {
    "cat": "animal",
    "dog": "animal",
    "red": "colour",
    "blue": "colour",
    "film": "film",
    "movie": "film",
}


def texts() -> list[tuple[str, list[str]]]:
    """Texts of three words, of which up to three have a topic."""
    words = [*TOPICS, "the", "very", "in"]
    return [
        (
            f"{first} {second} {third}",
            sorted({TOPICS[word] for word in (first, second, third) if word in TOPICS}),
        )
        for first in words
        for second in words
        for third in ("the", "red")
        if first != second
    ]


@pytest.fixture(scope="module")
def run(encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("topics")
    rows = texts()
    with (folder / "train.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("text", "topics"), *((text, ";".join(found)) for text, found in rows)])
    dev = [{"text": text, "topics": found} for text, found in rows[::3]]
    (folder / "dev.jsonl").write_text("".join(json.dumps(row) + "\n" for row in dev), "utf-8")
    values: dict[str, Any] = {
        "task": "multi-label",
        "method": "tinybert",
        "data": {"train": str(folder / "train.csv"), "dev": str(folder / "dev.jsonl"), "max_length": 32},
        "finetune": {"model": str(encoder), "training": {**TRAINING, "max_steps": 80}, "dropout": 0.0},
        "augment": {"model": str(encoder), "variants": 1},
        "student": {"shape": "1l-16d"},
        "intermediate": {"training": {**TRAINING, "max_steps": 20}},
        "prediction": {"training": {**TRAINING, "max_steps": 250}},
        "export": {"tolerance": 100.0},
    }
    (folder / "run.yaml").write_text(yaml.safe_dump(values), "utf-8")
    output = folder / "run"
    understudy.run(recipe=folder / "run.yaml", output_dir=output)
    return output


def test_teacher_and_student_learn_and_are_compared(run: Path) -> None:
    distilled = json.loads((run / "distilled" / "result.json").read_text())
    assert distilled["labels"] == LABELS
    assert distilled["against"]["scores"]["dev"]["micro_f1"]["value"] > 0.95
    figures = distilled["scores"]["dev"]
    assert list(figures) == ["micro_f1", "macro_f1"]
    assert figures["micro_f1"]["value"] > 0.8
    for figure in figures.values():
        assert figure["low"] <= figure["value"] <= figure["high"]
    assert 0.5 < distilled["agreement"]["dev"] <= 1.0
    config = json.loads((run / "distilled" / "student" / "config.json").read_text())
    assert config["problem_type"] == "multi_label_classification"
    lines = (run / "evaluation" / "predictions.jsonl").read_text().splitlines()
    assert {"label", "prediction", "against"} <= set(json.loads(lines[0]))
    assert isinstance(json.loads(lines[0])["prediction"], list)
    assert "micro_f1" in (run / "report.html").read_text()


def test_thresholds_are_chosen_on_dev_shipped_and_used(run: Path) -> None:
    artifact = json.loads((run / "artifact" / "artifact.json").read_text())
    assert list(artifact["thresholds"]) == LABELS
    assert "chosen on the development set" in (run / "artifact" / "README.md").read_text()
    predict = Predictor(run / "artifact", model="fp32")
    rows = texts()[::3]
    answers = predict([text for text, _ in rows])
    for answer in answers:
        expected = [name for name in LABELS if answer["probabilities"][name] >= artifact["thresholds"][name]]
        assert answer["labels"] == expected
    for name in LABELS:  # no label is worse off than at 0.5
        gold = np.array([name in found for _, found in rows])
        at_half = np.array([answer["probabilities"][name] >= 0.5 for answer in answers])
        chosen = np.array([name in answer["labels"] for answer in answers])
        figures = [2 * (gold & side).sum() / (gold.sum() + side.sum()) for side in (chosen, at_half)]
        assert figures[0] >= figures[1]


def test_thresholds_of_other_labels_are_refused(run: Path, tmp_path: Path) -> None:
    artifact = json.loads((run / "artifact" / "artifact.json").read_text())
    del artifact["thresholds"]["film"]
    (tmp_path / "artifact.json").write_text(json.dumps(artifact))
    with pytest.raises(ModelError, match="thresholds must have every label and no other"):
        Predictor(tmp_path)


def test_a_table_gets_a_column_of_labels_that_can_be_learnt_from(run: Path, tmp_path: Path) -> None:
    given, made = tmp_path / "in.csv", tmp_path / "out.csv"
    given.write_text("number,text\n1,red cat the\n2,in the very\n", "utf-8")
    arguments = ["predict", str(run / "artifact"), "--file", str(given), "--output", str(made)]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    with made.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [list(row) for row in rows] == [["number", "text", "labels"]] * 2
    expected = Predictor(run / "artifact")(["red cat the", "in the very"])
    assert [row["labels"] for row in rows] == [";".join(answer["labels"]) for answer in expected]
    scores = understudy.evaluate(
        run / "distilled", task="multi-label", settings={"data.dev": str(made), "data.train": None}
    )
    assert scores.content["counts"]["dev"]["rows"] == 2


def test_a_teacher_of_one_label_for_a_text_is_refused(encoder: Path, tmp_path: Path) -> None:
    file = str(EXAMPLES["classification"].write(tmp_path))
    quick = {f"training.{key}": value for key, value in TRAINING.items()} | {"training.max_steps": 1}
    settings = quick | {"data.train": file, "data.dev": file, "training.eval_strategy": "no"}
    settings |= {"training.load_best_model_at_end": False, "training.save_strategy": "no"}
    understudy.finetune(encoder, task="classification", output_dir=tmp_path / "one", settings=settings)
    config = json.loads((tmp_path / "one" / "config.json").read_text())
    (tmp_path / "one" / "config.json").write_text(
        json.dumps(config | {"problem_type": "single_label_classification"})
    )
    with pytest.raises(ModelError, match="its problem_type is single_label_classification"):
        understudy.distill(
            tmp_path / "one",
            student="1l-16d",
            task="multi-label",
            output_dir=tmp_path / "out",
            settings={"data.train": file, "data.dev": file},
        )


def test_mined_text_is_balanced_by_the_most_probable_label(run: Path, tmp_path: Path) -> None:
    words = ["cat", "dog", "red", "film", "city"]
    texts = [f"{first} {second} river" for first in words for second in words if first != second]
    (tmp_path / "corpus.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    result = understudy.mine(
        [tmp_path / "corpus.jsonl"],
        teacher=run / "teacher",
        output_dir=tmp_path / "mined",
        settings={"mine.neighbours": 4, "mine.duplicate": 0.9999},
    )
    mined = result.content["mined"]
    assert mined["written"] > 0
    assert set(mined["groups"]) <= set(LABELS)
    assert sum(mined["groups"].values()) == mined["written"]
