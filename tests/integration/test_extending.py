"""A kind, a family and a loss of a user's own, added from this file alone: trained, exported, predicted."""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from kinds import write_classification
from teaching import DISTIL, QUIET, train_teacher
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification, PreTrainedTokenizerFast
from transformers.models.bert.configuration_bert import BertConfig
from transformers.models.bert.modeling_bert import BertForSequenceClassification, BertModel

import understudy
from understudy.kinds import _REGISTERED
from understudy.kinds.regression.learning import Regression
from understudy.models import families

SETTINGS: dict[str, Any] = {
    **DISTIL,
    "student.family": None,
    "intermediate.training.max_steps": 40,
    "prediction.training.max_steps": 40,
}


class Length(Regression):
    """A toy kind: how many words a text has, in `length`, learnt by absolute error."""

    name = "length"
    required = ("text", "length")
    optional = ()
    inputs = ("text",)
    usual_columns = {"text": ("text",), "length": ("length", "words")}  # noqa: RUF012
    label_field = "length"
    metrics = ("mean_error",)

    def check(self, values: Mapping[str, Any], ids: Mapping[str, int] | None) -> dict[str, Any]:
        return {"text": values["text"], "length": float(values["length"])}

    def columns(self, fields: Collection[str]) -> dict[str, Any]:
        return {"text": "text", "length": "number"}

    def encode(
        self, batch: Any, reader: Any, names: Sequence[str], labels: Any = None
    ) -> dict[str, list[Any]]:
        return super().encode({**batch, "label": batch["length"]}, reader, names)

    def label_loss(self, student: Any, batch: Mapping[str, Tensor]) -> Tensor:
        return (student.logits["logits"][:, 0] - batch["labels"]).abs()

    def judge(self, task: Any, rows: Any, encoded: Any, logits: Any) -> Any:
        return super().judge(task, rows.rename_column("length", "label"), encoded, logits)

    def metric(self, name: str) -> Any:
        return lambda outcomes: -float(abs(outcomes[:, 0] - outcomes[:, 1]).mean())

    def decode(
        self, reading: Any, logits: Any, labels: Sequence[str], *, unanswerable: bool
    ) -> dict[str, Any]:
        return {"length": float(logits[0][0][0])}

    def show(self, prediction: dict[str, Any]) -> str:
        return str(prediction["length"])


@pytest.fixture
def length_kind() -> Iterable[None]:
    understudy.register_kind(Length())
    yield
    del _REGISTERED["length"]


