"""What SECURITY.md promises: models and data are read, never run, and secrets stay where they are."""

from __future__ import annotations

import csv
import json
import os
import pickle
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper
from processes import Command, run_command
from safetensors.torch import load_file
from world import World

import understudy
from understudy import Predictor
from understudy.errors import ModelError, RecipeError
from understudy.files import hash_file, seal_folder
from understudy.kinds.tasks import get_task
from understudy.models.pretrained import load_config, load_model
from understudy.recipe.load import load_recipe


class Hostile:
    """Makes a file when it is unpickled."""

    def __init__(self, proof: Path) -> None:
        self.proof = proof

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.proof),)


@pytest.fixture
def proof(tmp_path: Path) -> Path:
    """A folder that a hostile file would make."""
    place = tmp_path / "was-run"
    assert pickle.loads(pickle.dumps(Hostile(place))) is None  # it does what it says
    place.rmdir()
    return place


def test_weights_that_are_a_program_are_refused(encoder: Path, proof: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(encoder, tmp_path / "model"))
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save({**weights, "more": Hostile(proof)}, folder / "pytorch_model.bin")
    with pytest.raises(ModelError):
        load_model(str(folder), get_task("sst2"), ("a", "b"), fine_tuned=False)
    assert not proof.exists()


def test_code_of_a_model_is_not_run(encoder: Path, proof: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(encoder, tmp_path / "model"))
    (folder / "own.py").write_text(f"import os\nos.mkdir({str(proof)!r})\n", "utf-8")
    config = json.loads((folder / "config.json").read_text("utf-8"))
    config |= {"model_type": "own", "auto_map": {"AutoConfig": "own.Config", "AutoModel": "own.Model"}}
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    with pytest.raises(ModelError):
        load_config(str(folder))
    assert not proof.exists()


@pytest.mark.parametrize("name", ["optimizer.pt", "rng_state.pth", "scheduler.pt"])
def test_a_checkpoint_that_is_a_program_is_not_run(
    name: str, world: World, proof: Path, tmp_path: Path
) -> None:
    """Somebody else's checkpoint, with hashes that agree."""
    output = tmp_path / "out"
    arguments = finetune(world, output, steps=200)
    checkpoint = output / "training" / "checkpoint-2"
    Command(arguments, os.environ).kill_when((checkpoint / "seal.json").exists)
    for other in checkpoint.parent.glob("checkpoint-*"):
        if other != checkpoint:
            shutil.rmtree(other)
    torch.save({"more": Hostile(proof)}, checkpoint / name)
    seal_folder(checkpoint)
    again = Command(arguments, os.environ)
    assert again.wait() != 0
    assert "Traceback" not in again.output
    assert not proof.exists()
    again.forget()


def test_a_recipe_is_no_program(proof: Path, tmp_path: Path) -> None:
    file = tmp_path / "recipe.yaml"
    file.write_text(f"task: !!python/object/apply:os.mkdir ['{proof}']\n", "utf-8")
    with pytest.raises(RecipeError, match="is not YAML"):
        load_recipe(file)
    assert not proof.exists()


def test_a_model_file_reads_nothing_outside_of_its_folder(world: World, tmp_path: Path) -> None:
    """Weights of an ONNX file may be in other files, which it names itself."""
    artifact = Path(shutil.copytree(world.artifact, tmp_path / "artifact"))
    (tmp_path / "secret.bin").write_bytes(np.arange(4, dtype=np.float32).tobytes())
    file = artifact / "onnx" / "model.onnx"
    model = onnx.load(file)
    weight = helper.make_tensor("outside", TensorProto.FLOAT, [4], b"\0" * 16, raw=True)
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="../../secret.bin")
    model.graph.initializer.append(weight)
    model.graph.node.append(helper.make_node("Identity", ["outside"], ["leak"]))
    model.graph.output.append(helper.make_tensor_value_info("leak", TensorProto.FLOAT, [4]))
    file.write_bytes(model.SerializeToString())
    description = artifact / "artifact.json"
    content = json.loads(description.read_text("utf-8"))
    content["files"]["onnx/model.onnx"] = hash_file(file)
    description.write_text(json.dumps(content), "utf-8")
    with pytest.raises(ModelError):
        Predictor(artifact, model="fp32")("the film was good")


def test_secrets_of_the_environment_are_written_nowhere(world: World, tmp_path: Path) -> None:
    output, secret = tmp_path / "out", "hf_0123456789secret"
    run_command(finetune(world, output, steps=1), os.environ | {"HF_TOKEN": secret, "MY_PASSWORD": secret})
    files = [file for file in output.rglob("*") if file.is_file()]
    assert files
    assert not [file for file in files if secret.encode() in file.read_bytes()]


def test_html_in_labels_and_columns_is_text_in_the_model_card(world: World, tmp_path: Path) -> None:
    """A card is opened by people who did not write the rows; `test_run` has HTML in texts of a report."""
    labels = ["<script>alert(1)</script>", "fine <img src=x onerror=alert(2)>\n\n<b>"]
    rows = tmp_path / "rows.csv"
    with rows.open("w", newline="", encoding="utf-8") as file:
        words = ["good", "bad", "great", "awful"]
        csv.writer(file).writerows(
            [["<b onclick=alert(3)>text", "label"], *([word, labels[n % 2]] for n, word in enumerate(words))]
        )
    settings = {"data.train": str(rows), "data.dev": str(rows), "data.max_length": 16}
    settings |= {"data.columns": {"text": "<b onclick=alert(3)>text"}, "training.max_steps": 1}
    model = tmp_path / "model"
    understudy.finetune(world.encoder, task="classification", output_dir=model, settings=settings)
    understudy.export(model, output_dir=tmp_path / "artifact", int8=False, speed=False)
    text = (tmp_path / "artifact" / "README.md").read_text("utf-8")
    assert "&lt;script&gt;alert(1)" in text
    outside_of_code = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    assert not re.search(r"<(script|img|b)\b", outside_of_code)
    assert text.count("\n```") % 2 == 0


def finetune(world: World, output: Path, steps: int) -> list[str]:
    settings = [
        f"data.train={world.rows}",
        f"data.dev={world.rows}",
        "data.max_length=16",
        f"training.max_steps={steps}",
        "training.save_strategy=steps",
        "training.save_steps=1",
        "training.eval_strategy=no",
    ]
    given = ["finetune", str(world.encoder), "--task", "classification", "--output-dir", str(output)]
    return [*given, *(part for setting in settings for part in ("--set", setting))]
