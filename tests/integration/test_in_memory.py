"""`run` and `distill` with models, datasets, callbacks and a metric from memory, as a notebook has them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pandas
import pytest
import yaml
from datasets import ClassLabel, Dataset, DatasetDict, Features, Value
from teaching import QUIET
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    TrainerCallback,
)

import understudy
from understudy.errors import ModelError, RecipeError

pytestmark = pytest.mark.usefixtures("short_timings")

TRAINING = {**QUIET, "per_device_train_batch_size": 8, "learning_rate": 5e-3, "max_steps": 20}


class Steps(TrainerCallback):
    """Counts steps by the folder of the trainer that made them."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def on_step_end(self, args: Any, *_: Any, **__: Any) -> None:
        stage = next(part for part in reversed(Path(args.output_dir).parts) if part in STAGES)
        self.counts[stage] = self.counts.get(stage, 0) + 1


STAGES = ("teacher", "intermediate", "prediction")


@pytest.fixture(scope="module")
def rows() -> DatasetDict:
    words = {"good": 1, "great": 1, "bad": 0, "awful": 0}
    nouns = ("film", "movie", "cat", "dog", "city", "river")
    made = [
        {"text": f"the {noun} was {word}", "label": label} for noun in nouns for word, label in words.items()
    ]
    features = Features({"text": Value("string"), "label": ClassLabel(names=["neg", "pos"])})
    train = Dataset.from_list(made, features=features)
    return DatasetDict(train=train, validation=train.select(range(0, 24, 2)))


@pytest.fixture
def model(encoder: Path) -> PreTrainedModel:
    return AutoModelForSequenceClassification.from_pretrained(
        encoder, id2label={0: "neg", 1: "pos"}, label2id={"neg": 0, "pos": 1}
    )


@pytest.fixture
def recipe(tmp_path: Path, encoder: Path) -> Path:
    values = {
        "task": "classification",
        "method": "tinybert",
        "data": {"max_length": 32},
        "finetune": {"model": str(encoder), "training": {**TRAINING, "max_steps": 40}, "dropout": 0.0},
        "student": {"shape": "1l-16d"},
        "intermediate": {"training": TRAINING},
        "prediction": {"training": TRAINING},
        "export": {"tolerance": 100.0},
    }
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(values), "utf-8")
    return tmp_path / "recipe.yaml"


def test_a_run_from_memory(rows: DatasetDict, recipe: Path, tmp_path: Path) -> None:
    steps = Steps()
    given: dict[str, Any] = {"recipe": recipe, "data": rows, "metric": "balanced_accuracy"}
    given["unlabelled"] = [Dataset.from_dict({"text": ["the cat was slow", "the dog was fast"] * 10})]
    student = understudy.run(output_dir=tmp_path / "run", callbacks=[steps], **given)
    assert steps.counts == {"teacher": 40, "intermediate": 20, "prediction": 20}
    # The labels have the names of the dataset's feature; the metric asked for comes first.
    assert student("the film was great")["label"] in ("neg", "pos")
    assert list(student.scores["dev"]) == ["balanced_accuracy", "accuracy", "macro_f1"]
    # Figures are attributes.
    teacher, *_, int8 = student.models
    assert (teacher.name, int8.name) == ("teacher", "student, int8")
    assert teacher.parameters == student.teacher_parameters > student.parameters
    assert int8.bytes < teacher.bytes
    assert int8.milliseconds[1] > 0
    assert teacher.scores["balanced_accuracy"] == student.teacher_scores["dev"]["balanced_accuracy"]
    assert student.stages["prediction"].steps == 20
    assert student.difference["dev"]["balanced_accuracy"].value == pytest.approx(
        student.scores["dev"]["balanced_accuracy"] - teacher.scores["balanced_accuracy"].value
    )
    # A notebook shows the models side by side, and the score of what is shipped.
    shown = student._repr_html_()
    assert all(f"<td>{one.name}</td>" in shown for one in student.models)
    assert f"<td>{int8.scores['balanced_accuracy']}</td>" in shown
    assert f"balanced_accuracy {int8.scores['balanced_accuracy'].value:.3f}" in repr(student)
    report = (tmp_path / "run" / "report.html").read_text("utf-8")
    assert "Learnt from 24 labelled rows and 20 rows without labels." in report
    # The same objects again: every stage is unchanged.
    steps.counts.clear()
    understudy.run(output_dir=tmp_path / "run", callbacks=[steps], **given)
    assert steps.counts == {}


