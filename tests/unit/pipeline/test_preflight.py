"""Every finding of a preflight, on tiny real models and files."""

from __future__ import annotations

import csv
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
    BertForTokenClassification,
    PreTrainedTokenizerFast,
)

from understudy.data.load import load_data
from understudy.errors import PreflightError, RecipeError
from understudy.pipeline.preflight import machine
from understudy.pipeline.preflight.checks import preflight
from understudy.pipeline.preflight.data import check_unseen_labels
from understudy.pipeline.preflight.models import _flat, _is_constant
from understudy.pipeline.preflight.planned_run import LEVELS, Finding, PlannedRun
from understudy.pipeline.run import refuse
from understudy.recipe.load import apply_settings
from understudy.recipe.recipe import Recipe
from understudy.training import precision

WORDS = {"good": "pos", "great": "pos", "bad": "neg", "awful": "neg"}
NOUNS = ("film", "movie", "cat", "dog", "city", "river", "mountain")


def write_rows(path: Path, rows: list[tuple[str, str]]) -> str:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("text", "label"), *rows])
    return str(path)


def some_rows(start: int, count: int) -> list[tuple[str, str]]:
    pairs = [(f"{word} {noun} {number}", label) for number in range(100) for noun in NOUNS
             for word, label in WORDS.items()]  # fmt: skip
    return pairs[start : start + count]


