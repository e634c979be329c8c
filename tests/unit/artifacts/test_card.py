"""The cards' metadata is what the hub reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from huggingface_hub import EvalResult, ModelCard

from understudy.artifacts.artifact import Artifact, ExportedModel
from understudy.artifacts.card import Origin, Student, write_card, write_student_card
from understudy.kinds import get_rows, kind_names
from understudy.workspace.origin import find_origin

SCORES = {"dev": {"accuracy": {"value": 0.91234, "low": 0.9, "high": 0.93}}}
HUB = Origin(
    "reviews",
    teacher="google-bert/bert-base-uncased, fine-tuned",
    method="tinybert",
    base_models=["google-bert/bert-base-uncased"],
    dataset="nyu-mll/glue",
)


def artifact(kind: str) -> Artifact:
    model = ExportedModel("onnxruntime", "onnx/model.onnx", 1_000, SCORES)
    return Artifact(
        task="sst2",
        kind=kind,
        fields=["text"],
        labels=["no", "yes"],
        unanswerable=False,
        max_length=64,
        stride=None,
        truncation_side="right",
        padding={},
        inputs=["input_ids"],
        outputs=["logits"],
        models={"fp32": model, "int8": model},
        default="int8",
        parameters=14_400_000,
        files={},
    )


def student(kind: str) -> Student:
    return Student("sst2", get_rows(kind), ["no", "yes"], 14_400_000, 64, SCORES)


def metadata(card: str) -> dict[str, Any]:
    """The metadata as the hub's client parses it, and back."""
    parsed = ModelCard(card).data.to_dict()
    assert parsed == yaml.safe_load(card.split("---\n")[1])
    return dict(parsed)


@pytest.mark.parametrize("kind", kind_names())
def test_every_kind_has_metadata_that_parses(kind: str) -> None:
    for card, library in (
        (write_card(artifact(kind), HUB, get_rows(kind)), "onnx"),
        (write_student_card(student(kind), HUB), get_rows(kind).library),
    ):
        data = metadata(card)
        assert data["library_name"] == library
        assert data["pipeline_tag"] == get_rows(kind).pipeline
        assert data["base_model"] == ["google-bert/bert-base-uncased"]
        assert data["datasets"] == ["nyu-mll/glue"]
        assert {"understudy", "distillation"} <= set(data["tags"])
        # Nobody has said them.
        assert not {"license", "language"} & set(data)


def test_scores_are_evaluation_results() -> None:
    results = ModelCard(write_card(artifact("classification"), HUB, get_rows("classification"))).data
    assert results.model_name == "reviews"
    assert [(one.metric_name, one.metric_value) for one in results.eval_results] == [
        ("accuracy, fp32", 0.9123),
        ("accuracy, int8", 0.9123),
    ]
    first: EvalResult = results.eval_results[0]
    assert (first.dataset_type, first.dataset_name, first.dataset_split) == ("nyu-mll/glue", "sst2", "dev")
    assert (first.task_type, first.metric_type) == ("text-classification", "accuracy")


def test_what_is_local_is_not_named_as_the_hubs() -> None:
    data = metadata(write_student_card(student("classification"), Origin("reviews")))
    assert not {"base_model", "datasets"} & set(data)
    assert data["tags"] == ["understudy"]
    assert data["model-index"][0]["results"][0]["dataset"]["type"] == "sst2"


def test_the_origin_knows_the_hubs_names_from_paths(tmp_path: Path) -> None:
    def write(name: str, recipe: dict[str, Any], result: str) -> Path:
        (tmp_path / name / "student").mkdir(parents=True)
        (tmp_path / name / "recipe.yaml").write_text(yaml.safe_dump(recipe))
        (tmp_path / name / "result.json").write_text(result)
        return tmp_path / name

    teacher = write(
        "teacher", {"task": "sst2", "model": "google-bert/bert-base-uncased@main"}, '{"stage": "finetune"}'
    )
    distilled = '{"stage": "distill", "method": "tinybert", "parameters": {"student": 1}}'
    recipe: dict[str, Any] = {"task": "sst2", "method": "tinybert", "data": {"source": "nyu-mll/glue@main"}}
    folder = write("one", {**recipe, "teacher": str(teacher), "student": {"model": "ada/general"}}, distilled)
    origin = find_origin(str(folder / "student"), str(folder / "student"))
    assert origin.name == "one"
    assert origin.base_models == ["ada/general", "google-bert/bert-base-uncased"]
    assert origin.dataset == "nyu-mll/glue"
    assert origin.teacher == "google-bert/bert-base-uncased@main, fine-tuned"

    local = {"task": "sst2", "method": "tinybert", "data": {"source": str(tmp_path / "nyu-mll" / "glue")}}
    folder = write("two", {**local, "teacher": str(tmp_path / "a" / "model")}, distilled)
    origin = find_origin(str(folder), str(folder / "student"))
    assert (origin.base_models, origin.dataset, origin.teacher) == ([], None, "model")
    assert str(tmp_path) not in write_student_card(student("classification"), origin)

    old = write("three", {**recipe, "teacher": "bert-base-uncased"}, distilled)
    assert find_origin(str(old), str(old / "student")).base_models == ["bert-base-uncased"]
