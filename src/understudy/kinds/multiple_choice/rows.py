"""Rows of multiple choice: a context, optionally a question, and choices, one of which is correct."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from understudy.data.decode import softmax
from understudy.data.encodings import several_columns
from understudy.data.kind import Batch, ColumnType, Encoded, Logits, Prediction, Reading, Row, RowKind
from understudy.data.rows import BadRowError, check_text, label_id
from understudy.data.tokens import TextReader
from understudy.errors import DataError
from understudy.kinds.given import check_given, check_strings, name_fields


class MultipleChoiceRows(RowKind):
    """The best of several choices."""

    name = "multiple-choice"
    auto_class = "AutoModelForMultipleChoice"
    pipeline = "multiple-choice"
    accepts_predictions = True
    required = ("context", "choices", "label")
    optional = ("question",)
    inputs = ("context", "question", "choices")
    usual_columns: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "context": ("context", "passage", "article", "paragraph", "sent1", "ctx"),
        "question": ("question", "query"),
        "choices": ("choices", "options", "endings"),
        "label": (
            "label", "labels", "class", "category", "target", "sentiment", "intent", "gold_label",
            "score", "rating", "y", "answer",
        ),
    }  # fmt: skip
    list_fields = ("choices",)
    equal_lists = ("choices",)
    takes_all_texts = True
    metrics = ("accuracy",)
    max_length = 512
    example = '{"context": "…", "question": "…", "choices": ["one", "two"]}'

    def columns(self, fields: Collection[str]) -> dict[str, ColumnType]:
        return {"context": "text", "question": "text", "choices": ["text"], "label": "integer"}

    def check(self, values: Mapping[str, Any], ids: Mapping[str, int] | None) -> Row:
        choices = values["choices"]
        if not isinstance(choices, Sequence) or isinstance(choices, str) or len(choices) < 2:
            raise BadRowError("choices have the wrong form", "choices must be a list of at least two texts")
        # RACE labels are A, B, C, D; others are 0, 1, 2, 3.
        names = {chr(ord("A") + index): index for index in range(len(choices))}
        names |= {str(index): index for index in range(len(choices))}
        return {
            "context": check_text(values["context"], "context"),
            # Without a question, the choice continues the context.
            "question": check_text(values["question"], "question") if values.get("question") else "",
            "choices": [check_text(choice, f"choice {index}") for index, choice in enumerate(choices)],
            "label": label_id(values["label"], names),
        }

    def encode(
        self, batch: Batch, reader: TextReader, names: Sequence[str], labels: Sequence[str] | None = None
    ) -> Encoded:
        """Encode each choice with the context; `input_ids` has one list per choice."""
        questions = zip(batch["context"], batch["question"], batch["choices"], strict=True)
        encoded = several_columns([reader.choices(*question) for question in questions], names)
        return {**encoded, "labels": batch["label"], "row": list(batch["row"])}

    def parse(self, given: Any, fields: Sequence[str]) -> Row:
        if isinstance(given, Sequence) and not isinstance(given, str | bytes | Mapping) and len(given) > 2:
            # From the shell all are strings: the context, the question, and as many choices as there are.
            choices = given[2] if isinstance(given[2], list) and len(given) == 3 else list(given[2:])
            given = {"context": given[0], "question": given[1], "choices": choices}
        row = {"question": "", **name_fields(given, fields)}
        for name in ("context", "question"):
            if name not in row:
                raise DataError(f"a row must have {' and '.join(fields)}; {name} is missing.")
            check_given(row[name], name)
        if "choices" not in row:
            raise DataError(f"a row must have {' and '.join(fields)}; choices is missing.")
        row["choices"] = check_strings(row["choices"], "choices")
        if not row["choices"]:
            raise DataError("choices must have one at least.")
        return row

    def num_texts(self, row: Row) -> int:
        return len(row["choices"])

    def read(self, rows: Sequence[Row], reader: TextReader, fields: Sequence[str]) -> Iterable[Reading]:
        return [Reading(row, reader.choices(row["context"], row["question"], row["choices"])) for row in rows]

    def decode(
        self, reading: Reading, logits: Logits, labels: Sequence[str], *, unanswerable: bool
    ) -> Prediction:
        probabilities = softmax(np.array([one[0].reshape(-1)[0] for one in logits]))
        best = int(probabilities.argmax())
        return {"choice": best, "score": float(probabilities[best]), "probabilities": probabilities.tolist()}

    def show(self, prediction: Prediction) -> str:
        return f"{prediction['choice']}\t{prediction['score']:.3f}"


ROWS = MultipleChoiceRows()
