"""Judge raw rows: what is usable becomes a clean row with fixed columns, what is not is counted.

Fixed columns by kind (`row` is the position among the rows of the source, counted from 0):

    classification, regression   row, text, [text_pair,] label
    question-answering           row, id, question, context, answers {text, answer_start}
    multiple-choice              row, context, question, choices, label
    token-classification         row, words, tags
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from datasets import ClassLabel, Features, List, Value

from understudy.data.labels import fold
from understudy.data.readers import Problem, RawRow
from understudy.data.settings import MAX_CHARACTERS
from understudy.data.tasks import KindName
from understudy.errors import DataError

# How many places of each problem are kept for the report: enough to look at, bounded in memory.
PLACES_KEPT = 5


class BadRowError(Exception):
    """Raised by the checks below and turned into a `Problem` by `check_row`."""

    def __init__(self, name: str, detail: str) -> None:
        super().__init__(detail)
        self.problem = Problem(name, detail)


@dataclass
class RowReport:
    """How many rows were read, kept and bad, and where the bad ones are."""

    source: str
    num_read: int = 0
    num_kept: int = 0
    problems: dict[str, int] = field(default_factory=dict)
    places: dict[str, list[str]] = field(default_factory=dict)
    num_used: int | None = None  # where data.max_rows takes fewer than were kept

    @property
    def num_bad(self) -> int:
        return self.num_read - self.num_kept

    def add(self, where: str, problem: Problem) -> None:
        self.problems[problem.name] = self.problems.get(problem.name, 0) + 1
        places = self.places.setdefault(problem.name, [])
        if len(places) < PLACES_KEPT:
            places.append(f"{where}: {problem.detail}")

    def describe(self) -> str:
        """For people: each problem, how often, and the first places."""
        lines = [f"{self.source}: {self.num_bad:,} of {self.num_read:,} rows are bad"]
        for name, count in sorted(self.problems.items(), key=lambda item: -item[1]):
            lines.append(f"  {name} ({count:,})")
            lines.extend(f"    {place}" for place in self.places[name])
            if count > len(self.places[name]):
                lines.append(f"    … and {count - len(self.places[name]):,} more")
        return "\n".join(lines)


def row_features(kind: KindName, labels: Sequence[str] | None, *, pair: bool) -> Features:
    """The columns of a checked dataset."""
    columns: dict[str, Any] = {"row": Value("int64")}
    text = Value("string")
    if kind in ("classification", "regression"):
        columns["text"] = text
        if pair:
            columns["text_pair"] = text
        columns["label"] = ClassLabel(names=list(labels)) if labels else Value("float64")
    elif kind == "question-answering":
        columns |= {
            "id": text,
            "question": text,
            "context": text,
            "answers": {"text": List(text), "answer_start": List(Value("int64"))},
        }
    elif kind == "multiple-choice":
        columns |= {
            "context": text,
            "question": text,
            "choices": List(text),
            "label": Value("int64"),
        }
    else:
        columns |= {"words": List(text), "tags": List(ClassLabel(names=list(labels or ())))}
    return Features(columns)


def _text(value: Any, name: str) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        raise BadRowError("null text", f"{name} is null")
    if not isinstance(value, str):
        raise BadRowError("text is not a string", f"{name} must be text, got {type(value).__name__}")
    if not value.strip():
        raise BadRowError("empty text", f"{name} is empty")
    if len(value) > MAX_CHARACTERS:
        raise BadRowError(
            "text too long", f"{name} has {len(value):,} characters, at most {MAX_CHARACTERS:,}"
        )
    if "\x00" in value:
        raise BadRowError("NUL byte", f"{name} has a NUL byte at character {value.index(chr(0))}")
    if not value.isascii():
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            # surrogateescape puts undecodable bytes at U+DC80–U+DCFF
            if 0xDC80 <= ord(value[error.start]) <= 0xDCFF:
                raise BadRowError(
                    "invalid UTF-8", f"{name} is not UTF-8 at character {error.start}"
                ) from None
            raise BadRowError(
                "lone surrogate", f"{name} has half a character pair at character {error.start}"
            ) from None
    return value


def is_clean(name: str) -> bool:
    """Whether a label's name could stand in a model's config."""
    try:
        _text(name, "label")
    except BadRowError:
        return False
    return True


def _label(value: Any, ids: Mapping[str, int]) -> int:
    name = label_name(value)
    if not name:
        raise BadRowError("null label", "label is null")
    found = ids.get(name, ids.get(fold(name)))
    if found is None:
        names = list(dict.fromkeys(name for name in ids if not name.isdigit())) or list(ids)
        shown = ", ".join(names[:10]) + (" …" if len(names) > 10 else "")
        raise BadRowError("unknown label", f"label must be one of {shown}; got {name!r}")
    return found


def label_name(value: Any) -> str:
    """A label as text; empty for null. Whole floats are numbers: pandas writes 1.0 beside an empty cell."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip()


def label_ids(labels: Sequence[str], numbering: Sequence[str] | None = None) -> dict[str, int]:
    """Every spelling a file may use for a label, to its id in `labels`.

    A label may be written with other capitals where that is clear, and as a number where names are
    words. The number counts in `numbering`, the order in which the task was published: another order
    of `labels` changes ids, never what a number in a file means.
    """
    ids = {name: index for index, name in enumerate(labels)}
    folded: dict[str, list[int]] = {}
    for name, index in ids.items():
        folded.setdefault(fold(name), []).append(index)
    spellings = {name: found[0] for name, found in folded.items() if len(found) == 1}
    if not any(name.lstrip("-").isdigit() for name in labels):
        spellings |= {str(number): ids[name] for number, name in enumerate(numbering or labels)}
    return spellings | ids


