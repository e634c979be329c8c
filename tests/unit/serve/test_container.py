"""The files of a container: what they hold, and what they leave out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from understudy.artifacts.artifact import Artifact, ExportedModel, write_artifact
from understudy.errors import ModelError, OutputError
from understudy.files import hash_file
from understudy.serve.container import write_container


@pytest.fixture
def artifact(tmp_path: Path) -> Path:
    folder = tmp_path / "artifact"
    (folder / "onnx").mkdir(parents=True)
    files = ["onnx/model.onnx", "onnx/model_quantized.onnx", "tokenizer.json", "config.json"]
    for name in files:
        (folder / name).write_text(name)
    models = {
        "fp32": ExportedModel("onnxruntime", files[0], 60_000_000),
        "int8": ExportedModel("onnxruntime", files[1], 15_000_000),
    }
    described = Artifact(
        task="My Reviews", kind="classification", fields=["text"], labels=["neg", "pos"], unanswerable=False,
        max_length=64, stride=None, truncation_side="right", padding={"input_ids": 0},
        inputs=["input_ids", "attention_mask"], outputs=["logits"], models=models, default="int8",
        parameters=1, files={name: hash_file(folder / name) for name in files},
    )  # fmt: skip
    write_artifact(folder, described)
    return folder


def test_only_the_form_that_is_used_is_copied(artifact: Path, tmp_path: Path) -> None:
    write_container(artifact, tmp_path / "out")
    copied = {path.name for path in (tmp_path / "out" / "artifact").rglob("*") if path.is_file()}
    assert copied == {"artifact.json", "model_quantized.onnx", "tokenizer.json", "config.json"}


def test_nothing_runs_as_root_or_writes(artifact: Path, tmp_path: Path) -> None:
    write_container(artifact, tmp_path / "out")
    lines = (tmp_path / "out" / "Dockerfile").read_text().splitlines()
    assert "USER 10001:10001" in lines
    (command,) = (json.loads(line.removeprefix("CMD ")) for line in lines if line.startswith("CMD"))
    assert command[:3] == ["understudy", "serve", "student=/artifact"]
    (health,) = (line for line in lines if line.startswith("HEALTHCHECK"))
    compile(json.loads(health.partition("CMD ")[2])[-1], "probe", "exec")
    deployment, service = yaml.safe_load_all((tmp_path / "out" / "kubernetes.yaml").read_text())
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert deployment["spec"]["template"]["spec"]["securityContext"]["runAsNonRoot"] is True
    assert container["resources"]["requests"]["memory"] == "140Mi"
    assert deployment["metadata"]["name"] == service["metadata"]["name"] == "my-reviews-student"
    assert service["spec"]["selector"] == deployment["spec"]["selector"]["matchLabels"]
    compose = yaml.safe_load((tmp_path / "out" / "compose.yaml").read_text())
    assert compose["services"]["my-reviews-student"]["read_only"] is True


def test_a_broken_artifact_is_not_packed(artifact: Path, tmp_path: Path) -> None:
    (artifact / "tokenizer.json").write_text("changed")
    with pytest.raises(ModelError, match="is not the file that was exported"):
        write_container(artifact, tmp_path / "out")


def test_a_folder_in_use_is_refused(artifact: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("")
    with pytest.raises(OutputError, match="is not empty"):
        write_container(artifact, tmp_path / "out")
