from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from datasets import ClassLabel, Dataset, Features, List, Value

from understudy.data.task import Task
from understudy.evaluation.metrics import METRICS
from understudy.evaluation.outcomes import Predictions
from understudy.kinds.tasks import get_task


def judge(task: Task, rows: Dataset, encoded: Dataset, logits: Any) -> Predictions:
    return task.kind.judge(task, rows, encoded, logits if isinstance(logits, tuple) else (logits,))


def labelled(rows: list[int], labels: list[int], names: list[str]) -> Dataset:
    features = Features({"row": Value("int64"), "label": ClassLabel(names=names)})
    return Dataset.from_dict({"row": rows, "label": labels}, features=features)


def test_f1_is_that_of_the_published_label_1_in_any_order_of_labels() -> None:
    encoded = Dataset.from_dict({"row": [0, 1, 2]})
    logits = np.array([[0.0, 1.0], [0.0, 1.0], [1.0, 0.0]])  # second label, second, first
    straight = labelled([0, 1, 2], [1, 0, 0], ["not_equivalent", "equivalent"])
    turned = labelled([0, 1, 2], [0, 1, 1], ["equivalent", "not_equivalent"])
    figures = [
        METRICS["f1"](judge(get_task("mrpc"), rows, encoded, side).outcomes)
        for rows, side in ((straight, logits), (turned, logits[:, ::-1]))
    ]
    assert figures[0] == figures[1] == pytest.approx(2 / 3)


def test_labels_come_back_in_the_order_of_the_rows() -> None:
    rows = labelled([3, 5, 9], [0, 1, 1], ["negative", "positive"])
    encoded = Dataset.from_dict({"row": [9, 3, 5]})  # sorted by length, say
    logits = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 0.0]])
    predictions = judge(get_task("sst2"), rows, encoded, logits)
    assert predictions.values == [0, 0, 1]
    assert METRICS["accuracy"](predictions.outcomes) == pytest.approx(2 / 3)


def test_scores() -> None:
    rows = Dataset.from_dict({"row": [0, 1], "label": [1.0, 4.0]})
    predictions = judge(get_task("stsb"), rows, Dataset.from_dict({"row": [1, 0]}), np.array([[3.5], [1.5]]))
    assert predictions.values == [1.5, 3.5]


def test_tags_of_words() -> None:
    names = ["O", "B-PER", "I-PER"]
    features = Features({"row": Value("int64"), "tags": List(ClassLabel(names=names))})
    rows = Dataset.from_dict({"row": [0], "tags": [[1, 2, 0]]}, features=features)
    # [CLS], two words of which the first has two pieces, [SEP]; the third word was cut off.
    encoded = Dataset.from_dict({"row": [0], "word_ids": [[-1, 0, -1, 1, -1]]})
    logits = np.zeros((1, 8, 3))
    logits[0, 1, 1] = logits[0, 3, 2] = 5
    logits[0, 2, 0] = logits[0, 7, 1] = 9  # a later piece and padding have no say
    predictions = judge(get_task("token-classification"), rows, encoded, logits)
    assert predictions.values == [["B-PER", "I-PER", "O"]]
    assert predictions.outcomes.tolist() == [[1, 1, 1]]


def questions(golds: list[list[str]]) -> Dataset:
    return Dataset.from_list(
        [
            {
                "row": index,
                "context": "cat dog",
                "answers": {"text": texts, "answer_start": [0] * len(texts)},
            }
            for index, texts in enumerate(golds)
        ],
        features=Features(
            {
                "row": Value("int64"),
                "context": Value("string"),
                "answers": {"text": List(Value("string")), "answer_start": List(Value("int64"))},
            }
        ),
    )


# One window a question: [CLS] cat dog. Margins (null − best span) are −2, 1 and 3.
WINDOWS = Dataset.from_dict(
    {"row": [0, 1, 2], "offset_starts": [[-1, 0, 4]] * 3, "offset_ends": [[-1, 3, 7]] * 3}
)
STARTS = np.array([[0.0, 1, 0], [1.5, 1, 0], [2.5, 1, 0]])
ENDS = np.array([[0.0, 1, 0], [1.5, 1, 0], [2.5, 1, 0]])


def test_version_1_always_answers() -> None:
    predictions = judge(get_task("squad"), questions([["cat"], ["cat"], ["dog"]]), WINDOWS, (STARTS, ENDS))
    assert predictions.values == ["cat", "cat", "cat"]
    assert predictions.outcomes[:, 0].tolist() == [1, 1, 0]
    assert predictions.details == {}


def test_version_2_leaves_answers_out() -> None:
    predictions = judge(get_task("squad2"), questions([["cat"], ["cat"], []]), WINDOWS, (STARTS, ENDS))
    assert predictions.values == ["cat", "", ""]
    assert predictions.outcomes.tolist() == [[1, 1, 1], [0, 0, 1], [1, 1, 0]]
    details = predictions.details
    assert details["has_answer_f1"] == 0.5
    assert details["no_answer_exact_match"] == 1.0
    # With a threshold of 1 the second question is answered too, and all three are right.
    assert details["best_f1"] == 1.0
    assert details["best_f1_threshold"] == 1.0


def test_the_best_threshold_gives_the_best_f1() -> None:
    golds = questions([["dog"], ["cat"], []])
    details = judge(get_task("squad2"), golds, WINDOWS, (STARTS, ENDS)).details
    by_hand = {
        # threshold: answered questions → F1
        -3: (0 + 0 + 1) / 3,
        -2: (0 + 0 + 1) / 3,
        1: (0 + 1 + 1) / 3,
        3: (0 + 1 + 0) / 3,
    }
    assert details["best_f1"] == pytest.approx(max(by_hand.values()))
    assert details["best_f1_threshold"] == 1.0
