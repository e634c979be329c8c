"""Every kind and family: exported, gated, and answering without torch what torch answers."""

from __future__ import annotations

import csv
import json
import logging
import re
import shutil
import subprocess
import sys
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pandas as pd
import polars as pl
import pytest
import torch
import yaml
from exported import FAMILIES, TRAINING, fine_tune, write_encoder
from kinds import EXAMPLES, same
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertConfig,
    BertForSequenceClassification,
    PreTrainedTokenizerFast,
)
from typer.testing import CliRunner

import understudy
from understudy.artifacts.onnx import export_onnx
from understudy.artifacts.quantize import Int4, parts_of, quantize
from understudy.artifacts.session import open_file
from understudy.cli.app import app
from understudy.data.load import load_data
from understudy.data.settings import DataSettings
from understudy.errors import DataError, ModelError, OutputError, RecipeError
from understudy.files import hash_file
from understudy.kinds import get_kind
from understudy.kinds.tasks import get_task
from understudy.predictor import Predictor
from understudy.recipe.load import load_recipe


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """The development rows that a model knows of."""
    recipe = load_recipe(folder / "recipe.yaml")
    labels = json.loads((folder / "result.json").read_text())["labels"]
    return list(load_data(get_task(recipe.task), recipe.data, ["dev"], labels=labels).splits["dev"])


def value(answer: dict[str, Any], labels: Any, row: dict[str, Any]) -> Any:
    """An answer in the form of the other side's predictions."""
    if "label" in answer:
        return list(labels).index(answer["label"])
    if "labels" in answer:  # at 0.5: plain transformers knows no thresholds
        return [labels.index(name) for name, chance in answer["probabilities"].items() if chance >= 0.5]
    if "entities" in answer:
        tags = ["O"] * len(row["words"])
        for one in answer["entities"]:
            tags[one["start"] : one["end"]] = [one["label"]] * (one["end"] - one["start"])
        return tags
    return answer.get("choice", answer.get("answer", answer.get("score")))


def types_of(tags: Any) -> Any:
    is_tags = isinstance(tags, list) and all(isinstance(tag, str) for tag in tags)
    return [tag.partition("-")[2] or tag for tag in tags] if is_tags else tags


# The labels that predictions may have; other kinds have none.
LABELS = {
    "classification": {"neg", "pos"},
    "pair": {"equivalent", "not_equivalent"},
    "multi-label": {"animal", "colour", "film"},
    "token-classification": {"LOC", "ORG", "PER"},
}


def check_answers(kind: str, model: Path, artifact: Path) -> None:
    """The fp32 file says of every row what plain transformers says."""
    predict = Predictor(artifact, model="fp32")
    assert set(predict.labels) == LABELS.get(kind, set())
    assert all(name in repr(predict) for name in [predict.artifact.task, *predict.labels])
    rows = rows_of(model)
    fields = predict.artifact.fields
    answers = predict([{name: row[name] for name in fields} for row in rows], batch_size=3)
    reference = EXAMPLES[kind].predict(model)
    with torch.inference_mode():
        theirs = [types_of(reference(row)) for row in rows]
    if kind == "ranking":  # the score is the sigmoid of the logit
        theirs = [torch.tensor(logit).sigmoid().item() for logit in theirs]
    ours = [value(answer, predict.artifact.labels, row) for answer, row in zip(answers, rows, strict=True)]
    assert all(same(one, other) for one, other in zip(ours, theirs, strict=True)), (ours, theirs)