def _score(value: Any) -> float:
    if value is None or value == "":
        raise BadRowError("null label", "the score is null")
    try:
        score = float(value)
    except (TypeError, ValueError):
        raise BadRowError("score is not a number", f"label must be a number, got {value!r}") from None
    if not math.isfinite(score):
        raise BadRowError("score is not finite", f"label must be a finite number, got {value!r}")
    return score


def _check_text(values: Mapping[str, Any], ids: Mapping[str, int] | None) -> dict[str, Any]:
    row: dict[str, Any] = {
        name: _text(values[name], name) for name in ("text", "text_pair") if name in values
    }
    row["label"] = _score(values["label"]) if ids is None else _label(values["label"], ids)
    return row


def _check_answers(values: Mapping[str, Any], _: Mapping[str, int] | None) -> dict[str, Any]:
    context = _text(values["context"], "context")
    answers = values["answers"]
    texts, starts = (
        (answers.get("text"), answers.get("answer_start")) if isinstance(answers, Mapping) else (None, None)
    )
    if not isinstance(texts, list) or not isinstance(starts, list):
        raise BadRowError("answers have the wrong form", "answers must be {text: […], answer_start: […]}")
    if len(texts) != len(starts):
        raise BadRowError("answers have the wrong form", f"has {len(texts)} answers and {len(starts)} starts")
    for text, start in zip(texts, starts, strict=True):
        _text(text, "answer")
        if not isinstance(start, int) or start < 0 or context[start : start + len(text)] != text:
            raise BadRowError(
                "answer is not at its place", f"{text!r} is not in the context at character {start}"
            )
    return {
        "id": str(values.get("id", "")),
        "question": _text(values["question"], "question"),
        "context": context,
        "answers": {"text": texts, "answer_start": starts},
    }


def _check_choices(values: Mapping[str, Any], _: Mapping[str, int] | None) -> dict[str, Any]:
    choices = values["choices"]
    if not isinstance(choices, Sequence) or isinstance(choices, str) or len(choices) < 2:
        raise BadRowError("choices have the wrong form", "choices must be a list of at least two texts")
    # RACE says A, B, C, D; others say 0, 1, 2, 3.
    ids = {chr(ord("A") + index): index for index in range(len(choices))}
    ids |= {str(index): index for index in range(len(choices))}
    return {
        "context": _text(values["context"], "context"),
        # A question may be absent: then the context is continued by the choice.
        "question": _text(values["question"], "question") if values.get("question") else "",
        "choices": [_text(choice, f"choice {index}") for index, choice in enumerate(choices)],
        "label": _label(values["label"], ids),
    }


def to_iob2(tags: Sequence[str]) -> list[str]:
    """IOB1 or IOB2 tags as IOB2: every entity begins with B-. IOB2 comes out as it went in.

    >>> to_iob2(["I-PER", "I-PER", "O", "I-ORG", "B-ORG"])
    ['B-PER', 'I-PER', 'O', 'B-ORG', 'B-ORG']
    """
    result = []
    previous = "O"
    for tag in tags:
        inside = tag.startswith("I-") and previous != "O" and previous[2:] == tag[2:]
        result.append("B-" + tag[2:] if tag.startswith("I-") and not inside else tag)
        previous = tag
    return result


def _check_tags(values: Mapping[str, Any], ids: Mapping[str, int] | None) -> dict[str, Any]:
    words, tags = values["words"], values["tags"]
    if not isinstance(words, list) or not isinstance(tags, list):
        raise BadRowError("words and tags have the wrong form", "words and tags must be lists")
    if not words:
        raise BadRowError("empty text", "the sentence has no words")
    if len(words) != len(tags):
        raise BadRowError("words and tags differ in number", f"has {len(words)} words and {len(tags)} tags")
    for tag in tags:
        if tag != "O" and not (str(tag).startswith(("B-", "I-")) and len(tag) > 2):
            raise BadRowError("unknown label", f"tag must be O, B-… or I-…; got {tag!r}")
    return {
        "words": [_text(word, f"word {index}") for index, word in enumerate(words)],
        "tags": [_label(tag, ids or {}) for tag in to_iob2(tags)],
    }


_CHECKS: Mapping[str, Callable[[Mapping[str, Any], Mapping[str, int] | None], dict[str, Any]]] = {
    "classification": _check_text,
    "regression": _check_text,
    "question-answering": _check_answers,
    "multiple-choice": _check_choices,
    "token-classification": _check_tags,
}


def check_row(
    kind: KindName,
    raw: RawRow,
    columns: Mapping[str, str | int],
    ids: Mapping[str, int] | None,
) -> dict[str, Any] | Problem:
    """A clean row, or why there is none.

    Args:
        columns: our field to the source's column.
        ids: spelling of a label to its id; None for kinds whose labels are not named.
    """
    if raw.problem:
        return raw.problem
    values = {}
    for name, column in columns.items():
        if column not in raw.values:
            return Problem("missing column", f"has no {column!r}, only {sorted(map(str, raw.values))}")
        values[name] = raw.values[column]
    try:
        return _CHECKS[kind](values, ids)
    except BadRowError as bad:
        return bad.problem


def refuse_if_bad(report: RowReport) -> None:
    """Raise with the whole report, and with the way out."""
    if report.num_bad:
        raise DataError(
            f"{report.describe()}\nMend the file, or leave such rows out with --set data.bad_rows=drop."
        )
    if report.num_read == 0:
        raise DataError(f"{report.source}: there are no rows. Check that this is the right file.")
