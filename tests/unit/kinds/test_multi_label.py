"""Rows with any number of labels: what is read, learnt, scored and predicted."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from datasets import ClassLabel, Dataset, Features, List, Value

from understudy.capture.representations import Representations
from understudy.data.kind import Reading
from understudy.data.load import load_data, row_features
from understudy.data.raw_rows import Problem, RawRow
from understudy.data.rows import check_row, label_ids
from understudy.data.settings import DataSettings
from understudy.errors import DataError, RecipeError
from understudy.evaluation.metrics import macro_f1_of_sets, micro_f1_of_sets
from understudy.kinds import get_kind
from understudy.kinds.tasks import get_task

KIND = get_kind("multi-label")
LABELS = ["economy", "politics", "sport"]


def checked(value: Any) -> Any:
    raw = RawRow("line 2", {"text": "a text", "labels": value})
    return check_row(KIND, raw, {"text": "text", "label": "labels"}, label_ids(LABELS))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (["sport", "economy"], [0, 2]),
        (["sport", "sport"], [2]),
        ([], []),
        ([2, 0], [0, 2]),
        ([1.0], [1]),
        ("sport;economy", [0, 2]),
        ("Sport ; ECONOMY", [0, 2]),
        ("", []),
        ('["politics"]', [1]),
        ("[]", []),
    ],
)
def test_labels_of_a_row(value: Any, expected: list[int]) -> None:
    assert checked(value) == {"text": "a text", "label": expected}


@pytest.mark.parametrize(
    ("value", "name", "message"),
    [
        (None, "null label", "a row without labels has an empty list or cell"),
        (math.nan, "null label", "empty list or cell"),
        ([None], "null label", "label is null"),
        (3, "labels have the wrong form", "label must be a list, or names with ';' between them; got 3"),
        ("sport;polotics", "unknown label", "got 'polotics'. Did you mean 'politics'?"),
        (["chess"], "unknown label", "label must be one of economy, politics, sport; got 'chess'"),
    ],
)
def test_what_is_no_label(value: Any, name: str, message: str) -> None:
    problem = checked(value)
    assert isinstance(problem, Problem)
    assert problem.name == name
    assert message in problem.detail


def test_labels_are_the_union_of_the_training_rows(tmp_path: Path) -> None:
    train, dev = tmp_path / "train.csv", tmp_path / "dev.csv"
    train.write_text('text,labels\na,sport;economy\nb,\nc,"[""politics""]"\n', "utf-8")
    dev.write_text("text,labels\nd,sport\n", "utf-8")
    settings = DataSettings(train=str(train), dev=str(dev))
    data = load_data(get_task("multi-label"), settings, ["train", "dev"])
    assert data.labels == tuple(LABELS)
    assert data.splits["train"]["label"][:] == [[0, 2], [], [1]]
    assert data.splits["dev"]["label"][:] == [[2]]
    dev.write_text("text,labels\nd,sports\n", "utf-8")
    with pytest.raises(DataError, match=r"line 2: label must be one of .*'sports'\. Did you mean 'sport'\?"):
        load_data(get_task("multi-label"), settings, ["train", "dev"])
    ordered = settings.model_copy(update={"labels": ["sport", "sports", "economy", "politics"]})
    assert load_data(get_task("multi-label"), ordered, ["train", "dev"]).splits["dev"]["label"][:] == [[1]]


def test_lists_of_json_and_parquet(tmp_path: Path) -> None:
    rows = [{"text": "a", "tags": ["x", "y"]}, {"text": "b", "tags": []}]
    lines, table = tmp_path / "train.jsonl", tmp_path / "train.parquet"
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    Dataset.from_list(rows).to_parquet(str(table))
    for file in (lines, table):
        data = load_data(get_task("multi-label"), DataSettings(train=str(file)), ["train"])
        assert (data.labels, data.splits["train"]["label"][:]) == (("x", "y"), [[0, 1], []])


def test_one_label_alone_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "train.csv"
    file.write_text("text,labels\na,sport\nb,\n", "utf-8")
    with pytest.raises(DataError, match=r"two or more different labels; found \['sport'\]"):
        load_data(get_task("multi-label"), DataSettings(train=str(file)), ["train"])


LOGITS = np.array([[-math.log(3), 0.0, 5.0]], dtype=np.float32)


def test_a_prediction_has_every_label_from_half_on() -> None:
    answer = KIND.decode(Reading({}, []), [(LOGITS[0],)], LABELS, unanswerable=False)
    assert answer["labels"] == ["politics", "sport"]
    assert answer["probabilities"] == pytest.approx(
        {"economy": 0.25, "politics": 0.5, "sport": 0.9933}, abs=1e-4
    )
    assert KIND.show(answer) == "politics 0.500\tsport 0.993"
    assert KIND.cells(answer)["labels"] == "politics;sport"


def test_thresholds_decide_instead() -> None:
    answer = KIND.decode(Reading({}, []), [(LOGITS[0],)], LABELS, unanswerable=False)
    decided = KIND.apply_thresholds(answer, {"economy": 0.2, "politics": 0.6, "sport": 1.0})
    assert decided == {**answer, "labels": ["economy"]}
    nothing = KIND.apply_thresholds(answer, dict.fromkeys(LABELS, 1.0))
    assert (nothing["labels"], KIND.show(nothing), KIND.cells(nothing)["labels"]) == ([], "", "")


def dataset(labels: list[list[int]], numbers: list[int]) -> Dataset:
    features = row_features(KIND, ["text", "label"], LABELS)
    rows = [{"row": number, "text": "a", "label": one} for number, one in zip(numbers, labels, strict=True)]
    return Dataset.from_list(rows, features=features)


def test_scores_count_a_label_from_half_on_in_the_order_of_the_rows() -> None:
    rows = dataset([[2], [], [0, 1]], [3, 5, 9])
    encoded = Dataset.from_dict({"row": [9, 3, 5]})
    logits = np.array([[1.0, -1.0, -1.0], [-1.0, -1.0, 0.0], [-1.0, -1.0, 1.0]])
    found = KIND.judge(get_task("multi-label"), rows, encoded, (logits,))
    assert found.values == [[2], [2], [0]]
    assert found.outcomes.tolist() == [[0, 0, 1, 0, 0, 1], [0, 0, 1, 0, 0, 0], [1, 0, 0, 1, 1, 0]]
    # 2 right of 3 predicted and 3 gold; economy 1, politics 0, sport 2/3.
    assert micro_f1_of_sets(found.outcomes) == pytest.approx(2 / 3)
    assert macro_f1_of_sets(found.outcomes) == pytest.approx((1 + 0 + 2 / 3) / 3)


def test_thresholds_are_chosen_for_each_label() -> None:
    rows = dataset([[2], [], [0, 2]] * 20, list(range(60)))
    encoded = Dataset.from_dict({"row": list(reversed(range(60)))})
    # economy is right at 0.5; no row has politics; sport is in the rows from -1 on.
    logits = np.tile([[1.0, 1.0, -1.0], [-1.0, 1.0, -3.0], [-1.0, 1.0, 2.0]], (20, 1))
    found = KIND.choose_thresholds(rows, encoded, (logits,))
    assert found is not None
    below, above = 1 / (1 + math.exp(3)), 1 / (1 + math.exp(1))
    assert found == pytest.approx({"economy": 0.5, "politics": 0.5, "sport": (below + above) / 2})
    assert get_kind("classification").choose_thresholds(rows, encoded, (logits,)) is None


def shown(logits: list[list[float]]) -> Representations:
    return Representations(None, (), (), {"logits": torch.tensor(logits)})


def test_the_loss_of_labels_by_hand() -> None:
    # σ(0) = ½ and σ(log 3) = ¾ with labels 1 and 0: log 2 and log 4; then both right: log 2 and log 4/3.
    student = shown([[0.0, math.log(3)], [0.0, math.log(3)]])
    losses = KIND.label_loss(student, {"labels": torch.tensor([[1.0, 0.0], [1.0, 1.0]])})
    assert losses.tolist() == pytest.approx(
        [(math.log(2) + math.log(4)) / 2, (math.log(2) + math.log(4 / 3)) / 2]
    )


def test_soft_labels_are_softened_and_squared() -> None:
    student, teacher = shown([[0.0, 2.0]]), shown([[4.0, -2.0]])
    (plain,) = KIND.soft_label_loss(student, teacher, {}, temperature=2.0, squared=False).tolist()
    (squared,) = KIND.soft_label_loss(student, teacher, {}, temperature=2.0, squared=True).tolist()
    (predictions,) = KIND.prediction_losses(student, teacher, {}, temperature=2.0, padded=False)[
        "predictions"
    ].tolist()
    # σ(0) = ½ gives log 2; σ(−1) against σ(1).
    second = sum(
        -target * math.log(given)
        for target, given in (
            (1 / (1 + math.e), math.e / (1 + math.e)),
            (math.e / (1 + math.e), 1 / (1 + math.e)),
        )
    )
    assert plain == predictions == pytest.approx((math.log(2) + second) / 2)
    assert squared == pytest.approx(4 * plain)


def test_heads_of_other_problems_are_refused() -> None:
    assert KIND.check_head(SimpleNamespace(problem_type=None)) is None
    config = SimpleNamespace(problem_type="single_label_classification")
    assert "its problem_type is single_label_classification" in str(KIND.check_head(config))
    KIND.configure(config, LABELS)
    assert KIND.check_head(config) is None
    assert "several labels" in str(get_kind("classification").check_head(config))
    assert config.id2label == dict(enumerate(LABELS))


def test_groups_are_the_most_probable_labels() -> None:
    found = KIND.prediction_groups((np.array([[-3.0, -1.0, -2.0], [2.0, 1.0, 0.0]]),))
    assert found is not None
    assert found.tolist() == [1, 0]


def test_metrics() -> None:
    assert KIND.metric("micro_f1") is micro_f1_of_sets
    with pytest.raises(RecipeError, match="metric must be one of micro_f1, macro_f1"):
        KIND.metric("matthews")


def test_every_label_of_every_row_is_a_decision() -> None:
    features = Features({"row": Value("int64"), "label": List(ClassLabel(names=["a", "b"]))})
    rows = Dataset.from_dict({"row": [0, 1], "label": [[1], []]}, features=features)
    found = KIND.decisions(rows, rows.select([1, 0]), (np.array([[3.0, 4.0], [1.0, 2.0]]),))
    assert found is not None
    logits, classes = found
    assert logits.tolist() == [[0.0, 1.0], [0.0, 2.0], [0.0, 3.0], [0.0, 4.0]]
    assert classes.tolist() == [0, 1, 0, 0]
