"""A reranker the whole way: from triples to an int8 file that orders passages."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from exported import write_encoder
from transformers import PreTrainedTokenizerFast
from typer.testing import CliRunner

import understudy
from understudy.cli.app import app
from understudy.errors import ModelError
from understudy.predictor import Predictor

TRAINING = {"per_device_train_batch_size": 16, "report_to": "none", "disable_tqdm": True}
COLOURS, ANIMALS = ("red", "blue", "big"), ("cat", "dog", "film")
PASSAGES = [
    f"the {colour} {animal} {verb}" for colour in COLOURS for animal in ANIMALS for verb in ("runs", "sleeps")
]


def triples() -> list[dict[str, str]]:
    """Queries that name the animal of the passage."""
    rows = []
    for animal in ANIMALS:
        right = [text for text in PASSAGES if animal in text]
        wrong = [text for text in PASSAGES if animal not in text]
        rows += [
            {"query": f"{start} {animal}", "positive": one, "negative": other}
            for start in ("a", "the", "is", "good")
            for one in right
            for other in wrong[:8]
        ]
    return rows


def write(file: Path, rows: list[dict[str, Any]]) -> Path:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return file


@pytest.fixture(scope="module")
def finished(tokenizer: PreTrainedTokenizerFast, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ranking")
    encoder = write_encoder("bert", tokenizer, folder / "encoder")
    train = write(folder / "triples.jsonl", triples())
    dev = [
        {"query": f"bad {animal}", "passage": text, "label": int(animal in text)}
        for animal in ANIMALS
        for text in PASSAGES
    ]
    settings = {
        "data.dev": str(write(folder / "dev.jsonl", dev)),
        "data.max_length": 16,
        "finetune.training.max_steps": 150,
        "finetune.training.learning_rate": 3e-3,
        "student.shape": None,
        "student.num_hidden_layers": 1,
        "student.hidden_size": 16,
        "intermediate.training.max_steps": 30,
        "intermediate.training.learning_rate": 5e-3,
        "prediction.training.max_steps": 150,
        "prediction.training.learning_rate": 5e-3,
    }
    for stage in ("finetune", "intermediate", "prediction"):
        settings |= {f"{stage}.training.{name}": value for name, value in TRAINING.items()}
    understudy.run(
        encoder,
        recipe="desk-ranking",
        data={"train": str(train)},
        settings=settings,
        output_dir=folder / "run",
    )
    return folder / "run"


def test_a_student_learns_the_order_of_its_teacher(finished: Path) -> None:
    result = json.loads((finished / "distilled" / "result.json").read_text("utf-8"))
    taught = json.loads((finished / "teacher" / "result.json").read_text("utf-8"))
    assert taught["scores"]["dev"]["ndcg_at_10"]["value"] > 0.9
    assert result["scores"]["dev"]["ndcg_at_10"]["value"] > 0.85
    losses = result["stages"]["prediction"]["losses"]
    assert losses["margins"]["last"] < losses["margins"]["first"] / 2
    assert "ndcg_at_10" in (finished / "report.html").read_text("utf-8")
    card = (finished / "artifact" / "README.md").read_text("utf-8")
    assert "pipeline_tag: text-ranking" in card


def test_passages_are_ordered(finished: Path) -> None:
    predictor = Predictor(finished / "artifact")
    found = predictor.rank("bad cat", PASSAGES, top=4)
    assert len(found) == 4
    assert "cat" in PASSAGES[found[0][0]]
    assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)
    assert predictor(("bad cat", PASSAGES[found[0][0]]))["score"] == found[0][1]
    assert predictor.rank("bad dog", []) == []
    with pytest.raises(ModelError, match="only embedding models"):
        predictor.embed(["a text"])


CODE = """
import json, sys
from sentence_transformers import CrossEncoder
pairs = json.load(open(sys.argv[2], encoding="utf-8"))
scores = CrossEncoder(sys.argv[1], device="cpu").predict(pairs)
assert "understudy" not in sys.modules
json.dump(scores.tolist(), open(sys.argv[3], "w"))
"""


def test_cross_encoder_loads_the_student(finished: Path, tmp_path: Path) -> None:
    pairs = [("bad dog", text) for text in [*PASSAGES[:5], "ünïcode", "very " * 50]]
    (tmp_path / "pairs.json").write_text(json.dumps(pairs), "utf-8")
    files = [str(tmp_path / name) for name in ("pairs.json", "scores.json")]
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(finished / "distilled" / "student"), *files],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    theirs = json.loads((tmp_path / "scores.json").read_text("utf-8"))
    ours = [one["score"] for one in Predictor(finished / "artifact", model="fp32")(pairs)]
    assert np.abs(np.array(theirs) - ours).max() < 1e-5


def test_unlabelled_triples_are_enough(finished: Path, tmp_path: Path) -> None:
    """Without a development set, whole queries are held out and the teacher scores their passages."""
    write(tmp_path / "triples.jsonl", triples())
    for name in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"):
        (tmp_path / "teacher").mkdir(exist_ok=True)  # without its recipe, which names a development set
        shutil.copy(finished / "teacher" / name, tmp_path / "teacher" / name)
    settings = {"data.unlabelled": [str(tmp_path / "triples.jsonl")], "data.max_length": 16}
    settings |= {"student.shape": None, "student.num_hidden_layers": 1, "student.hidden_size": 16}
    for stage in ("intermediate", "prediction"):
        settings |= {f"{stage}.training.{name}": value for name, value in TRAINING.items()}
        settings |= {f"{stage}.training.max_steps": 4}
    result = understudy.distill(
        tmp_path / "teacher", task="ranking", settings=settings, output_dir=tmp_path / "student"
    ).content
    assert result["labels_from"] == "teacher"
    assert 0 < result["scores"]["dev"]["ndcg_at_10"]["value"] <= 1


def test_predictions_from_the_command_line(finished: Path) -> None:
    shown = CliRunner().invoke(app, ["predict", str(finished / "artifact"), "bad dog", "the red dog runs"])
    assert shown.exit_code == 0, shown.output
    assert 0 <= float(shown.output.split()[-1]) <= 1