def save(folder: Path, tokenizer: PreTrainedTokenizerFast, head: type = BertForSequenceClassification,
         **changed: Any) -> str:  # fmt: skip
    sizes: dict[str, Any] = {
        "vocab_size": len(tokenizer), "hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4,
        "intermediate_size": 64, "max_position_embeddings": 128,
        "id2label": {0: "neg", 1: "pos"}, "label2id": {"neg": 0, "pos": 1},
    }  # fmt: skip
    torch.manual_seed(0)
    head(BertConfig(**sizes | changed)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.fixture
def values(tmp_path: Path, tokenizer: PreTrainedTokenizerFast) -> dict[str, Any]:
    """A run that is in order, but for a teacher that knows nothing."""
    training = {"max_steps": 1, "report_to": "none"}
    return {
        "task": "classification",
        "method": "tinybert",
        "teacher": save(tmp_path / "teacher", tokenizer),
        "student": {"shape": "2l-16d"},
        "data": {
            "train": write_rows(tmp_path / "train.csv", some_rows(0, 600)),
            "dev": write_rows(tmp_path / "dev.csv", some_rows(600, 120)),
            "max_length": 32,
        },
        "intermediate": {"training": training},
        "prediction": {"training": training},
    }


def findings(values: dict[str, Any], tmp_path: Path, **settings: Any) -> list[Finding]:
    dotted = {key.replace("__", "."): value for key, value in settings.items()}
    recipe = Recipe.from_mapping(apply_settings(values, dotted))
    return preflight(recipe, tmp_path / "run")[1]


def found(values: dict[str, Any], tmp_path: Path, check: str, **settings: Any) -> Finding:
    """The one finding of a check."""
    ours = [finding for finding in findings(values, tmp_path, **settings) if finding.check == check]
    assert len(ours) == 1, findings(values, tmp_path, **settings)
    return ours[0]


def test_a_run_in_order_has_no_errors(values: dict[str, Any], tmp_path: Path) -> None:
    assert [one for one in findings(values, tmp_path) if one.level == "error"] == []


def test_errors_come_first_and_stop_the_run(values: dict[str, Any], tmp_path: Path) -> None:
    ours = findings(values, tmp_path, intermediate__projection="none", data__max_length=8)
    levels = [LEVELS.index(one.level) for one in ours]
    assert levels == sorted(levels)
    levels = [one.level for one in ours]
    assert {"error", "warning"} <= set(levels)
    with pytest.raises(PreflightError, match=r"Nothing was started\.\n- widths: .*projection=shared"):
        refuse(ours)


def test_a_run_without_any_model_says_how_to_give_one(values: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="a model must be given"):
        findings(values, tmp_path, teacher=None)


def test_teacher_head(values: dict[str, Any], tmp_path: Path, encoder: Path) -> None:
    one = found(values, tmp_path, "teacher_head", teacher=str(encoder))
    assert one.level == "error"
    assert f"finetune.model={encoder}" in one.message


def test_a_teacher_of_classes_for_a_task_of_numbers(values: dict[str, Any], tmp_path: Path) -> None:
    rows = [(text, str(number % 5)) for number, (text, _) in enumerate(some_rows(0, 600))]
    for name in ("train", "dev"):
        values["data"][name] = write_rows(tmp_path / f"{name}-numbers.csv", rows)
    one = found(values, tmp_path, "teacher_head", task="regression")
    assert "a head of 2 labels" in one.message


def train(teacher: str, rows: list[tuple[str, str]], *, swap: bool = False) -> None:
    """Teach a saved teacher some rows, then perhaps swap its two classes."""
    tokenizer = PreTrainedTokenizerFast.from_pretrained(teacher)
    model = BertForSequenceClassification.from_pretrained(teacher)
    batch = tokenizer([text for text, _ in rows], return_tensors="pt")
    classes = torch.tensor([int(label == "pos") for _, label in rows])
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(150):
        model(**batch, labels=classes).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    with torch.no_grad():
        for parameter in model.classifier.parameters():
            parameter.copy_(parameter.flip(0) if swap else parameter)
    model.save_pretrained(teacher)


def test_teacher_knows(values: dict[str, Any], tmp_path: Path) -> None:
    train(values["teacher"], some_rows(0, 28))
    assert "teacher_knows" not in {one.check for one in findings(values, tmp_path)}
    train(values["teacher"], some_rows(0, 28), swap=True)
    one = found(values, tmp_path, "teacher_knows")
    assert one.level == "warning"
    assert re.search(r"is right on \d% of 120 development rows", one.message)
    assert "The names of its labels in config.json seem to be in another order" in one.message
    config = BertConfig.from_pretrained(values["teacher"])
    config.id2label = {0: "LABEL_0", 1: "LABEL_1"}  # a model that does not name its labels
    config.save_pretrained(values["teacher"])
    one = found(values, tmp_path, "teacher_knows")
    assert one.message.endswith("""--set 'data.labels=["pos", "neg"]'""")


def test_a_teacher_that_gives_a_label_to_some_rows_is_not_constant() -> None:
    said, meant = [[0], [], [0], []], [[0], [], [], [1]]
    assert not _is_constant(_flat(said, per_token=False), _flat(meant, per_token=False))
    assert _is_constant(_flat([[], []], per_token=False), _flat(meant, per_token=False))


def test_a_teacher_of_something_else(values: dict[str, Any], tmp_path: Path) -> None:
    """Predictions that differ, and have nothing to do with the labels."""
    rows = [(text, ("neg", "pos")[NOUNS.index(text.split()[1]) % 2]) for text, _ in some_rows(0, 28)]
    train(values["teacher"], rows)
    one = found(values, tmp_path, "teacher_knows")
    assert "120 development rows" in one.message
    assert "understudy evaluate" in one.message


def constant(folder: str, head: type, prediction: int) -> None:
    """Make a saved model predict one class everywhere, or 0 if it has no others."""
    model = head.from_pretrained(folder)  # type: ignore[attr-defined]
    with torch.no_grad():
        model.classifier.weight.zero_()
        model.classifier.bias.zero_()
        model.classifier.bias[prediction] = float(len(model.classifier.bias) > 1)
    model.save_pretrained(folder)


def test_a_teacher_of_one_class(values: dict[str, Any], tmp_path: Path) -> None:
    constant(values["teacher"], BertForSequenceClassification, 1)
    one = found(values, tmp_path, "teacher_is_constant")
    assert one.level == "warning"
    assert "predicts 'pos' for all of 120 development rows" in one.message
    assert "too few steps" in one.message
    assert "teacher_knows" not in {one.check for one in findings(values, tmp_path)}
    # Rows of one label cannot tell.
    rows = [row for row in some_rows(600, 240) if row[1] == "pos"]
    values["data"]["dev"] = write_rows(tmp_path / "positive.csv", rows)
    assert "teacher_is_constant" not in {one.check for one in findings(values, tmp_path)}


def test_a_teacher_of_one_number(
    values: dict[str, Any], tmp_path: Path, tokenizer: PreTrainedTokenizerFast
) -> None:
    for name in ("train", "dev"):
        rows = [(text, str(place % 5)) for place, (text, _) in enumerate(some_rows(0, 600))]
        values["data"][name] = write_rows(tmp_path / f"{name}-numbers.csv", rows)
    values["teacher"] = save(tmp_path / "number", tokenizer, num_labels=1, id2label=None, label2id=None)
    constant(values["teacher"], BertForSequenceClassification, 0)
    one = found(values, tmp_path, "teacher_is_constant", task="regression")
    assert "predicts 0.000 for all" in one.message


def test_a_teacher_without_entities(
    values: dict[str, Any], tmp_path: Path, tokenizer: PreTrainedTokenizerFast
) -> None:
    names = ["O", "B-PER", "I-PER"]
    ids = {"id2label": dict(enumerate(names)), "label2id": {name: n for n, name in enumerate(names)}}
    values["teacher"] = save(tmp_path / "tags", tokenizer, BertForTokenClassification, **ids)
    constant(values["teacher"], BertForTokenClassification, 0)
    for name in ("train", "dev"):
        (tmp_path / f"{name}.conll").write_text("anna B-PER\nruns O\n\nrome O\nruns O\n\n" * 3)
        values["data"][name] = str(tmp_path / f"{name}.conll")
    one = found(values, tmp_path, "teacher_is_constant", task="token-classification")
    assert "predicts no entity for all of 6 development rows" in one.message


def test_balance(values: dict[str, Any], tmp_path: Path, encoder: Path) -> None:
    rows = some_rows(0, 600)
    few = [row for row in rows if row[1] == "neg"] + [row for row in rows if row[1] == "pos"][:50]
    values["data"]["train"] = write_rows(tmp_path / "few.csv", few)
    one = found(values, tmp_path, "balance")
    assert one.level == "note"
    assert one.message.startswith(
        "86% of the training rows are 'neg', and the smallest class 'pos' has 50 of 350 rows. class_weights: "
    )
    training = {"training": {"max_steps": 1, "report_to": "none"}}
    soft = {"method": "soft-labels", "intermediate": None, "prediction": None, "soft_labels": training}
    assert "--set class_weights=balanced" in found(values, tmp_path, "balance", **soft).message
    weighed = findings(values, tmp_path, **soft, class_weights="balanced")
    assert "balance" not in {one.check for one in weighed}
    plain = {"teacher": None, "finetune": {"model": str(encoder)}}
    assert "--set finetune.class_weights=balanced" in found(values, tmp_path, "balance", **plain).message
    for name, times in (("once", 1), ("twice", 2)):  # once is a mistake
        rare = [*few, *[("a great film", "godo")] * times]
        values["data"]["train"] = write_rows(tmp_path / f"{name}.csv", rare)
        noted = {one.check for one in findings(values, tmp_path, **plain)}
        assert ("balance" in noted) == (name == "twice")
    plain["finetune"] = {"model": str(encoder), "class_weights": "balanced"}
    assert "balance" not in {one.check for one in findings(values, tmp_path, **plain)}
    one = found(values, tmp_path, "class_weights", **soft, class_weights={"possitive": 2, "neg": 1})
    assert one.level == "error"
    assert "no label is 'possitive'; they are godo, neg, pos." in one.message


def test_rows_in_balance_are_not_noted(values: dict[str, Any], tmp_path: Path) -> None:
    assert "balance" not in {one.check for one in findings(values, tmp_path)}


def test_labelled_rows_are_needed_to_fine_tune_and_to_augment(
    values: dict[str, Any], tmp_path: Path, encoder: Path
) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("good film\nbad movie\n" * 300, "utf-8")
    without = {"data__train": None, "data__unlabelled": [str(texts)]}
    assert "labelled_rows" not in {one.check for one in findings(values, tmp_path, **without)}
    one = found(values, tmp_path, "labelled_rows", **without, augment__model=str(encoder))
    assert "augment needs labelled training rows" in one.message
    changed = {"teacher": None, "finetune__model": str(encoder)}
    one = found(values, tmp_path, "labelled_rows", **without, **changed)
    assert "an encoder is fine-tuned on labelled rows" in one.message


def test_metric(values: dict[str, Any], tmp_path: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    rows = [(text, "xyz"[number % 3]) for number, (text, _) in enumerate(some_rows(0, 600))]
    for name in ("train", "dev"):
        values["data"][name] = write_rows(tmp_path / f"{name}-three.csv", rows)
    names = {0: "x", 1: "y", 2: "z"}
    teacher = save(
        tmp_path / "three", tokenizer, id2label=names, label2id={one: index for index, one in names.items()}
    )
    one = found(values, tmp_path, "metric", teacher=teacher, metric="precision")
    assert "metric precision does not fit these labels" in one.message
    assert "metric" not in {
        one.check for one in findings(values, tmp_path, teacher=teacher, metric="precision_macro")
    }


def test_labels(values: dict[str, Any], tmp_path: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    other = save(tmp_path / "other", tokenizer, id2label={0: "cat", 1: "dog"}, label2id={"cat": 0, "dog": 1})
    one = found(values, tmp_path, "labels", teacher=other)
    assert one.level == "error"
    assert "cat" in one.message
    assert "neg" in one.message


def test_student(values: dict[str, Any], tmp_path: Path) -> None:
    one = found(values, tmp_path, "student", student__shape="2l-18d")
    assert one.level == "error"
    assert "multiple of its 4 heads" in one.message


def test_a_cut_that_cannot_be_made(values: dict[str, Any], tmp_path: Path) -> None:
    one = found(values, tmp_path, "student", student={"init": "cut", "shape": "2l-64d"})
    assert one.level == "error"
    assert "a cut can only be narrower" in one.message


def test_student_size(values: dict[str, Any], tmp_path: Path) -> None:
    one = found(values, tmp_path, "student_size", student__shape="4l-64d")
    assert one.level == "warning"
    assert "no smaller" in one.message
    # What it advises passes.
    shape = re.search(r"--student (\S+)\.", one.message)
    assert shape
    names = {one.check for one in findings(values, tmp_path, student={"init": "cut", "shape": shape[1]})}
    assert not names & {"student", "student_size", "layer_map"}


def test_a_cut_with_more_layers_than_its_source_is_one_error(values: dict[str, Any], tmp_path: Path) -> None:
    settings = {"student": {"init": "cut", "shape": "9l-16d", "num_attention_heads": 4}}
    errors = [one for one in findings(values, tmp_path, **settings) if one.level == "error"]
    assert [one.check for one in errors] == ["student"]
    assert re.search(r"9 layers cannot be cut from a model of 4\..* --student 2l-", errors[0].message)


def test_the_advised_student_can_be_cut_from_its_source(
    values: dict[str, Any], tmp_path: Path, tokenizer: PreTrainedTokenizerFast
) -> None:
    source = tmp_path / "source"
    save(source, tokenizer, BertForMaskedLM, num_hidden_layers=2)
    student = {"init": "cut", "source": str(source), "shape": "4l-16d"}
    one = found(values, tmp_path, "student", student=student)
    shape = re.search(r"--student (\S+)\.", one.message)
    assert shape
    assert shape[1].startswith("1l-")  # half of the source's layers, not of the teacher's
    names = {one.check for one in findings(values, tmp_path, student=student | {"shape": shape[1]})}
    assert not names & {"student", "student_size", "layer_map"}


def test_tokenizers(values: dict[str, Any], tmp_path: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    folder = tmp_path / "start"
    save(folder, tokenizer, BertForMaskedLM, num_hidden_layers=2, vocab_size=len(tokenizer) + 1)
    file = folder / "tokenizer.json"
    file.write_text(file.read_text("utf-8").replace('"mountain"', '"hill"'), "utf-8")
    one = found(values, tmp_path, "tokenizers", student={"model": str(folder)})
    assert one.level == "error"
    assert "another vocabulary" in one.message


def test_layer_map(values: dict[str, Any], tmp_path: Path) -> None:
    one = found(values, tmp_path, "layer_map", intermediate__layer_map=[1, 9])
    assert one.level == "error"


def test_heads(values: dict[str, Any], tmp_path: Path) -> None:
    one = found(values, tmp_path, "heads", student__num_attention_heads=2)
    assert one.level == "error"
    assert "intermediate.relation_heads=2" in one.message
    settings = {"student__num_attention_heads": 2, "intermediate__relation_heads": 2}
    assert not [one for one in findings(values, tmp_path, **settings) if one.level == "error"]


def test_widths(values: dict[str, Any], tmp_path: Path) -> None:
    one = found(values, tmp_path, "widths", intermediate__projection="none")
    assert one.level == "error"
    assert "width of 16" in one.message


def test_whatever_else_does_not_match(values: dict[str, Any], tmp_path: Path) -> None:
    one = found(values, tmp_path, "match", intermediate__weights={"attention_9": 1.0})
    assert one.level == "error"
    assert "attention_9" in one.message


def test_training(values: dict[str, Any], tmp_path: Path) -> None:
    one = found(values, tmp_path, "training", prediction__training__lr_scheduler_type="never")
    assert one.level == "error"
    assert one.message.startswith("prediction.training")


def test_max_length(values: dict[str, Any], tmp_path: Path) -> None:
    one = found(values, tmp_path, "max_length", data__max_length=4000)
    assert one.level == "error"
    assert "data.max_length=128" in one.message


def test_truncation(values: dict[str, Any], tmp_path: Path) -> None:
    long = [(f"{text} and" + " very" * 40, label) for text, label in some_rows(0, 600)]
    values["data"]["train"] = write_rows(tmp_path / "long.csv", long)
    one = found(values, tmp_path, "truncation")
    assert one.level == "warning"
    assert "100% of the training rows" in one.message


def test_few_rows(values: dict[str, Any], tmp_path: Path) -> None:
    one = found(values, tmp_path, "few_rows", data__max_rows=50)
    assert one.level == "warning"
    assert one.message.startswith("50 training rows")


def test_few_development_rows(values: dict[str, Any], tmp_path: Path) -> None:
    values["data"]["dev"] = write_rows(tmp_path / "few.csv", some_rows(600, 20))
    one = found(values, tmp_path, "few_dev_rows")
    assert one.level == "warning"
    assert "±13 points" in one.message


def test_leak(values: dict[str, Any], tmp_path: Path) -> None:
    values["data"]["dev"] = write_rows(tmp_path / "leak.csv", some_rows(540, 120))
    one = found(values, tmp_path, "leak")
    assert one.level == "warning"
    assert "50% of the development rows" in one.message


def test_rare_labels(values: dict[str, Any], tmp_path: Path) -> None:
    values["data"]["train"] = write_rows(tmp_path / "typo.csv", [*some_rows(0, 600), ("a film", "negg")])
    values["teacher"] = None
    values["finetune"] = {"model": "ENCODER"}
    recipe = Recipe.from_mapping({key: value for key, value in values.items() if value is not None})
    data = load_data(recipe.task_definition, recipe.data, ["train", "dev"])
    planned = PlannedRun(recipe, tmp_path, data, "", False)
    (one,) = check_unseen_labels(planned)
    assert one.check == "rare_labels"
    assert "negg (1)" in one.message


def test_rare_and_unseen_labels_of_rows_with_several(values: dict[str, Any], tmp_path: Path) -> None:
    train = [("good film", "pos;film")] * 6 + [("bad cat", "")] * 3 + [("awful dog", "neg")]
    data = {
        "train": write_rows(tmp_path / "sets.csv", train),
        "dev": write_rows(tmp_path / "dev-sets.csv", [("great city", "place;pos")]),
        "labels": ["film", "neg", "place", "pos"],
    }
    recipe = Recipe.from_mapping({"task": "multi-label", "model": "ENCODER", "data": data})
    loaded = load_data(recipe.task_definition, recipe.data, ["train", "dev"])
    rare, unseen = check_unseen_labels(PlannedRun(recipe, tmp_path, loaded, "", False))
    assert (rare.check, unseen.check) == ("rare_labels", "unseen_labels")
    assert "hardly any training rows: neg (1)." in rare.message
    assert "the label place, and development rows do" in unseen.message


def test_unseen_labels(values: dict[str, Any], tmp_path: Path) -> None:
    positive = [row for row in some_rows(0, 1200) if row[1] == "pos"]
    values["data"]["train"] = write_rows(tmp_path / "sorted.csv", positive)
    one = found(values, tmp_path, "unseen_labels", data__labels=["neg", "pos"])
    assert one.level == "warning"
    assert "the label neg" in one.message


def test_unseen(values: dict[str, Any], tmp_path: Path, encoder: Path) -> None:
    one = found(values, tmp_path, "unseen", unseen=True)
    assert (one.level, "needs a teacher with folds, and" in one.message) == ("error", True)
    encoder_only = values | {"teacher": None, "finetune": {"model": str(encoder)}}
    assert "finetune.folds=5" in found(encoder_only, tmp_path, "unseen", unseen=True).message
    planned = {"unseen": True, "finetune__folds": 2}
    assert "unseen" not in {one.check for one in findings(encoder_only, tmp_path, **planned)}
    more = found(encoder_only, tmp_path, "unseen", augment={"model": str(encoder)}, **planned)
    assert "Leave one out" in more.message


def test_augment(values: dict[str, Any], tmp_path: Path, encoder: Path) -> None:
    one = found(values, tmp_path, "augment", augment={"variants": 2})
    assert "augment.model must be given" in one.message
    one = found(values, tmp_path, "augment", augment={"model": values["teacher"]})
    assert one.level == "error"
    assert "BertForSequenceClassification" in one.message
    missing = {"model": str(encoder), "vectors": "glove.txt"}
    assert "glove.txt" in found(values, tmp_path, "augment", augment=missing).message
    unread = {"model": str(encoder), "stop_words": "words.txt"}
    assert "words.txt cannot be read" in found(values, tmp_path, "augment", augment=unread).message
    ours = findings(values, tmp_path, augment={"model": str(encoder)})
    assert "augment" not in [one.check for one in ours]


def test_openvino(values: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def find(name: str) -> None:
        return None

    monkeypatch.setattr(machine, "importlib", SimpleNamespace(util=SimpleNamespace(find_spec=find)))
    one = found(values, tmp_path, "openvino", export={"openvino": True})
    assert one.level == "error"
    assert "pip install 'understudy-distill[openvino]'" in one.message


def test_disk(values: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))
    one = found(values, tmp_path, "disk")
    assert one.level == "error"
    assert "and 0.0 MB are free" in one.message


@pytest.fixture
def with_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    return


@pytest.mark.usefixtures("with_gpu")
def test_a_gpu_that_the_recipe_leaves_idle(values: dict[str, Any], tmp_path: Path) -> None:
    recipe = Recipe.from_mapping(apply_settings(values, {"intermediate.training.use_cpu": True}))
    planned = PlannedRun(recipe, tmp_path, None, "", True)  # type: ignore[arg-type]  # it looks at the recipe
    (one,) = machine.check_accelerator(planned)
    assert "use_cpu" in one.message


def test_a_gpu_that_torch_cannot_use(
    values: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)
    before = Path.glob
    seen = lambda path, pattern: iter([path / "nvidia0"]) if "nvidia" in pattern else before(path, pattern)  # noqa: E731
    monkeypatch.setattr(Path, "glob", seen)
    one = found(values, tmp_path, "accelerator")
    assert "nvidia-smi" in one.message


def test_precision(values: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    monkeypatch.setattr(precision, "cpu_flags", lambda: {"avx2"})
    one = found(values, tmp_path, "precision", prediction__training__bf16=True)
    assert one.level == "warning"
    assert re.search(r"\d+ training steps a second in bf16 here and \d+ in fp32", one.message)
    monkeypatch.setattr(precision, "cpu_flags", lambda: {"amx_bf16"})
    checks = [one.check for one in findings(values, tmp_path, prediction__training__bf16=True)]
    assert "precision" not in checks


def test_processes(values: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    (one,) = machine.check_processes(None)  # type: ignore[arg-type]  # it looks at the environment alone
    assert one.level == "error"
    assert "torchrun" in one.message
