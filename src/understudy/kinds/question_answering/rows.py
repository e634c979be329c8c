"""Rows of extractive question answering: a question, a context, and answer spans in it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from understudy.data.decode import best_answer
from understudy.data.encodings import model_columns, with_lengths
from understudy.data.kind import Batch, ColumnType, Encoded, Logits, Prediction, Reading, Row, RowKind
from understudy.data.rows import BadRowError, check_text
from understudy.data.tokens import TextReader, Window
from understudy.errors import DataError
from understudy.kinds.given import check_given, name_fields


class QuestionAnsweringRows(RowKind):
    """An answer span in the context, or no answer."""

    name = "question-answering"
    has_plain_labels = False
    auto_class = "AutoModelForQuestionAnswering"
    pipeline = "question-answering"
    required = ("question", "context", "answers")
    optional = ("id",)
    inputs = ("question", "context")
    usual_columns: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "id": ("id", "qid", "question_id"),
        "question": ("question", "query"),
        "context": ("context", "passage", "article", "paragraph", "sent1", "ctx"),
        "answers": ("answers",),
    }
    label_field = "answers"
    has_windows = True
    outputs = ("start_logits", "end_logits")
    is_per_token = True
    metrics = ("squad_f1", "exact_match")
    max_length = 384
    unanswerable = True
    example = '("Who?", "A text with an answer.")'

    def columns(self, fields: Collection[str]) -> dict[str, ColumnType]:
        answers: dict[str, ColumnType] = {"text": ["text"], "answer_start": ["integer"]}
        return {"id": "text", "question": "text", "context": "text", "answers": answers}

    def check(self, values: Mapping[str, Any], ids: Mapping[str, int] | None) -> Row:
        context = check_text(values["context"], "context")
        answers = values["answers"]
        texts, starts = (
            (answers.get("text"), answers.get("answer_start"))
            if isinstance(answers, Mapping)
            else (None, None)
        )
        if not isinstance(texts, list) or not isinstance(starts, list):
            raise BadRowError("answers have the wrong form", "answers must be {text: […], answer_start: […]}")
        if len(texts) != len(starts):
            raise BadRowError(
                "answers have the wrong form", f"has {len(texts)} answers and {len(starts)} starts"
            )
        for text, start in zip(texts, starts, strict=True):
            check_text(text, "answer")
            if not isinstance(start, int) or start < 0 or context[start : start + len(text)] != text:
                raise BadRowError(
                    "answer is not at its place", f"{text!r} is not in the context at character {start}"
                )
        return {
            "id": str(values.get("id", "")),
            "question": check_text(values["question"], "question"),
            "context": context,
            "answers": {"text": texts, "answer_start": starts},
        }

    def placeholder(self, values: Mapping[str, Any], ids: Mapping[str, int] | None) -> Any:
        return {"text": [], "answer_start": []}

    def encode(
        self, batch: Batch, reader: TextReader, names: Sequence[str], labels: Sequence[str] | None = None
    ) -> Encoded:
        """Encode long contexts as overlapping windows.

        A window that does not contain the whole first answer has the first token ([CLS]) as its target, like
        a question without an answer.
        """
        windows = list(reader.questions(batch["question"], batch["context"]))
        encoded = model_columns([window.encoding for window in windows], names)
        targets = [_answer_tokens(batch["answers"][one.question], one.starts, one.ends) for one in windows]
        encoded |= {
            "start_positions": [start for start, _ in targets],
            "end_positions": [end for _, end in targets],
            "offset_starts": [window.starts for window in windows],
            "offset_ends": [window.ends for window in windows],
        }
        return with_lengths(encoded, [batch["row"][window.question] for window in windows])

    def parse(self, given: Any, fields: Sequence[str]) -> Row:
        row = name_fields(given, fields)
        for name in fields:
            if name not in row:
                raise DataError(f"a row must have {' and '.join(fields)}; {name} is missing.")
            check_given(row[name], name)
        return row

    def read(self, rows: Sequence[Row], reader: TextReader, fields: Sequence[str]) -> Iterable[Reading]:
        windows: list[list[Window]] = [[] for _ in rows]
        for window in reader.questions(*([row[name] for row in rows] for name in self.inputs)):
            windows[window.question].append(window)
        return [
            Reading(row, [window.encoding for window in own], own)
            for row, own in zip(rows, windows, strict=True)
        ]

    def decode(
        self, reading: Reading, logits: Logits, labels: Sequence[str], *, unanswerable: bool
    ) -> Prediction:
        answer = best_answer(
            (starts, ends, window.starts, window.ends)
            for (starts, ends), window in zip(logits, reading.details, strict=True)
        )
        is_null = not np.isfinite(answer.score) or (unanswerable and answer.is_null())
        start, end = (0, 0) if is_null else (answer.start, answer.end)
        content = {
            "answer": reading.row["context"][start:end],
            "start": start,
            "end": end,
            "score": answer.null_score if is_null else answer.score,
        }
        return content | ({"has_answer": not is_null} if unanswerable else {})

    def show(self, prediction: Prediction) -> str:
        return f"{prediction['answer']}\t{prediction['start']}\t{prediction['end']}"


def _answer_tokens(
    answers: Mapping[str, list[Any]], starts: Sequence[int], ends: Sequence[int]
) -> tuple[int, int]:
    """Return the first and last token of the first answer, or (0, 0) if it is not wholly in the window."""
    if not answers["text"]:
        return 0, 0
    first_character = answers["answer_start"][0]
    last_character = first_character + len(answers["text"][0])
    inside = [
        token
        for token, (start, end) in enumerate(zip(starts, ends, strict=True))
        if start >= 0 and end > first_character and start < last_character
    ]
    if not inside or starts[inside[0]] > first_character or ends[inside[-1]] < last_character:
        return 0, 0
    return inside[0], inside[-1]


ROWS = QuestionAnsweringRows()