def test_a_teacher_and_a_student_from_memory(
    rows: DatasetDict,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    recipe: Path,
    tmp_path: Path,
) -> None:
    values = yaml.safe_load(recipe.read_text())
    values.pop("finetune"), values.pop("export"), values.pop("student")
    recipe.write_text(yaml.safe_dump(values), "utf-8")
    given: dict[str, Any] = {"data": {"train": rows["train"], "dev": rows["validation"]}, "recipe": recipe}
    student = understudy.distill(
        model, processing_class=tokenizer, student=model, output_dir=tmp_path / "out", **given
    )
    assert student.parameters == student.teacher_parameters == model.num_parameters()
    assert "<td>teacher</td>" in (shown := student._repr_html_())
    assert f"<td>{student.intervals['dev']['accuracy']}</td>" in shown
    loaded = AutoTokenizer.from_pretrained(tmp_path / "out" / "student")
    assert loaded("the cat")["input_ids"] == tokenizer("the cat")["input_ids"]
    # Beside a teacher in a folder, a student needs no tokenizer: it reads the same tokens.
    model.save_pretrained(tmp_path / "teacher")
    tokenizer.save_pretrained(tmp_path / "teacher")
    again = understudy.distill(tmp_path / "teacher", student=model, output_dir=tmp_path / "again", **given)
    assert again.scores == student.scores
    with pytest.raises(ModelError, match="processing_class=tokenizer"):
        understudy.distill(model, output_dir=tmp_path / "without", **given)


def test_a_teacher_is_fine_tuned_from_frames(encoder: Path, tmp_path: Path) -> None:
    texts = [f"the {noun} was {word}" for noun in ("film", "cat", "dog") for word in ("good", "bad")]
    frame = pandas.DataFrame({"review": texts * 4, "stars": [text.split()[-1] for text in texts] * 4})
    settings = {"training.max_steps": 2, "data.max_length": 16, "training.report_to": "none"}
    data = {"train": frame, "split": 0.5, "text": "review", "label": "stars"}
    teacher = understudy.finetune(encoder, data=data, output_dir=tmp_path / "teacher", settings=settings)
    assert set(teacher.scores) == {"dev"}


@pytest.mark.parametrize("function", [understudy.finetune, understudy.distill, understudy.run])
def test_what_is_no_callback_is_refused_early(
    function: Any, rows: DatasetDict, encoder: Path, tmp_path: Path
) -> None:
    with pytest.raises(RecipeError, match=r"callbacks must be a list .* got <built-in function print>"):
        function(encoder, task="classification", data=rows, output_dir=tmp_path / "out", callbacks=[print])


def test_a_metric_that_does_not_exist_is_refused(rows: DatasetDict, recipe: Path, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"metric must be one of accuracy, f1.*got 'roc_auc'"):
        understudy.run(recipe=recipe, data=rows, metric="roc_auc", output_dir=tmp_path / "run")


def test_a_revision_of_a_hub_model(
    rows: DatasetDict,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    recipe: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The hub's cache on disk, with two commits of one model: a name with a revision reads the right one."""
    hub = tmp_path / "hub"
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(hub))
    monkeypatch.setattr("transformers.utils.hub.constants.HF_HUB_CACHE", str(hub))
    place = hub / "models--our--teacher"
    for name, commit, labels in (("main", "a" * 40, ["x", "y"]), ("v1", "b" * 40, ["neg", "pos"])):
        model.config.id2label = dict(enumerate(labels))
        model.config.label2id = {label: index for index, label in enumerate(labels)}
        model.save_pretrained(place / "snapshots" / commit)
        tokenizer.save_pretrained(place / "snapshots" / commit)
        (place / "refs").mkdir(exist_ok=True)
        (place / "refs" / name).write_text(commit)
    values = yaml.safe_load(recipe.read_text())
    values.pop("finetune"), values.pop("export")
    recipe.write_text(yaml.safe_dump(values), "utf-8")
    given: dict[str, Any] = {"recipe": recipe, "data": rows}
    student = understudy.distill("our/teacher", revision="v1", output_dir=tmp_path / "out", **given)
    assert student.hashes["teacher"] == f"our/teacher@{'b' * 40}"
    assert student("the film was great")["label"] in ("neg", "pos")
    with pytest.raises(ModelError):  # its labels are others
        understudy.distill("our/teacher", output_dir=tmp_path / "main", **given)
    shutil.rmtree(hub)
    with pytest.raises(ModelError, match="our/teacher@v1"):
        understudy.distill("our/teacher", revision="v1", output_dir=tmp_path / "gone", **given)
