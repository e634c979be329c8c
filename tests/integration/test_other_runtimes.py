"""A student without the server: in AWS Lambda, and from Rust."""

from __future__ import annotations

import base64
import importlib.util
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import onnxruntime
import pytest

from understudy.predictor import Predictor

EXAMPLES = Path(__file__).parents[2] / "examples"
CRATES = Path("/usr/share/cargo/registry")
TEXTS = [
    "good film",
    "it was awful",
    "",
    "  the red\tcat ",
    "café NAÏVE don't 東京 ☃ 𝄞 x-ray “quote” हिन्दी ﬁ\u200bx",
    "good " * 90,
]


@pytest.fixture
def function(artifacts: dict[str, Path], tmp_path: Path) -> Any:
    """The module of examples/lambda, with an artifact beside it."""
    shutil.copy(EXAMPLES / "lambda" / "handler.py", tmp_path)
    shutil.copytree(artifacts["classification"], tmp_path / "artifact")
    spec = importlib.util.spec_from_file_location("handler", tmp_path / "handler.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_lambda_answers_a_request_and_a_direct_call(function: Any, artifacts: dict[str, Path]) -> None:
    expected = Predictor(artifacts["classification"], threads=1)("good film")
    body = json.dumps({"text": "good film"})
    encoded = {"body": base64.b64encode(body.encode()).decode(), "isBase64Encoded": True}
    for event in ({"text": "good film"}, {"body": body}, encoded):
        answer = function.handler(event, None)
        assert answer["statusCode"] == 200
        assert json.loads(answer["body"]) == expected


@pytest.mark.parametrize("body", ["{", '{"text": 5}', '{"txt": "a"}', "{}", "5", "", None])
def test_lambda_refuses_what_it_cannot_read(function: Any, body: str | None) -> None:
    answer = function.handler({"body": body}, None)
    assert answer["statusCode"] == 400
    assert json.loads(answer["body"])["error"]


@pytest.mark.skipif(
    shutil.which("cargo") is None or not CRATES.is_dir(),
    reason="Rust or its crates not installed; make rust installs them",
)
def test_rust_answers_as_the_predictor(artifacts: dict[str, Path], tmp_path: Path) -> None:
    package = tmp_path / "rust"
    shutil.copytree(EXAMPLES / "rust", package)
    options = ["--offline", "--config", 'source.crates-io.replace-with="debian"']
    options += ["--config", f'source.debian.directory="{CRATES}"']
    built = subprocess.run(
        ["cargo", "build", *options], cwd=package, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr
    assert "warning" not in built.stderr

    library = next((Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so*"))
    artifact = artifacts["classification"]
    command = [str(package / "target" / "debug" / "student"), str(artifact), str(library)]
    lines = [text.replace("\n", " ") + "\n" for text in TEXTS]
    done = subprocess.run(command, input="".join(lines), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    predict = Predictor(artifact, threads=1)
    for text, line in zip(TEXTS, done.stdout.splitlines(), strict=True):
        label, _, probability = line.partition("\t")
        expected = predict(text)
        assert label == expected["label"]
        assert float(probability) == pytest.approx(expected["score"], abs=1e-5)
