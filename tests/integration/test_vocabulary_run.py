"""A student with the tokens of its texts only: smaller, and an ordinary model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from teaching import train_teacher
from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline

import understudy
from small_models import make_tokenizer, write_encoder
from understudy.errors import ModelError, RecipeError

STEPS: dict[str, Any] = {
    f"{stage}.training.{name}": value
    for stage in ("intermediate", "prediction")
    for name, value in {
        "max_steps": 60,
        "per_device_train_batch_size": 8,
        "learning_rate": 5e-3,
        "report_to": "none",
        "disable_tqdm": True,
    }.items()
} | {"prediction.search.learning_rate": None}


@pytest.fixture(scope="module")
def teacher(encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_teacher(encoder, "classification", tmp_path_factory.mktemp("taught"))


def distil(teacher: Path, output: Path, **settings: Any) -> Any:
    chosen = {f"student.vocabulary.{name}": value for name, value in settings.items()}
    return understudy.distill(teacher, student="1l-16d", output_dir=output, settings=STEPS | chosen)


def test_a_student_keeps_the_tokens_of_its_rows(teacher: Path, tmp_path: Path) -> None:
    whole = distil(teacher, tmp_path / "whole")
    small = distil(teacher, tmp_path / "small", min_count=1)
    found = small.content["vocabulary"]
    assert found["of"] == len(AutoTokenizer.from_pretrained(teacher))
    assert found["size"] < found["of"]
    assert found["outside"] == 0  # rows to learn from and to score on are the same here
    # The same tokens for the same rows: learning is the same but for the order of the embeddings.
    headline = next(iter(whole.scores["dev"]))
    assert small.scores["dev"][headline] >= 0.75
    # The teacher is scored as it is, with its own tokenizer.
    assert small.content["against"]["scores"] == whole.content["against"]["scores"]
    assert small.content["parameters"]["student"] < whole.content["parameters"]["student"]

    folder = tmp_path / "small" / "student"
    model = AutoModelForSequenceClassification.from_pretrained(folder)
    assert model.config.vocab_size == found["size"] == len(AutoTokenizer.from_pretrained(folder))
    assert pipeline("text-classification", str(folder))("good film")[0]["label"] in ("pos", "neg")
    understudy.export(tmp_path / "small", output_dir=tmp_path / "artifact", int8=False, speed=False)
    assert (
        f"The student keeps {found['size']} of {found['of']} tokens"
        in (tmp_path / "artifact" / "README.md").read_text()
    )
    predict = understudy.Predictor(tmp_path / "artifact")
    assert predict("good film")["label"] == "pos"
    assert predict("xylophone")["label"] in ("pos", "neg")  # read by its characters
    assert understudy.evaluate(tmp_path / "small").scores["dev"] == pytest.approx(small.scores["dev"])


def test_a_saved_student_is_made_smaller(teacher: Path, encoder: Path, tmp_path: Path) -> None:
    whole = distil(teacher, tmp_path / "whole")
    settings = STEPS | {"student.vocabulary.min_count": 1, "intermediate.training.max_steps": 1}
    settings |= {f"{stage}.training.learning_rate": 0.0 for stage in ("intermediate", "prediction")}
    small = understudy.distill(
        teacher,
        student=tmp_path / "whole" / "student",
        output_dir=tmp_path / "small",
        settings=settings | {"prediction.training.max_steps": 1},
    )
    # It has learnt nothing new, and reads the rows with the same tokens: its answers are the same.
    assert small.content["parameters"]["student"] < whole.content["parameters"]["student"]
    assert small.scores["dev"] == pytest.approx(whole.scores["dev"])
    # So are its projections, if it has any.
    after = understudy.distill(
        teacher,
        student=tmp_path / "whole" / "intermediate" / "student",
        output_dir=tmp_path / "after",
        settings=settings | {"prediction.training.max_steps": 1},
    )
    losses = {name: one["last"] for name, one in whole.content["stages"]["intermediate"]["held_out"].items()}
    found = after.content["stages"]["intermediate"]["held_out"]
    assert {name: one["first"] for name, one in found.items()} == pytest.approx(losses, rel=1e-4)
    # An encoder without a head gets one.
    headless = understudy.distill(
        teacher, student=encoder, output_dir=tmp_path / "headless", settings=settings
    )
    assert headless.content["vocabulary"] == small.content["vocabulary"]


def test_a_saved_student_with_other_tokens_is_refused(teacher: Path, tmp_path: Path) -> None:
    write_encoder(tmp_path / "other", make_tokenizer(["other", "words"]))
    with pytest.raises(ModelError, match="must share one tokenizer"):
        understudy.distill(
            teacher,
            student=tmp_path / "other",
            output_dir=tmp_path / "out",
            settings=STEPS | {"student.vocabulary.min_count": 1},
        )


def test_a_size_keeps_the_most_frequent(teacher: Path, tmp_path: Path) -> None:
    whole = distil(teacher, tmp_path / "whole", min_count=1).content["vocabulary"]["size"]
    found = distil(teacher, tmp_path / "small", size=whole - 2).content["vocabulary"]
    assert found["size"] == whole - 2
    assert found["outside"] > 0
    with pytest.raises(RecipeError, match="special tokens and single characters"):
        distil(teacher, tmp_path / "tiny", size=3)


def test_a_corpus_counts_too(teacher: Path, tmp_path: Path) -> None:
    (tmp_path / "more.txt").write_text("anna lives in paris\n", "utf-8")
    few = distil(teacher, tmp_path / "few", min_count=1).content["vocabulary"]["size"]
    more = distil(teacher, tmp_path / "more", corpus=[str(tmp_path / "more.txt")]).content["vocabulary"]
    assert more["size"] == few + 4