def test_a_kind_of_ones_own(length_kind: None, encoder: Path, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    texts = ["cat", "the cat", "the red cat", "the big red cat", "a dog", "dog", "the blue dog runs"]
    with file.open("w", newline="") as rows:
        csv.writer(rows).writerows([("text", "words"), *((text, len(text.split())) for text in texts)])
    training = {**QUIET, "max_steps": 60, "learning_rate": 5e-3, "per_device_train_batch_size": 8}
    values = {
        "task": "length",
        "model": str(encoder),
        "dropout": 0.0,
        "data": {"train": str(file), "dev": str(file), "max_length": 32},
        "training": {**training, "eval_strategy": "no"},
    }
    recipe = tmp_path / "finetune.yaml"
    recipe.write_text(yaml.safe_dump(values))
    teacher = understudy.finetune(recipe=recipe, output_dir=tmp_path / "teacher")
    assert teacher.scores["dev"]["mean_error"] > -0.5
    values = {
        "task": "length",
        "method": "tinybert",
        "student": {"shape": "1l-16d"},
        "data": values["data"],
        "dropout": 0.0,
        "intermediate": {"training": training},
        "prediction": {"training": {**training, "eval_strategy": "no"}},
    }
    recipe = tmp_path / "distill.yaml"
    recipe.write_text(yaml.safe_dump(values))
    student = understudy.distill(tmp_path / "teacher", recipe=recipe, output_dir=tmp_path / "student")
    assert student.scores["dev"]["mean_error"] > -1.0
    assert abs(student("the cat")["length"] - 2) < 1.5
    understudy.export(tmp_path / "student", output_dir=tmp_path / "artifact", speed=False, tolerance=100.0)
    predict = understudy.Predictor(tmp_path / "artifact", model="fp32")
    assert predict("the cat") == pytest.approx(student("the cat"), abs=1e-4)


class ToyConfig(BertConfig):
    """A family that transformers does not know: BERT under another name."""

    model_type = "toy"


class ToyModel(BertModel):
    """Its encoder."""

    config_class = ToyConfig


class ToyForSequenceClassification(BertForSequenceClassification):
    """Its classifier."""

    config_class = ToyConfig


def test_a_family_of_ones_own(tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    AutoConfig.register("toy", ToyConfig)
    AutoModel.register(ToyConfig, ToyModel)
    AutoModelForSequenceClassification.register(ToyConfig, ToyForSequenceClassification)
    parts = families.family_of(BertConfig()).parts
    understudy.register_family(understudy.Family("toy", parts=parts))
    torch.manual_seed(0)
    config = ToyConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=128,
        initializer_range=0.2,
    )
    ToyModel(config).save_pretrained(tmp_path / "encoder")
    tokenizer.save_pretrained(tmp_path / "encoder")
    try:
        teacher = train_teacher(tmp_path / "encoder", "classification", tmp_path)
        settings = SETTINGS | {"student.init": "cut"}
        student = understudy.distill(
            teacher, student="1l-16d", output_dir=tmp_path / "student", settings=settings
        )
        assert student.scores["dev"]["accuracy"] > 0.5
        loaded = AutoModelForSequenceClassification.from_pretrained(tmp_path / "student" / "student")
        assert loaded.config.model_type == "toy"
        understudy.export(
            tmp_path / "student", output_dir=tmp_path / "artifact", speed=False, tolerance=100.0
        )
        assert understudy.Predictor(tmp_path / "artifact")("good film")["label"] in ("pos", "neg")
    finally:
        del families._FAMILIES["toy"]


def cosine_loss(student: Any, teacher: Any, batch: Mapping[str, Tensor]) -> Tensor:
    """1 − cosine of the first token's states of the last layer."""
    first = student.hidden[-1][:, 0], teacher.hidden[-1][:, 0]
    return 1 - nn.functional.cosine_similarity(*first)


def test_a_loss_of_ones_own(encoder: Path, tmp_path: Path) -> None:
    """With a callback and an in-memory dataset; then exported as any other student."""
    from datasets import Dataset
    from transformers import AutoTokenizer, TrainerCallback, TrainingArguments

    teacher_dir = train_teacher(encoder, "classification", tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(teacher_dir)
    teacher = AutoModelForSequenceClassification.from_pretrained(teacher_dir)
    config = AutoConfig.from_pretrained(
        teacher_dir, num_hidden_layers=1, hidden_size=16, intermediate_size=32
    )
    torch.manual_seed(0)
    student = AutoModelForSequenceClassification.from_config(config)
    texts = [line.split(",")[0] for line in write_classification(tmp_path).read_text().splitlines()[1:]]
    rows = Dataset.from_dict(dict(tokenizer(texts)))
    steps = []

    class Watch(TrainerCallback):
        def on_step_end(self, *_: Any, **options: Any) -> None:
            steps.append(1)

    trainer = understudy.DistillationTrainer(
        model=student,
        teacher=teacher,
        objectives=cosine_loss,
        args=TrainingArguments(
            str(tmp_path / "training"),
            max_steps=30,
            learning_rate=5e-3,
            use_cpu=True,
            report_to="none",
            logging_steps=10,
            save_strategy="no",
        ),
        train_dataset=rows,
        processing_class=tokenizer,
        callbacks=[Watch()],
    )
    trainer.train()
    losses = [log["loss_loss"] for log in trainer.state.log_history if "loss_loss" in log]
    assert losses[-1] < losses[0]
    assert len(steps) == 30
    trainer.save_model(tmp_path / "cosine")
    assert (tmp_path / "cosine" / "projections.safetensors").is_file()
    # The teacher was only read.
    assert not teacher.training
    assert AutoModelForSequenceClassification.from_pretrained(tmp_path / "cosine").config.hidden_size == 16
    data = {"data.train": str(tmp_path / "rows.csv"), "data.dev": str(tmp_path / "rows.csv")}
    understudy.export(
        tmp_path / "cosine",
        task="classification",
        output_dir=tmp_path / "artifact",
        settings=data,
        speed=False,
        tolerance=100.0,
    )
    assert understudy.Predictor(tmp_path / "artifact")("good film")["label"] in ("pos", "neg")
