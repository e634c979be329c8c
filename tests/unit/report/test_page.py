"""Pages of made-up results: what a text, a token or a number may do to them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from understudy.kinds import get_kind
from understudy.report import page
from understudy.report.charts import attention_pair, bars, intervals, loss_curves, scatter, scores

TEXT = get_kind("classification")
ROW = {"split": "dev", "row": 0, "text": 'a <b> & "c"', "label": "pos", "prediction": "neg", "against": "pos"}


def test_texts_are_shown_and_not_run() -> None:
    shown = page._disagreements([ROW], TEXT)
    assert "a &lt;b&gt; &amp; &quot;c&quot;" in shown
    assert "<b>" not in shown


def test_rows_that_the_teacher_has_right_come_first() -> None:
    both_wrong = ROW | {"text": "second", "against": "other", "prediction": "third"}
    shown = page._disagreements([both_wrong, ROW, ROW | {"prediction": "pos", "text": "agreed"}], TEXT)
    assert shown.index("a &lt;b&gt;") < shown.index("second")
    assert "agreed" not in shown
    assert "2 of 3 rows" in shown


def test_every_kind_of_row_can_be_shown() -> None:
    rows = {
        "question-answering": {
            "question": "who",
            "context": "anna runs",
            "answers": {"text": ["anna"], "answer_start": [0]},
            "prediction": "",
            "against": "anna",
        },
        "multiple-choice": {
            "context": "c",
            "question": None,
            "choices": ["x", "y"],
            "label": 0,
            "prediction": 1,
            "against": 0,
        },
        "token-classification": {
            "words": ["anna"],
            "tags": ["B-PER"],
            "prediction": ["O"],
            "against": ["B-PER"],
        },
        "multi-label": {"text": "a", "label": ["x", "y"], "prediction": [], "against": ["x"]},
        "regression": {"text": "a", "text_pair": "b", "label": 2.5, "prediction": 1.0, "against": 2.25},
    }
    for name, row in rows.items():
        assert page._disagreements([{"split": "dev", **row}], get_kind(name)), name
    shown = page._disagreements([{"split": "dev", **rows["regression"]}], get_kind("regression"))
    assert "<td>2.25</td><td>1.00</td>" in shown


def test_tokens_are_no_formulas() -> None:
    matrix = np.eye(3)
    made = attention_pair(matrix, matrix, ["$$", "a_b$", "<c>"])
    assert set(made) == {"teacher", "student"}
    assert "$$" in made["teacher"]
    assert "&lt;c&gt;" in made["teacher"]


def test_curves_of_every_layer(tmp_path: Path) -> None:
    file = tmp_path / "losses.csv"
    file.write_text("step,epoch,loss,embeddings,hidden_1,hidden_2\n5,1,3,1,1,100\n10,2,2,0.5,0.5,0.1\n")
    made = loss_curves(file)
    assert list(made) == ["embeddings", "hidden"]
    assert "layer 2" in made["hidden"]
    file.write_text("step,epoch,loss,embeddings\n5,1,3,1\n")
    assert loss_curves(file) == {}  # a dot is no curve


def test_scores_are_drawn_from_zero() -> None:
    """An axis cut off at 0.8 would make two points look like a collapse."""
    figures = [{"value": 0.9, "low": 0.85, "high": 0.95}, {"value": -0.1, "low": -0.2, "high": 0.0}]
    made = scores(["teacher", "student, int8"], figures, metric="matthews")
    assert 'aria-label="matthews with 95 % intervals"' in made
    assert all(f">{text}<" in made for text in ("0", "0.25", "1", "0.900", "-0.100"))


def test_pictures_have_labels_and_ids_of_their_own() -> None:
    first = bars(["teacher", "student"], [10.0, 1.0], unit="ms", title="one text")
    second = scatter([0.0, 1.0], [0.1, 0.9], [0.0, 1.0])
    assert 'aria-label="one text"' in first
    assert "10.0 ms" in first
    assert first == bars(["teacher", "student"], [10.0, 1.0], unit="ms", title="one text")
    ids = [{part.split('"')[0] for part in one.split('id="')[1:]} for one in (first, second)]
    assert not ids[0] & ids[1]


@pytest.mark.parametrize("tasks", [("sst2",), ("sst2", "mrpc", "rte")])
def test_intervals_have_a_panel_for_each_task(tasks: tuple[str, ...]) -> None:
    rows = [(task, name, 0.5, 0.4, 0.6) for task in tasks for name in ("full", "less")]
    metrics = {"sst2": "accuracy", "mrpc": "f1", "rte": "accuracy"}
    figure = intervals(rows, metrics=metrics, title="a table")
    assert [axes.get_xlabel() for axes in figure.axes] == [metrics[task] for task in tasks]
