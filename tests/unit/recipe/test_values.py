"""Rows are checked before a command starts, and only their mistakes are refused there."""

from __future__ import annotations

from pathlib import Path

import pytest

from understudy.errors import DataError
from understudy.recipe.inputs import check_values
from understudy.recipe.recipe import Recipe


@pytest.fixture
def encoder(tmp_path: Path) -> str:
    (tmp_path / "encoder").mkdir()
    (tmp_path / "encoder" / "config.json").write_text('{"architectures": ["BertModel"]}')
    return str(tmp_path / "encoder")


def write(file: Path, *labels: str) -> str:
    file.write_text("text,label\n" + "".join(f"film {place},{name}\n" for place, name in enumerate(labels)))
    return str(file)


def recipe(train: str, dev: str) -> Recipe:
    return Recipe.from_mapping({"task": "classification", "data": {"train": train, "dev": dev}})


def test_bad_rows_of_either_file_are_refused(encoder: str, tmp_path: Path) -> None:
    good, bad = write(tmp_path / "good.csv", "a", "b"), write(tmp_path / "bad.csv", "a", "c")
    check_values(recipe(good, good), encoder)
    with pytest.raises(DataError, match=r"bad\.csv"):
        check_values(recipe(good, bad), encoder)


def test_labels_are_the_models(encoder: str, tmp_path: Path) -> None:
    """A development set may have a label that no training row has, if the model has it."""
    Path(encoder, "config.json").write_text(
        '{"architectures": ["BertForSequenceClassification"], "id2label": {"0": "a", "1": "b", "2": "c"}}'
    )
    train, dev = write(tmp_path / "train.csv", "a", "b"), write(tmp_path / "dev.csv", "a", "c")
    check_values(recipe(train, dev), encoder)


def test_a_model_on_the_hub_leaves_the_rows_to_the_command(tmp_path: Path) -> None:
    train = write(tmp_path / "train.csv", "a", "a")
    check_values(recipe(train, train), "bert-base-uncased")


def test_a_cache_that_cannot_be_written_is_left_to_the_command(
    encoder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("UNDERSTUDY_CACHE", str(tmp_path / "file" / "cache"))
    train = write(tmp_path / "train.csv", "a", "b")
    check_values(recipe(train, train), encoder)
