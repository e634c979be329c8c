"""Which column of a user's file is which: as the recipe says, else by its name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from understudy.data.tasks import KINDS, KindName
from understudy.errors import DataError

# Names seen in published files, most telling first.
_USUAL: Mapping[str, tuple[str, ...]] = {
    "text": (
        "text", "sentence", "sentence1", "premise", "question1", "text1", "review", "content",
        "document", "body", "message", "comment", "tweet", "title", "utterance", "query",
    ),
    "text_pair": ("text_pair", "sentence2", "hypothesis", "question2", "text2"),
    "label": (
        "label", "labels", "class", "category", "target", "sentiment", "intent", "gold_label",
        "score", "rating", "y", "answer",
    ),
    "id": ("id", "qid", "question_id"),
    "question": ("question", "query"),
    "context": ("context", "passage", "article", "paragraph", "sent1", "ctx"),
    "answers": ("answers",),
    "choices": ("choices", "options", "endings"),
    "words": ("words", "tokens"),
    "tags": ("tags", "ner_tags", "labels", "pos_tags"),
}  # fmt: skip


def guess_columns(
    kind: KindName,
    given: Mapping[str, str | int],
    available: Sequence[str | int],
    source: str,
) -> tuple[dict[str, str | int], bool]:
    """Our field to the source's column, and whether any of it was guessed.

    Args:
        given: what the recipe or the task's layout says; a field named there is not guessed.
        available: the source's columns.
    """
    for name, column in given.items():
        if column not in available:
            raise DataError(
                f"{source}: there is no column {column!r} for {name}; there are {_shown(available)}. Name "
                f"another with data.columns.{name}, or check that this split has it."
            )
    columns = dict(given)
    fields = KINDS[kind].required + KINDS[kind].optional
    lower = {str(column).lower(): column for column in available}
    # A given text column is not joined by a guessed pair: the second text would come unasked.
    skipped = {"text_pair"} if "text" in given else set()
    for name in fields:
        if name in columns or name in skipped:
            continue
        free = [lower[usual] for usual in _USUAL[name] if usual in lower]
        found = next((column for column in free if column not in columns.values()), None)
        if found is not None:
            columns[name] = found
    missing = [name for name in KINDS[kind].required if name not in columns]
    rest = [column for column in available if column not in columns.values()]
    if len(missing) == 1 and len(available) == 2 and len(rest) == 1:
        columns[missing[0]] = rest[0]  # of two columns the other one
        missing = []
    if missing:
        if len(available) == 1 and any(mark in str(available[0]) for mark in ",;|\t"):
            raise DataError(
                f"{source}: only one column was found, {available[0]!r}. A .csv is read with commas, "
                "semicolons or tabs, a .tsv with tabs: rename the file, or save it with one of these."
            )
        named = " ".join(f"--set data.columns.{name}=NAME" for name in missing)
        raise DataError(
            f"{source}: cannot tell which column is {' and '.join(missing)}; there are "
            f"{_shown(available)}. Say it: {named}. If the file has no header, number its columns from 0: "
            "--set 'data.columns={text: 0, label: 1}'"
        )
    guessed = any(column != name for name, column in columns.items() if name not in given)
    return columns, guessed


def _shown(columns: Sequence[str | int]) -> str:
    return ", ".join(repr(column) for column in columns) or "no columns"
