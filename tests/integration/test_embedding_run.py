"""An embedding model the whole way: from texts without labels to vectors of an int8 file."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import torch
from exported import write_encoder
from sentence_transformers import SentenceTransformer
from servers import Server
from teaching import train_teacher
from transformers import PreTrainedTokenizerFast
from typer.testing import CliRunner

import understudy
from understudy.cli.app import app
from understudy.errors import DataError, ModelError, RecipeError
from understudy.kinds.embedding.pooling import pooling_of
from understudy.models.pretrained import load_config
from understudy.predictor import Predictor
from understudy.workspace.objects import model_path
from understudy.workspace.sharing import student_content

TRAINING = {
    "per_device_train_batch_size": 16,
    "report_to": "none",
    "disable_tqdm": True,
}
TEXTS = [
    f"{start} {colour} {animal} {verb} {end}"
    for start, colour, animal, verb, end in itertools.product(
        ("the", "a"), ("red", "blue", "big"), ("cat", "dog", "film"), ("runs", "sleeps", "is"), ("fast", ".")
    )
]


@pytest.fixture(scope="module")
def teacher(tokenizer: PreTrainedTokenizerFast, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_encoder("bert", tokenizer, tmp_path_factory.mktemp("teacher") / "bert")


@pytest.fixture(scope="module")
def finished(teacher: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    (folder / "texts.txt").write_text("\n".join(TEXTS) + "\n", "utf-8")
    recipe = {
        "data": {"max_length": 16},
        "student": {"shape": None, "num_hidden_layers": 1, "hidden_size": 16},
        "intermediate": {"training": {**TRAINING, "max_steps": 20, "learning_rate": 5e-3}},
        "prediction": {"training": {**TRAINING, "max_steps": 150, "learning_rate": 1e-2}},
    }
    understudy.run(
        teacher,
        task="embedding",
        data={"train": str(folder / "texts.txt")},
        settings=flat(recipe),
        output_dir=folder / "run",
    )
    return folder / "run"


def flat(values: dict[str, Any], before: str = "") -> dict[str, Any]:
    """Settings by their dotted names."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        found |= flat(value, f"{before}{name}.") if isinstance(value, dict) else {f"{before}{name}": value}
    return found


def test_a_student_learns_its_teachers_vectors(finished: Path) -> None:
    result = json.loads((finished / "distilled" / "result.json").read_text("utf-8"))
    assert result["labels_from"] == "teacher"
    assert result["scores"]["dev"]["spearman"]["value"] > 0.6
    closeness = result["closeness"]["dev"]
    assert closeness["cosine"] > 0.8
    assert closeness["neighbours"] > 0.3
    prediction = result["stages"]["prediction"]["losses"]["loss"]
    assert prediction["last"] < prediction["first"] / 2


def vector_settings(**prediction: Any) -> dict[str, Any]:
    recipe = {
        "data": {"max_length": 16},
        "student": {"shape": None, "num_hidden_layers": 1, "hidden_size": 16},
        "intermediate": None,
        "prediction": {"training": {**TRAINING, "max_steps": 60, "learning_rate": 1e-2}, **prediction},
    }
    return flat(recipe)


def test_the_best_step_is_kept_by_its_score(teacher: Path, tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS) + "\n", "utf-8")
    settings = vector_settings() | {
        f"prediction.training.{name}": value
        for name, value in {
            "max_steps": 4,
            "eval_strategy": "steps",
            "save_strategy": "steps",
            "eval_steps": 2,
            "save_steps": 2,
            "load_best_model_at_end": True,
        }.items()
    }
    done = understudy.distill(
        teacher,
        task="embedding",
        data={"train": str(tmp_path / "texts.txt")},
        settings=settings,
        output_dir=tmp_path / "out",
    )
    trial = done.content["stages"]["prediction"]["trials"][0]
    assert trial["score"] == pytest.approx(done.content["scores"]["dev"]["spearman"]["value"], abs=1e-6)


def test_first_numbers_and_similarities_are_learnt_too(teacher: Path, tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS) + "\n", "utf-8")
    done = understudy.distill(
        teacher,
        task="embedding",
        data={"train": str(tmp_path / "texts.txt")},
        settings=vector_settings(dimensions=[4, 8], similarities=5.0),
        output_dir=tmp_path / "out",
    )
    losses = done.content["stages"]["prediction"]["losses"]
    assert list(losses) == ["loss", "predictions", "first4", "first8", "similarities"]
    assert all(figure["last"] < figure["first"] for figure in losses.values())


