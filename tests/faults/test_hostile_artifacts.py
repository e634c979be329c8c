"""Artifacts that were changed by somebody else: refused by an error of ours, and nothing outside is read."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from world import World

from understudy import Predictor
from understudy.errors import DataError, ModelError
from understudy.files import hash_file


@pytest.fixture
def artifact(world: World, tmp_path: Path) -> Path:
    return Path(shutil.copytree(world.artifact, tmp_path / "artifact"))


def change(artifact: Path, **values: Any) -> None:
    file = artifact / "artifact.json"
    file.write_text(json.dumps(json.loads(file.read_text("utf-8")) | values), "utf-8")


@pytest.mark.parametrize("name", ["../secret.onnx", "/etc/hostname", "onnx/../../secret.onnx"])
def test_a_model_outside_of_the_folder_is_not_read(name: str, artifact: Path) -> None:
    content = json.loads((artifact / "artifact.json").read_text("utf-8"))
    content["models"]["fp32"]["file"] = name
    change(artifact, models=content["models"], files={**content["files"], name: "0" * 64})
    with pytest.raises(ModelError, match="is outside of the folder"):
        Predictor(artifact)


@pytest.mark.parametrize("text", ["", "[]", "null", "{}", '{"format": 1}', "[" * 100_000, "\ufeff{}"])
def test_what_is_no_description_is_refused(text: str, artifact: Path) -> None:
    (artifact / "artifact.json").write_text(text, "utf-8")
    with pytest.raises(ModelError, match=r"artifact\.json"):
        Predictor(artifact)


@pytest.mark.parametrize("file", ["onnx/model.onnx", "tokenizer.json"])
@pytest.mark.parametrize("fault", ["flip", "cut", "swap", "missing"])
def test_a_damaged_file_is_named(file: str, fault: str, artifact: Path) -> None:
    place = artifact / file
    data = place.read_bytes()
    changed = {"flip": bytes([data[0] ^ 1]) + data[1:], "cut": data[:-1], "swap": b"{}"}
    if fault == "missing":
        place.unlink()
    else:
        place.write_bytes(changed[fault])
    with pytest.raises(ModelError, match=place.name):
        Predictor(artifact)


def test_a_tokenizer_with_an_endless_pattern_stops_nothing(artifact: Path) -> None:
    file = artifact / "tokenizer.json"
    content = json.loads(file.read_text("utf-8"))
    split = {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False}
    file.write_text(json.dumps(content | {"pre_tokenizer": split}), "utf-8")
    files = json.loads((artifact / "artifact.json").read_text("utf-8"))["files"]
    change(artifact, files=files | {"tokenizer.json": hash_file(file)})
    predict = Predictor(artifact)
    assert predict("the film was good")["label"]
    for text in ("a" * 200 + "!", "a" * 20_000 + "!"):
        with pytest.raises(DataError, match="the tokenizer gave up on a text"):
            predict(text)
