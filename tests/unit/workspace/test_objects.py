from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest
from datasets import Dataset

from understudy.data.load import load_data
from understudy.data.settings import DataSettings
from understudy.errors import DataError
from understudy.kinds.tasks import get_task
from understudy.workspace.objects import data_settings, unlabelled_settings

ROWS = {"text": [f"text {number}" for number in range(20)], "label": ["x", "y"] * 10}
MAKERS = [Dataset.from_dict, pd.DataFrame, pl.DataFrame]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNDERSTUDY_CACHE", str(tmp_path))


@pytest.mark.parametrize("make", MAKERS)
def test_frames_and_datasets_in_memory_are_read_alike(make: Any) -> None:
    settings = data_settings({"train": make(ROWS), "dev_share": 0.3})
    assert settings["data.dev_share"] == 0.3
    read = DataSettings(train=settings["data.train"], dev_share=0.3)
    data = load_data(get_task("classification"), read, ["train", "dev"])
    texts = [text for split in ("train", "dev") for text in data.splits[split]["text"]]
    assert sorted(texts) == sorted(ROWS["text"])
    assert data.labels == ("x", "y")


@pytest.mark.parametrize("make", MAKERS)
def test_the_same_rows_get_the_same_place(make: Any) -> None:
    assert data_settings({"train": make(ROWS)}) == data_settings({"train": make(ROWS)})
    unlabelled = [make({"text": ["a", "b"]}) for _ in range(2)]
    assert unlabelled_settings(unlabelled[:1]) == unlabelled_settings(unlabelled[1:])


def test_a_filtered_frame_has_no_column_for_its_index() -> None:
    frame = pd.DataFrame(ROWS)
    place = data_settings({"train": frame[frame["label"] == "x"]})["data.train"]
    assert Dataset.load_from_disk(place).column_names == ["text", "label"]


def test_messages_do_not_name_the_cache(tmp_path: Path) -> None:
    rows = {"text": ["fine", ""], "label": ["x", "y"]}
    read = DataSettings(train=data_settings({"train": pd.DataFrame(rows)})["data.train"])
    with pytest.raises(DataError, match="the data in memory: 1 of 2 rows are bad") as refused:
        load_data(get_task("classification"), read, ["train"])
    assert str(tmp_path) not in str(refused.value)


@pytest.mark.parametrize("make", MAKERS)
def test_one_table_alone_has_no_development_rows(make: Any) -> None:
    with pytest.raises(DataError, match="split"):
        data_settings(make(ROWS))


def test_data_takes_the_options_of_the_command_line(tmp_path: Path) -> None:
    given = {"train": "a.csv", "split": 0.1, "text": "review", "label": "stars"}
    assert data_settings(given) == {
        "data.train": "a.csv",
        "data.dev_share": 0.1,
        "data.columns": {"text": "review", "label": "stars"},
    }
    columns = {"columns": {"words": "tokens"}}
    assert data_settings(columns) == {"data.columns": {"words": "tokens"}}
    file = tmp_path / "a.csv"
    file.write_text("text,label\n")
    with pytest.raises(DataError, match=r"a file must be named as a split: data=\{\"train\": "):
        data_settings(file)