@pytest.mark.parametrize(
    ("task", "prediction", "message"),
    [
        ("embedding", {"dimensions": [100_000]}, "smaller than the vectors"),
        ("classification", {"dimensions": [4]}, "this task has no vectors"),
        ("classification", {"similarities": 1.0}, "this task has no vectors"),
    ],
)
def test_settings_of_vectors_that_cannot_be(
    task: str, prediction: dict[str, Any], message: str, teacher: Path, encoder: Path, tmp_path: Path
) -> None:
    if task == "embedding":
        (tmp_path / "rows.txt").write_text("\n".join(TEXTS) + "\n", "utf-8")
        data = {"train": str(tmp_path / "rows.txt")}
    else:
        teacher = train_teacher(encoder, task, tmp_path)
        data = {}
    with pytest.raises(RecipeError, match=message):
        understudy.distill(
            teacher,
            task=task,
            data=data,
            settings=vector_settings(**prediction) | {"prediction.search": None},
            output_dir=tmp_path / "out",
        )


def test_the_report_is_about_vectors(finished: Path) -> None:
    page = (finished / "report.html").read_text("utf-8")
    assert "spearman" in page
    card = (finished / "artifact" / "README.md").read_text("utf-8")
    assert "pipeline_tag: sentence-similarity" in card
    assert "embed" in card


def test_vectors_of_the_artifact(finished: Path) -> None:
    predictor = Predictor(finished / "artifact", model="fp32")
    vectors = predictor.embed([*TEXTS[:5], "", "ünïcode"])
    assert vectors.shape == (7, 32)  # the teacher's width
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(7), abs=1e-6)
    assert predictor(TEXTS[0])["vector"] == pytest.approx(vectors[0].tolist(), abs=1e-6)
    rounded = predictor.embed(TEXTS[:5], dtype="int8")
    assert rounded.dtype == np.int8
    assert np.abs(rounded / 127 - vectors[:5]).max() <= 0.5 / 127 + 1e-6
    short = predictor.embed(TEXTS[:5], dimension=8)
    assert short.shape == (5, 8)
    assert short[0] == pytest.approx(vectors[0, :8] / np.linalg.norm(vectors[0, :8]), abs=1e-6)
    assert predictor.embed([]).shape[0] == 0
    with pytest.raises(DataError, match="several texts"):
        predictor.embed("one text")


def test_vectors_from_the_command_line(finished: Path, tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS[:9]) + "\n", "utf-8")
    arguments = [
        "predict",
        str(finished / "artifact"),
        "--file",
        str(tmp_path / "texts.txt"),
        "--model",
        "fp32",
    ]
    made = CliRunner().invoke(app, [*arguments, "--npy", str(tmp_path / "vectors.npy")])
    assert made.exit_code == 0, made.output
    vectors = np.load(tmp_path / "vectors.npy")
    assert np.abs(vectors - Predictor(finished / "artifact", model="fp32").embed(TEXTS[:9])).max() < 1e-6
    shown = CliRunner().invoke(app, ["predict", str(finished / "artifact"), "a red cat"])
    assert "… (32 numbers)" in shown.output


CODE = """
import sys
import numpy as np
from sentence_transformers import SentenceTransformer
texts = open(sys.argv[2], encoding="utf-8").read().split("\\n")
vectors = SentenceTransformer(sys.argv[1], device="cpu").encode(texts)
assert "understudy" not in sys.modules
np.save(sys.argv[3], vectors)
"""


