from __future__ import annotations

import pytest

from understudy.errors import RecipeError
from understudy.kinds import kind_names
from understudy.kinds.tasks import get_task, task_names

GLUE = {"cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte", "wnli"}


def test_every_task_of_the_design_is_there() -> None:
    assert GLUE | {"squad", "squad2", "race", "conll2003"} | set(kind_names()) == set(task_names())


@pytest.mark.parametrize("name", task_names())
def test_rows_of_the_table_are_whole(name: str) -> None:
    task = get_task(name)
    assert all(callable(task.kind.metric(metric)) for metric in task.metrics)
    fields = set(task.kind.fields)
    for place in (task.folder, task.hub):
        if place is not None:
            assert set(place.columns) <= fields
    if task.folder is not None:
        assert {"train", *task.dev_splits} <= set(task.folder.files)
    if task.hub is not None:
        assert {"train", *task.dev_splits} <= set(task.hub.splits)
    assert set(task.rows.columns(task.rows.required)) <= fields
    assert set(task.kind.usual_columns) == fields


def test_mnli_keeps_its_dev_sets_apart() -> None:
    assert get_task("mnli").dev_splits == ("dev_matched", "dev_mismatched")


def test_single_sentences_are_64_tokens_and_pairs_128() -> None:
    assert {name: get_task(name).max_length for name in ("cola", "sst2", "mrpc")} == {
        "cola": 64,
        "sst2": 64,
        "mrpc": 128,
    }


def test_names_as_on_the_folders_are_understood() -> None:
    assert [get_task(name).name for name in ("SST-2", "MRPC", "CoNLL_2003")] == ["sst2", "mrpc", "conll2003"]


def test_a_misspelt_task_is_answered_with_the_right_one() -> None:
    with pytest.raises(RecipeError, match="Did you mean 'classification'"):
        get_task("classificaton")
