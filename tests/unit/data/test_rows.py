from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from understudy.data.raw_rows import Problem, RawRow
from understudy.data.rows import PLACES_KEPT, RowReport, check_row, label_ids
from understudy.kinds import get_kind
from understudy.kinds.token_classification.rows import to_iob2

TYPES = st.sampled_from(["PER", "ORG"])
IOB = st.lists(st.one_of(st.just("O"), TYPES.map("B-{}".format), TYPES.map("I-{}".format)), max_size=12)


def spans(tags: list[str]) -> list[tuple[int, int, str]]:
    """Entities by IOB1's rules, which read IOB2 as well: B- always starts, I- goes on with its own type."""
    found: list[tuple[int, int, str]] = []
    for index, tag in enumerate(tags):
        if tag == "O":
            continue
        if found and tag[0] == "I" and found[-1][1] == index and found[-1][2] == tag[2:]:
            found[-1] = (found[-1][0], index + 1, tag[2:])
        else:
            found.append((index, index + 1, tag[2:]))
    return found


@given(IOB)
def test_iob2_has_the_same_entities_and_each_begins_with_b(tags: list[str]) -> None:
    converted = to_iob2(tags)
    assert spans(converted) == spans(tags)
    assert all(converted[start].startswith("B-") for start, _, _ in spans(tags))
    assert to_iob2(converted) == converted


def test_adjacent_entities_of_one_type_stay_apart() -> None:
    assert to_iob2(["I-PER", "B-PER", "I-PER"]) == ["B-PER", "B-PER", "I-PER"]


def test_adjacent_entities_of_two_types() -> None:
    assert to_iob2(["I-PER", "I-ORG", "I-ORG"]) == ["B-PER", "B-ORG", "I-ORG"]


def test_labels_by_name_or_number() -> None:
    assert label_ids(["negative", "positive"]) == {"negative": 0, "positive": 1, "0": 0, "1": 1}


def test_another_order_changes_ids_and_not_what_a_number_means() -> None:
    ids = label_ids(["positive", "negative"], numbering=["negative", "positive"])
    assert (ids["positive"], ids["1"]) == (0, 0)
    assert (ids["negative"], ids["0"]) == (1, 1)


def test_other_capitals_are_understood_where_they_are_clear() -> None:
    columns = {"text": "s", "label": "y"}
    row = check_row(
        get_kind("classification"),
        RawRow("", {"s": "x", "y": "NEGATIVE"}),
        columns,
        label_ids(["Negative", "b"]),
    )
    assert row == {"text": "x", "label": 0}
    assert isinstance(
        check_row(
            get_kind("classification"), RawRow("", {"s": "x", "y": "aa"}), columns, label_ids(["Aa", "aA"])
        ),
        Problem,
    )


def test_labels_that_are_numbers_are_names_only() -> None:
    # A file with labels 1 and 2: "1" is its name and not the second label's number.
    assert label_ids(["1", "2"]) == {"1": 0, "2": 1}


def test_text_is_kept_to_the_letter() -> None:
    raw = RawRow("line 2", {"s": "  two  spaces ", "y": "1"})
    row = check_row(get_kind("classification"), raw, {"text": "s", "label": "y"}, {"1": 0})
    assert row == {"text": "  two  spaces ", "label": 0}


def test_whole_floats_are_labels() -> None:
    raw = RawRow("row 0", {"s": "x", "y": 1.0})
    assert check_row(get_kind("classification"), raw, {"text": "s", "label": "y"}, {"0": 0, "1": 1}) == {
        "text": "x",
        "label": 1,
    }


def test_a_question_without_answers_is_a_row() -> None:
    values = {"question": "Why?", "context": "A cat.", "answers": {"text": [], "answer_start": []}}
    row = check_row(
        get_kind("question-answering"), RawRow("row 0", values), {name: name for name in values}, None
    )
    assert isinstance(row, dict)
    assert row["answers"] == {"text": [], "answer_start": []}


def test_report_counts_all_and_keeps_few_places() -> None:
    report = RowReport("file.tsv", num_read=100)
    for line in range(100):
        report.add(f"line {line}", Problem("empty text", "text is empty"))
    assert report.problems == {"empty text": 100}
    assert len(report.places["empty text"]) == PLACES_KEPT
    assert "100 of 100" in report.describe()
    assert "… and 95 more" in report.describe()
