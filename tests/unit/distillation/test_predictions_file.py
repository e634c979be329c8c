from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import Dataset

from understudy.distillation.predictions_file import SMALLEST, add_predictions
from understudy.errors import DataError, RecipeError
from understudy.kinds import get_kind
from understudy.recipe.recipe import Recipe

ROWS = Dataset.from_dict({"row": [0, 1, 3], "labels": [1, 0, 1], "input_ids": [[1], [2], [3]]})
LABELS = ("no", "yes")


def write(folder: Path, **columns: Any) -> Path:
    pd.DataFrame(columns).to_parquet(folder / "file.parquet")
    return folder / "file.parquet"


def test_rows_are_found_by_their_numbers(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = write(tmp_path, row=[3, 2, 1, 0], logits=[[0.0, 3], [0, 2], [1, 0], [0, 0.5]])
    with caplog.at_level(logging.INFO, "understudy"):
        found = add_predictions(ROWS, get_kind("classification"), LABELS, file)
    assert found["teacher_logits"][:] == [[0.0, 0.5], [1.0, 0.0], [0.0, 3.0]]
    assert found["row"][:] == [0, 1, 3]
    assert "1 rows that are not in the training set are passed over" in caplog.text
    assert "agrees with the labels on 100.0% of the rows. Its values are taken in this order: no, yes" in (
        caplog.text
    )
    assert "worse than guessing" not in caplog.text


def test_probabilities_become_their_logarithms(tmp_path: Path) -> None:
    file = write(tmp_path, row=[0, 1, 3], probabilities=[[0.25, 0.75], [1.0, 0.0], [0.5, 0.5]])
    found = add_predictions(ROWS, get_kind("classification"), LABELS, file)["teacher_logits"][:]
    expected = np.log([[0.25, 0.75], [1.0, SMALLEST], [0.5, 0.5]])
    assert np.allclose(found, expected)


SETS = Dataset.from_dict({"row": [0, 1], "labels": [[1.0, 0.0], [0.0, 0.0]], "input_ids": [[1], [2]]})


def test_probabilities_of_labels_that_do_not_exclude_each_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = write(tmp_path, row=[0, 1], probabilities=[[0.75, 0.75], [0.0, 0.5]])
    with caplog.at_level(logging.INFO, "understudy"):
        found = add_predictions(SETS, get_kind("multi-label"), LABELS, file)["teacher_logits"][:]
    least = np.log(SMALLEST) - np.log1p(-SMALLEST)
    assert np.allclose(found, [[np.log(3), np.log(3)], [least, 0.0]])
    # Yes, yes (wrong), no, and yes (wrong) at one half.
    assert "agrees with the labels on 50.0% of the labels of all rows" in caplog.text
    assert "worse than guessing" not in caplog.text
    file = write(tmp_path, row=[0, 1], probabilities=[[0.75, 1.75], [-1.0, 0.5]])
    with pytest.raises(DataError, match=r"between 0 and 1; 2 are not\. If they are logits"):
        add_predictions(SETS, get_kind("multi-label"), LABELS, file)


def test_scores_of_regression(tmp_path: Path) -> None:
    file = write(tmp_path, row=[0, 1, 3], score=[1, 2, 3])
    assert add_predictions(ROWS, get_kind("regression"), None, file)["teacher_logits"][:] == [
        [1.0],
        [2.0],
        [3.0],
    ]


def test_labels_in_another_order_are_noticed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = write(tmp_path, row=[0, 1, 3], logits=[[1.0, 0], [0, 1], [1, 0]])
    add_predictions(ROWS, get_kind("classification"), LABELS, file)
    assert "worse than guessing. Are the rows in the right order, and the labels?" in caplog.text


GOOD = [[0.5, 0.5]] * 3


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"row": [0, 1, 2], "logits": GOOD}, "1 of 3 are not there, e.g. 3"),
        ({"row": [0, 1], "logits": GOOD[:2]}, "1 of 3 are not there, e.g. 3"),
        (
            {"row": [0, 1, 1, 3], "logits": [*GOOD, [0, 1]]},
            "row must be unique; 1 are repeated, e.g. 1",
        ),
        ({"row": [1, 2, 4], "logits": GOOD}, "row must count from 0; it goes from 1 to 4. Subtract 1"),
        ({"row": [0, 1, 3], "logits": GOOD, "probabilities": GOOD}, "it has both. Drop one"),
        ({"row": [0, 1, 3], "probabilities": [[90, 10]] * 3}, "these sum to 100. Divide them by 100"),
        ({"row": [0, 1, 3]}, "must have the columns row and logits or probabilities; it has row"),
        ({"logits": GOOD}, "must have the columns row and"),
        ({"row": ["a", "b", "c"], "logits": GOOD}, "row must be whole numbers from 0, got"),
        ({"row": [0, 1, None], "logits": GOOD}, "row is empty in 1 rows"),
        ({"row": [0, 1, 3], "logits": [[1.0, 0], None, [1, 0]]}, "logits is empty in 1 rows"),
        (
            {"row": [0, 1, 3], "logits": [[1.0, float("nan")], [0, 1], [0, 1]]},
            "logits holds 1 values that are no",
        ),
        ({"row": [0, 1, 3], "logits": [1.0, 2.0, 3.0]}, "logits must be lists of numbers, got double"),
        ({"row": [0, 1, 3], "logits": [["a"], ["b"], ["c"]]}, "logits must be lists of numbers, got"),
        (
            {"row": [0, 1, 3], "logits": [[1.0, 0], [1, 0, 0], [1, 0]]},
            r"a value for each of the 2 labels \(no, yes\); row 1 has 3",
        ),
        (
            {"row": [0, 1, 3], "probabilities": [[0.5, 0.5], [3.0, -2.0], [1, 2]]},
            "at least 0 and sum to 1; 2 rows do not, e.g. the one at place 1.*call the column logits",
        ),
        (
            {"row": [0, 1, 3], "probabilities": [[0.5, 0.5], [1.0], []]},
            "probabilities of row 3 is an empty list",
        ),
    ],
)
def test_bad_files(columns: dict[str, Any], message: str, tmp_path: Path) -> None:
    file = write(tmp_path, **columns)
    with pytest.raises(DataError, match=message) as error:
        add_predictions(ROWS, get_kind("classification"), LABELS, file)
    assert str(file) in str(error.value)


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (["a", "b", "c"], "score must be numbers, got"),
        ([1.0, float("inf"), 2], "score holds 1 values that are no"),
    ],
)
def test_bad_scores(scores: list[Any], message: str, tmp_path: Path) -> None:
    file = write(tmp_path, row=[0, 1, 3], score=scores)
    with pytest.raises(DataError, match=message):
        add_predictions(ROWS, get_kind("regression"), None, file)