def test_sentence_transformers_loads_the_student(finished: Path, tmp_path: Path) -> None:
    texts = [*TEXTS[:7], "ünïcode", "very " * 50]
    (tmp_path / "texts.txt").write_text("\n".join(texts), "utf-8")
    arguments = [
        str(finished / "distilled" / "student"),
        str(tmp_path / "texts.txt"),
        str(tmp_path / "v.npy"),
    ]
    done = subprocess.run(
        [sys.executable, "-c", CODE, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "newly initialized" not in done.stderr  # nothing is missing, as BERT's pooler would be
    ours = Predictor(finished / "artifact", model="fp32").embed(texts)
    assert np.abs(np.load(tmp_path / "v.npy") - ours).max() < 1e-5


def test_scores_of_retrieval(finished: Path, tmp_path: Path) -> None:
    rows = [{"text": text, "text_pair": text.replace("the", "a"), "label": 1} for text in TEXTS[:20]]
    (tmp_path / "dev.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    result = understudy.evaluate(
        finished / "distilled",
        task="embedding",
        settings={"data.dev": str(tmp_path / "dev.jsonl"), "metric": "mrr_at_10"},
    ).content
    assert 0 < result["scores"]["dev"]["mrr_at_10"]["value"] <= 1


def test_vectors_that_int8_destroys_are_not_shipped(finished: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(finished / "distilled" / "student", broken)
    model = SentenceTransformer(str(broken), device="cpu")
    # A huge number that the next product ignores takes all of the range of the others.
    norm = model[0].auto_model.encoder.layer[-1].output.LayerNorm
    with torch.no_grad():
        norm.weight[0], norm.bias[0] = 0.0, 1e5
        next(one for one in model if hasattr(one, "linear")).linear.weight[:, 0] = 0.0
    model.save(str(broken))
    rows = [
        {"text": text, "text_pair": other, "label": float(len(set(text.split()) & set(other.split())))}
        for text, other in itertools.combinations(TEXTS, 2)
    ][::4]
    (tmp_path / "dev.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    settings = {"data.dev": str(tmp_path / "dev.jsonl"), "data.max_length": 16}
    out = tmp_path / "out"
    exported = understudy.export(broken, task="embedding", output_dir=out, speed=False, settings=settings)
    tried = exported.content["details"]["gate"]["int8"]["tried"]
    assert tried[0]["points_lost"] > 0.5
    assert exported.content["models"]["int8"]["kept_in_fp32"] == ["head"]
    fp32, int8 = (exported.content["models"][form]["scores"]["dev"]["spearman"] for form in ("fp32", "int8"))
    assert 100 * (fp32["value"] - int8["value"]) <= 0.5


def test_a_server_answers_with_vectors(finished: Path, tmp_path: Path) -> None:
    with Server(tmp_path, str(finished / "artifact"), "--workers", "1", "--model", "fp32") as server:
        answer = httpx.post(
            f"{server.url}/predict", json={"rows": [{"text": text} for text in TEXTS[:3]]}
        ).json()
        asked = httpx.get(f"{server.url}/v2/models/student").json()
    ours = Predictor(finished / "artifact", model="fp32").embed(TEXTS[:3])
    vectors = np.array([one["vector"] for one in answer["predictions"]])
    assert np.abs(vectors - ours).max() < 1e-4
    assert {"name": "vector", "datatype": "FP32", "shape": [-1, -1]} in asked["outputs"]


def test_what_is_pushed_is_the_whole_model(finished: Path, tmp_path: Path) -> None:
    content = student_content(finished / "distilled")
    assert {"modules.json", "sentence_bert_config.json", "1_Pooling/config.json"} <= set(content.files)
    assert {"2_Dense/config.json", "2_Dense/model.safetensors"} <= set(content.files)
    for name, file in content.files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy2(file, tmp_path / name)
    vectors = SentenceTransformer(str(tmp_path), device="cpu").encode(TEXTS[:3])
    assert np.abs(vectors - Predictor(finished / "artifact", model="fp32").embed(TEXTS[:3])).max() < 1e-5


def test_a_sentence_transformer_in_memory_is_a_teacher(finished: Path, tmp_path: Path) -> None:
    model = SentenceTransformer(str(finished / "distilled" / "student"), device="cpu")
    path = model_path(model)
    assert path is not None
    assert pooling_of(load_config(path)).dense
    with pytest.raises(ModelError, match="got object"):
        model_path(object())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--npy", "v.npy", "--json"], "--npy writes vectors alone"),
        (["--npy", "nowhere/v.npy"], "there is no folder nowhere"),
    ],
)
def test_files_of_vectors_that_cannot_be(finished: Path, options: list[str], message: str) -> None:
    refused = CliRunner().invoke(app, ["predict", str(finished / "artifact"), "a", *options])
    assert refused.exit_code != 0
    assert message in str(refused.exception or "") + refused.output


@pytest.mark.parametrize("options", [{"dtype": "float16"}, {"dimension": 0}, {"dimension": 33}])
def test_vectors_that_cannot_be(finished: Path, options: dict[str, Any]) -> None:
    with pytest.raises(DataError, match="must be"):
        Predictor(finished / "artifact").embed(["a"], **options)
