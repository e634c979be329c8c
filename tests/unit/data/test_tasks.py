from __future__ import annotations

import pytest

from understudy.data.rows import row_features
from understudy.data.tasks import KINDS, TASKS, get_task
from understudy.errors import RecipeError
from understudy.evaluation.metrics import METRICS

GLUE = {"cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte", "wnli"}


def test_every_task_of_the_design_is_there() -> None:
    assert GLUE | {"squad", "squad2", "race", "conll2003"} | set(KINDS) == set(TASKS)


@pytest.mark.parametrize("name", TASKS)
def test_rows_of_the_table_are_whole(name: str) -> None:
    task = TASKS[name]
    assert set(task.metrics) <= set(METRICS)
    fields = set(KINDS[task.kind].required + KINDS[task.kind].optional)
    for place in (task.folder, task.hub):
        if place is not None:
            assert set(place.columns) <= fields
    if task.folder is not None:
        assert {"train", *task.dev_splits} <= set(task.folder.files)
    if task.hub is not None:
        assert {"train", *task.dev_splits} <= set(task.hub.splits)
    assert "row" in row_features(task.kind, task.labels, pair=False)


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