def test_every_choice_has_a_value(tmp_path: Path) -> None:
    rows = Dataset.from_dict({"row": [0], "labels": [1], "input_ids": [[[1], [2], [3]]]})
    file = write(tmp_path, row=[0], logits=[[1.0, 2.0]])
    with pytest.raises(DataError, match="each of the 3 predictions of multiple-choice; row 0 has 2"):
        add_predictions(rows, get_kind("multiple-choice"), None, file)


def test_no_parquet(tmp_path: Path) -> None:
    (tmp_path / "file.csv").write_text("row,logits\n")
    with pytest.raises(DataError, match=re.escape(f"{tmp_path / 'file.csv'} cannot be read as Parquet")):
        add_predictions(ROWS, get_kind("classification"), LABELS, tmp_path / "file.csv")
    for other in (tmp_path, tmp_path / "none.parquet"):
        with pytest.raises(DataError, match=re.escape(f"must be a Parquet file; {other} is not one")):
            add_predictions(ROWS, get_kind("classification"), LABELS, other)


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.float32(), 2), pa.large_list(pa.float64()), pa.list_(pa.int8())]
)
def test_lists_of_any_kind(kind: pa.DataType, tmp_path: Path) -> None:
    values = pa.array([[0, 1], [1, 0], [0, 2]], kind)
    pq.write_table(pa.table({"row": [0, 1, 3], "logits": values}), tmp_path / "file.parquet")
    found = add_predictions(ROWS, get_kind("classification"), LABELS, tmp_path / "file.parquet")
    assert found["teacher_logits"][:] == [[0.0, 1.0], [1.0, 0.0], [0.0, 2.0]]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"teacher": "t"}, "teacher and soft_labels.predictions exclude each other"),
        ({"method": "patient"}, "holds no hidden states, which method: patient needs"),
        ({"task": "squad"}, "predictions of question-answering belong to a tokenizer's tokens"),
        ({"method": "tinybert"}, "soft_labels has no effect with method: tinybert"),
    ],
)
def test_what_a_file_cannot_stand_for(values: dict[str, str], message: str) -> None:
    recipe = {"task": "sst2", "method": "soft-labels", "soft_labels": {"predictions": "f.parquet"}}
    with pytest.raises(RecipeError, match=message):
        Recipe.from_mapping(recipe | values)


def test_without_a_teacher_the_tokenizer_is_the_students() -> None:
    recipe = {"task": "sst2", "method": "soft-labels", "soft_labels": {"predictions": "f.parquet"}}
    assert Recipe.from_mapping(recipe | {"student": {"model": "m"}}).tokenizer_model == "m"
    with pytest.raises(
        RecipeError, match=r"--student, or the one to cut a smaller student from with --set student\.source="
    ):
        _ = Recipe.from_mapping(recipe).tokenizer_model