@pytest.fixture(scope="module")
def shipped(encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A model of two labels that has learnt them, and its artifact, gated as by default."""
    folder = tmp_path_factory.mktemp("shipped")
    model = fine_tune(encoder, "classification", folder, steps=60)
    understudy.export(model, output_dir=folder / "artifact", speed=False)
    return model, folder / "artifact"


HEADS = ["classification", "squad", "token-classification", "multiple-choice", "regression"]


@pytest.mark.parametrize(
    ("family", "kind"),
    [
        *(("bert", kind) for kind in EXAMPLES),
        # Every other family, and each head of a family other than BERT.
        *zip([family for family in FAMILIES if family != "bert"], cycle(HEADS)),
    ],
)
def test_every_kind_and_every_family(
    family: str, kind: str, tokenizer: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    encoder = write_encoder(family, tokenizer, tmp_path / "encoder")
    model = fine_tune(encoder, kind, tmp_path, steps=EXAMPLES[kind].steps if family == "bert" else 5)
    # One that has learnt nothing yet may lose anything.
    tolerance = 0.5 if family == "bert" else 100.0
    given: dict[str, Any] = {"tolerance": tolerance, "int4": "all", "speed": False}
    content = understudy.export(model, output_dir=tmp_path / "out", **given).content
    assert content["details"]["gate"]["fp32"]["max_difference"] < 1e-4
    assert content["details"]["gate"]["int8"]["tried"][-1]["points_lost"] <= tolerance
    check_answers(kind, model, tmp_path / "out")
    sizes = {name: one["bytes"] for name, one in content["models"].items()}
    assert max(sizes["int8"], sizes["int4"]) < sizes["fp32"]
    assert content["default"] == "int8"
    parts = list(parts_of(tmp_path / "out" / "onnx" / "model.onnx"))
    assert [part for part in parts if part.startswith("layer")] == ["layer 1", "layer 2"]
    assert {"embeddings", "head"} <= set(parts)


def test_weights_of_4_bits_are_smaller_and_close(tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    config = BertConfig(
        vocab_size=4_000, hidden_size=96, num_hidden_layers=2, num_attention_heads=4, intermediate_size=192
    )
    torch.manual_seed(0)
    model = BertForSequenceClassification(config).eval()
    names = ("input_ids", "attention_mask", "token_type_ids")
    export_onnx(model, get_kind("classification"), names, tmp_path / "fp32.onnx")
    handlers = list(logging.getLogger().handlers)
    ids = torch.randint(5, 4_000, (8, 20)).numpy()
    arrays = dict(zip(names, (ids, np.ones_like(ids), np.zeros_like(ids)), strict=True))
    logits, sizes = {}, {}
    forms: tuple[Int4 | None, ...] = (None, "embeddings", "all")
    for form in forms:
        file = tmp_path / f"{form}.onnx"
        quantize(tmp_path / "fp32.onnx", file, int4=form)
        (logits[form],) = open_file(file, "onnxruntime", names, ("logits",), threads=1)(arrays)
        sizes[form] = file.stat().st_size
    assert logging.getLogger().handlers == handlers
    # 5 bits for each number of an embedding, with scales and zero points, instead of 8.
    assert sizes[None] - sizes["embeddings"] > 0.3 * 4_000 * 96
    # And for each weight of two layers: four products of 96 × 96 and two of 96 × 192.
    assert sizes["embeddings"] - sizes["all"] > 0.3 * 2 * (4 * 96 * 96 + 2 * 96 * 192)
    (exact,) = open_file(tmp_path / "fp32.onnx", "onnxruntime", names, ("logits",), threads=1)(arrays)
    assert np.abs(logits["embeddings"] - exact).max() < 0.1 * np.abs(exact).max()
    assert np.abs(logits["all"] - exact).max() < 0.2 * np.abs(exact).max()
    quantize(tmp_path / "fp32.onnx", tmp_path / "kept.onnx", keep=["head"], int4="all")
    kept = onnx.load(tmp_path / "kept.onnx").graph
    weights = {one.name for one in kept.initializer if one.data_type == onnx.TensorProto.FLOAT}
    products = [node.input[1] for node in kept.node if node.op_type in ("MatMul", "Gemm")]
    assert len(set(products) & weights) == 2  # pooler and classifier


def test_probabilities_are_torchs_and_batches_do_not_matter(shipped: tuple[Path, Path]) -> None:
    model, folder = shipped
    texts = ["good film", "it was awful", "", "the very very very bad movie " * 30]
    predict = Predictor(folder, model="fp32")
    answers = predict(texts)
    loaded = AutoModelForSequenceClassification.from_pretrained(model)
    tokenizer = AutoTokenizer.from_pretrained(model)
    for text, answer in zip(texts, answers, strict=True):
        inputs = tokenizer(text, truncation=True, max_length=64, return_tensors="pt")
        with torch.inference_mode():
            expected = loaded(**inputs).logits.softmax(-1)[0].tolist()
        assert list(answer["probabilities"].values()) == pytest.approx(expected, abs=1e-5)
        assert list(predict(text)["probabilities"].values()) == pytest.approx(expected, abs=1e-5)
    assert [answer.get("truncated", False) for answer in answers] == [False, False, False, True]
    assert predict([]) == []


def test_columns_arrays_and_generators_are_several_inputs(shipped: tuple[Path, Path]) -> None:
    texts = ["good film", "it was awful"]
    predict = Predictor(shipped[1], model="fp32")
    expected = predict(texts)
    table = {"text": texts}
    frame = pd.DataFrame(table)
    for given in (frame["text"], pl.DataFrame(table)["text"], np.array(texts), iter(texts)):
        assert predict(given) == expected
    with pytest.raises(
        DataError, match=r"a table must be given by its column, e.g. predict\(frame\['text'\]"
    ):
        predict(frame)
    with pytest.raises(DataError, match=r"a row must be a string, .*; got float"):
        predict(pd.Series(["good film", float("nan")]))


def test_no_sum_overflows_on_a_cpu_without_vnni(shipped: tuple[Path, Path]) -> None:
    graph = onnx.load(shipped[1] / "onnx" / "model_quantized.onnx").graph
    values = {one.name: onnx.numpy_helper.to_array(one) for one in graph.initializer}
    weights = [values[node.input[1]] for node in graph.node if node.op_type == "MatMulInteger"]
    assert len(weights) > 10
    # Such a CPU adds two products of a weight and an 8-bit activation in 16 bits.
    assert max(2 * 255 * int(np.abs(one.astype(int)).max()) for one in weights) < 2**15


def test_in_int8_a_text_alone_is_not_padded(
    shipped: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    predict = Predictor(shipped[1], threads=1)
    seen, run = [], predict._session
    monkeypatch.setattr(
        predict, "_session", lambda arrays: seen.append(arrays["input_ids"].shape) or run(arrays)
    )
    predict("good film")
    predict("a good film")
    assert seen == [(1, 4), (1, 5)]


def test_a_temperature_changes_probabilities_and_no_prediction(
    shipped: tuple[Path, Path], tmp_path: Path
) -> None:
    _, folder = shipped
    shutil.copytree(folder, tmp_path / "artifact")
    content = json.loads((folder / "artifact.json").read_text("utf-8"))
    assert content["temperature"] == 1.0  # there are too few development rows to fit one
    (tmp_path / "artifact" / "artifact.json").write_text(json.dumps({**content, "temperature": 2.0}), "utf-8")
    texts = ["good film", "it was awful", "the cat"]
    plain, warm = Predictor(folder)(texts), Predictor(tmp_path / "artifact")(texts)
    for one, other in zip(plain, warm, strict=True):
        assert other["label"] == one["label"]
        # At a temperature of 2, odds are square roots.
        roots = {name: value**0.5 for name, value in one["probabilities"].items()}
        expected = {name: root / sum(roots.values()) for name, root in roots.items()}
        assert other["probabilities"] == pytest.approx(expected, abs=1e-6)


def test_an_export_calibrates_on_enough_development_rows(shipped: tuple[Path, Path], tmp_path: Path) -> None:
    model, _ = shipped
    dev = Path(yaml.safe_load((model / "recipe.yaml").read_text())["data"]["dev"])
    header, *rows = dev.read_text("utf-8").splitlines()
    (tmp_path / "dev.csv").write_text("\n".join([header, *rows * 20]), "utf-8")
    settings = {"data.dev": str(tmp_path / "dev.csv")}
    made = understudy.export(model, output_dir=tmp_path / "out", settings=settings, speed=False)
    found = made.content["details"]["calibration"]
    assert made.content["temperature"] == found["temperature"] != 1.0
    assert found["num_decisions"] == 20 * len(rows)
    assert found["error_after"] <= found["error_before"]
    assert "expected calibration error" in " ".join(
        (tmp_path / "out" / "README.md").read_text("utf-8").split()
    )


def test_what_an_artifact_is_made_of(shipped: tuple[Path, Path]) -> None:
    _, folder = shipped
    content = json.loads((folder / "artifact.json").read_text())
    assert content["inputs"] == ["input_ids", "attention_mask", "token_type_ids"]
    assert content["labels"] == ["neg", "pos"]
    assert {"fp32", "int8"} == set(content["models"])
    assert content["files"]["onnx/model.onnx"] == hash_file(folder / "onnx" / "model.onnx")
    # Nobody's machine is in what is shipped.
    home = str(Path(__file__).parents[2]).encode()
    for file in (one for one in folder.rglob("*") if one.is_file()):
        assert home not in file.read_bytes(), file
        assert b"site-packages" not in file.read_bytes(), file
    card = (folder / "README.md").read_text()
    assert "pipeline_tag: text-classification" in card
    assert "int8 (onnxruntime)" in card
    model = onnx.load(folder / "onnx" / "model.onnx")
    assert [one.type.tensor_type.shape.dim[1].dim_param for one in model.graph.input] == ["length"] * 3


def test_a_part_that_int8_destroys_stays_in_fp32(shipped: tuple[Path, Path], tmp_path: Path) -> None:
    model, _ = shipped
    broken = tmp_path / "broken"
    shutil.copytree(model, broken)
    loaded = AutoModelForSequenceClassification.from_pretrained(broken)
    # A huge weight on what is always 0 takes all of the range of the others.
    with torch.no_grad():
        loaded.bert.pooler.dense.weight[0], loaded.bert.pooler.dense.bias[0] = 0.0, 0.0
        loaded.classifier.weight[:, 0] = 1e4
    loaded.save_pretrained(broken)
    before = understudy.evaluate(broken).scores["dev"]["accuracy"]
    result = understudy.export(broken, output_dir=tmp_path / "out", speed=False)
    tried = result.content["details"]["gate"]["int8"]["tried"]
    assert tried[0]["points_lost"] > 0.5
    assert result.content["models"]["int8"]["kept_in_fp32"] == tried[1]["kept_in_fp32"] == ["head"]
    assert result.content["models"]["int8"]["scores"]["dev"]["accuracy"]["value"] == before
    assert (
        "stay in fp32, since the score would have fallen: head"
        in (tmp_path / "out" / "README.md").read_text()
    )


def test_a_folder_that_is_there_is_not_replaced_unasked(shipped: tuple[Path, Path]) -> None:
    model, folder = shipped
    before = hash_file(folder / "artifact.json")
    with pytest.raises(OutputError, match="is there already"):
        understudy.export(model, output_dir=folder, speed=False)
    assert hash_file(folder / "artifact.json") == before


def test_tags_of_raw_text_are_those_of_its_words(encoder: Path, tmp_path: Path) -> None:
    """A word with signs in it, as `U.S.`, is one entity whoever splits the text."""
    rows = [
        [("the", "O"), ("U.S.", "B-LOC"), ("lies", "O"), ("north", "O"), (".", "O")],
        [("anna", "B-PER"), ("works", "O"), ("in", "O"), ("the", "O"), ("U.S.", "B-LOC")],
        [("bert", "B-PER"), ("lives", "O"), ("in", "O"), ("London-City", "B-LOC"), (".", "O")],
    ]
    file = tmp_path / "rows.conll"
    file.write_text("\n\n".join("\n".join(f"{word} {tag}" for word, tag in row) for row in rows))
    settings = TRAINING | {"data.train": str(file), "data.dev": str(file), "training.max_steps": 80}
    understudy.finetune(
        encoder, task="token-classification", output_dir=tmp_path / "model", settings=settings
    )
    understudy.export(tmp_path / "model", output_dir=tmp_path / "artifact", speed=False)
    predict = Predictor(tmp_path / "artifact", model="fp32")
    for row in rows:
        words = [word for word, _ in row]
        given, raw = predict({"words": words})["entities"], predict(" ".join(words))["entities"]
        assert [one["text"] for one in given] == [word for word, tag in row if tag != "O"]
        assert [(one["label"], one["text"]) for one in raw] == [(one["label"], one["text"]) for one in given]
        assert all(" ".join(words)[one["start"] : one["end"]] == one["text"] for one in raw)


def test_overwriting_removes_an_artifacts_files_and_no_others(
    shipped: tuple[Path, Path], tmp_path: Path
) -> None:
    model, folder = shipped
    mine = shutil.copytree(folder, tmp_path / "artifact")
    (mine / "notes.txt").write_text("mine")
    understudy.export(model, output_dir=mine, int8=False, speed=False, overwrite=True)
    assert (mine / "notes.txt").read_text() == "mine"
    assert not (mine / "onnx" / "model_quantized.onnx").exists()
    assert Predictor(mine)("a good film")["label"] in ("pos", "neg")


def test_overwriting_refuses_what_is_no_artifact_and_what_holds_the_student(
    shipped: tuple[Path, Path], tmp_path: Path
) -> None:
    model = shutil.copytree(shipped[0], tmp_path / "run" / "student")
    shutil.copy(shipped[0] / "recipe.yaml", tmp_path / "run" / "recipe.yaml")
    shutil.copy(shipped[0] / "result.json", tmp_path / "run" / "result.json")
    with pytest.raises(OutputError, match="not an artifact"):
        understudy.export(model, output_dir=tmp_path / "run", overwrite=True)
    shutil.copy(shipped[1] / "artifact.json", tmp_path / "run")
    with pytest.raises(OutputError, match=r"contains .*student, which this command reads"):
        understudy.export(model, output_dir=tmp_path / "run", overwrite=True)
    assert (model / "model.safetensors").is_file()


def test_a_model_without_a_head_is_refused(encoder: Path, tmp_path: Path) -> None:
    file = EXAMPLES["classification"].write(tmp_path)
    with pytest.raises(ModelError, match="has no head for classification"):
        understudy.export(
            encoder, output_dir=tmp_path / "out", task="classification", settings={"data.dev": str(file)}
        )
    with pytest.raises(RecipeError, match="--task must be given"):
        understudy.export(encoder, output_dir=tmp_path / "out")
    assert not list(tmp_path.glob("out*"))


def broken_copy(folder: Path, target: Path) -> Path:
    shutil.copytree(folder, target)
    return target


def change(folder: Path, **changes: Any) -> None:
    file = folder / "artifact.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def rehash(folder: Path, name: str) -> None:
    files = json.loads((folder / "artifact.json").read_text())["files"]
    change(folder, files=files | {name: hash_file(folder / name)})


def test_files_that_are_not_those_that_were_exported_are_refused(
    shipped: tuple[Path, Path], tmp_path: Path
) -> None:
    int8 = "onnx/model_quantized.onnx"
    folder = broken_copy(shipped[1], tmp_path / "changed")
    (folder / int8).write_bytes((folder / int8).read_bytes()[:-1] + b"x")
    with pytest.raises(ModelError, match="is not the file that was exported"):
        Predictor(folder)
    Predictor(folder, model="fp32")("good")  # which is whole

    folder = broken_copy(shipped[1], tmp_path / "cut")
    (folder / int8).write_bytes((folder / int8).read_bytes()[:1000])
    rehash(folder, int8)
    with pytest.raises(ModelError, match=r"model_quantized.onnx cannot be run by onnxruntime .*\n.*again"):
        Predictor(folder)

    folder = broken_copy(shipped[1], tmp_path / "opset")
    model = onnx.load(folder / int8)
    model.opset_import[0].version = 99
    onnx.save(model, folder / int8)
    rehash(folder, int8)
    with pytest.raises(ModelError, match=r"(?is)cannot be run by onnxruntime.*opset 99"):
        Predictor(folder)

    folder = broken_copy(shipped[1], tmp_path / "missing")
    (folder / "tokenizer.json").unlink()
    with pytest.raises(ModelError, match=r"tokenizer.json is missing"):
        Predictor(folder)

    folder = broken_copy(shipped[1], tmp_path / "tokenizer")
    (folder / "tokenizer.json").write_text("{}")
    rehash(folder, "tokenizer.json")
    with pytest.raises(ModelError, match=r"tokenizer.json cannot be read"):
        Predictor(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": None}, "must have the labels of a classification model"),
        ({"labels": []}, "must have the labels"),
        ({"format": 7}, "the format must be 1; got 7"),
        ({"kind": "poetry"}, "kind must be one of"),
        ({"default": "int4"}, "default must be one of fp32, int8"),
        ({"colour": "red"}, "must have task, kind"),
        ({"models": None}, "must have task, kind"),
        ({"outputs": ["labels"]}, "must have labels; it has logits"),
    ],
)
def test_a_manifest_that_cannot_be_is_refused(
    changes: dict[str, Any], message: str, shipped: tuple[Path, Path], tmp_path: Path
) -> None:
    folder = broken_copy(shipped[1], tmp_path / "copy")
    change(folder, **changes)
    with pytest.raises(ModelError, match=message):
        Predictor(folder)


def test_a_manifest_that_is_no_json_or_not_there(shipped: tuple[Path, Path], tmp_path: Path) -> None:
    folder = broken_copy(shipped[1], tmp_path / "copy")
    (folder / "artifact.json").write_text("{")
    with pytest.raises(ModelError, match="is not JSON"):
        Predictor(folder)
    with pytest.raises(ModelError, match=r"is not an artifact: it has no artifact\.json"):
        Predictor(shipped[0])


def test_a_prediction_needs_no_torch(shipped: tuple[Path, Path]) -> None:
    code = (
        "import sys\nfrom understudy.predictor import Predictor\n"
        f"assert Predictor({str(shipped[1])!r})('good film')['label'] == 'pos'\n"
        "heavy = {'torch', 'transformers', 'datasets', 'pyarrow', 'scipy', 'pydantic', 'onnx'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_predictions_from_the_shell(shipped: tuple[Path, Path], tmp_path: Path) -> None:
    folder, run = str(shipped[1]), CliRunner()
    done = run.invoke(app, ["predict", folder, "good film", "awful film"])
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == ["pos", "neg"]

    piped = run.invoke(
        app, ["predict", folder, "--json"], input='great film\n{"text": "bad film"}\n\n{oops\n'
    )
    answers = [json.loads(line) for line in piped.stdout.splitlines()]
    assert [answer["label"] for answer in answers[:2]] == ["pos", "neg"]
    assert len(answers) == 4  # an empty line is a text, and so is one that only looks like JSON

    (tmp_path / "rows.csv").write_text('id,text\n1,good film\n2,"bad, bad film"\n')
    (tmp_path / "none.csv").write_text("text,label\n")
    done = run.invoke(app, ["predict", folder, "--file", str(tmp_path / "none.csv")])
    assert (done.exit_code, done.stdout) == (0, "")
    assert "There are no rows, so nothing was predicted." in done.stderr
    done = run.invoke(app, ["predict", folder, "--file", str(tmp_path / "rows.csv"), "--with-texts"])
    (tmp_path / "labelled.jsonl").write_text(done.stdout)
    settings = DataSettings(train=str(tmp_path / "labelled.jsonl"))
    read = load_data(get_task("classification"), settings, ["train"])
    assert read.splits["train"]["text"][:] == ["good film", "bad, bad film"]
    assert read.labels is not None
    assert [read.labels[label] for label in read.splits["train"]["label"][:]] == ["pos", "neg"]
    done = run.invoke(app, ["predict", folder, "--file", str(tmp_path / "rows.csv")])
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == ["pos", "neg"]
    (tmp_path / "rows.tsv").write_text("sentence\ngood film\n")
    done = run.invoke(app, ["predict", folder, "--file", str(tmp_path / "rows.tsv")])
    assert "has no column text; it has sentence. Say which one it is: --column text=" in str(done.exception)
    named = ["predict", folder, "--file", str(tmp_path / "rows.tsv"), "--column"]
    assert run.invoke(app, [*named, "text=sentence"]).stdout.startswith("pos")
    assert "got 'review=sentence'" in str(run.invoke(app, [*named, "review=sentence"]).exception)
    done = run.invoke(app, ["predict", folder, str(tmp_path / "rows.tsv")])
    assert "To label what is in it: --file" in done.stderr

    done = run.invoke(app, ["predict", folder, "good film " * 500])  # too long for a file's name
    assert done.exit_code == 0, done.exception
    assert done.stdout.startswith("pos")

    with pytest.raises(ModelError, match="is not a folder"):
        Predictor(tmp_path / "nowhere")


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl"])
def test_a_table_gets_its_predictions(suffix: str, shipped: tuple[Path, Path], tmp_path: Path) -> None:
    """All columns are kept, also one with the name of a prediction's."""
    rows = tmp_path / "rows.csv"
    rows.write_text('id,score,text\n1,x,good film\n2,y,"bad, bad film"\n')
    output = tmp_path / f"out.{suffix}"
    done = CliRunner().invoke(app, ["predict", str(shipped[1]), "--file", str(rows), "--output", str(output)])
    assert done.exit_code == 0, done.exception
    assert done.stdout == ""
    if suffix == "jsonl":
        found = [json.loads(line) for line in output.read_text().splitlines()]
    else:
        found = list(
            csv.DictReader(output.read_text().splitlines(), delimiter="\t" if suffix == "tsv" else ",")
        )
        assert list(found[0]) == ["id", "score", "text", "label", "predicted_score"]
    assert [(row["id"], row["score"], row["text"], row["label"]) for row in found] == [
        ("1", "x", "good film", "pos"),
        ("2", "y", "bad, bad film", "neg"),
    ]
    assert all(0.5 <= float(row["predicted_score"]) <= 1 for row in found)


def test_a_table_is_not_replaced_by_its_predictions(shipped: tuple[Path, Path], tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("text\ngood film\n")
    done = CliRunner().invoke(app, ["predict", str(shipped[1]), "--file", str(file), "--output", str(file)])
    assert isinstance(done.exception, OutputError)
    assert "is --file itself" in str(done.exception)
    assert file.read_text() == "text\ngood film\n"


def test_an_artifact_knows_the_columns_it_was_trained_on(shipped: tuple[Path, Path], tmp_path: Path) -> None:
    """A file with that column is read without being told; one with both has the trained column read."""
    artifact = tmp_path / "artifact"
    shutil.copytree(shipped[1], artifact)
    content = json.loads((artifact / "artifact.json").read_text())
    assert content["columns"] == {"text": "text"}
    content["columns"] = {"text": "review"}
    (artifact / "artifact.json").write_text(json.dumps(content))
    rows = tmp_path / "rows.csv"
    rows.write_text("review,text\ngood film,awful film\n")
    done = CliRunner().invoke(app, ["predict", str(artifact), "--file", str(rows)])
    assert done.stdout.startswith("pos")
    rows.write_text("text\nawful film\n")
    done = CliRunner().invoke(app, ["predict", str(artifact), "--file", str(rows)])
    assert done.stdout.startswith("neg")


def test_the_command_shows_the_figures(shipped: tuple[Path, Path], tmp_path: Path) -> None:
    model, _ = shipped
    out = tmp_path / "out"
    done = CliRunner().invoke(app, ["export", str(model), "--output-dir", str(out), "--json"])
    assert done.exit_code == 0, done.exception
    content = json.loads(done.stdout)
    rows = content["details"]["speed"]["rows"]
    assert {(row["form"], row["batch"]) for row in rows} == {
        (form, batch)
        for form in ("fp32 (torch)", "fp32 (onnxruntime)", "int8 (onnxruntime)")
        for batch in (1, 32)
    }
    assert "int8: against fp32, " in done.stderr
    assert "points (95 %:" in done.stderr
    assert not list(tmp_path.glob("*.writing"))


def test_openvino_keeps_the_answers(shipped: tuple[Path, Path], tmp_path: Path) -> None:
    pytest.importorskip("openvino", reason="the extra openvino is not installed")
    model, _ = shipped
    content = understudy.export(model, output_dir=tmp_path / "out", openvino=True, speed=False).content
    assert content["details"]["gate"]["openvino-int8"]["tried"][-1]["points_lost"] <= 0.5
    texts = ["good film", "bad film", "it was great", "it was awful"]
    answers = [
        [answer["label"] for answer in Predictor(tmp_path / "out", model=name)(texts)]
        for name in ("openvino-int8", "fp32")
    ]
    assert answers[0] == answers[1]
    (tmp_path / "out" / "openvino" / "model_int8.bin").write_bytes(b"")
    with pytest.raises(ModelError, match="is not the file that was exported"):
        Predictor(tmp_path / "out", model="openvino-int8")


def test_a_pipe_that_is_no_text_is_an_error_with_its_line(shipped: tuple[Path, Path]) -> None:
    done = CliRunner().invoke(app, ["predict", str(shipped[1])], input=b"good film\nnot \xff utf-8\n")
    assert "line 2 is not UTF-8" in str(done.exception)


def test_what_loses_too_much_leaves_nothing_behind(
    shipped: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No loss is small enough, whichever parts stay in fp32.
    monkeypatch.setattr("understudy.artifacts.gate.loses_too_much", lambda lost, tolerance: True)
    with pytest.raises(ModelError, match=r"int8 loses .* points, .* 0.5 are allowed"):
        understudy.export(shipped[0], output_dir=tmp_path / "out", speed=False)
    assert not list(tmp_path.glob("out*"))


def test_a_text_that_was_cut_is_said_on_standard_error(shipped: tuple[Path, Path]) -> None:
    done = CliRunner().invoke(app, ["predict", str(shipped[1]), "good " * 600])
    assert re.match(r"The text is longer than \d+ tokens; the rest of it was not read\.", done.stderr)
    assert CliRunner().invoke(app, ["predict", str(shipped[1]), "good"]).stderr == ""


def test_empty_texts_and_other_encodings_are_said_on_standard_error(
    shipped: tuple[Path, Path], tmp_path: Path
) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_bytes("id,text\n1,good film\n2,\n3,very bad film é\n".encode("cp1252"))
    done = CliRunner().invoke(app, ["predict", str(shipped[1]), "--file", str(rows)])
    assert done.exit_code == 0
    assert len(done.stdout.splitlines()) == 3
    assert "row 2, counted from 1, is empty; it was still predicted." in done.stderr
    assert "rows.csv is Windows-1252, not UTF-8, and is read as such." in done.stderr
    done = CliRunner().invoke(app, ["predict", str(shipped[1]), "a film", "--encoding", "cp1252"])
    assert "--encoding has no effect without --file" in str(done.exception)
