"""What a caller gives, as the fields of a row, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from understudy.data.tasks import KindName
from understudy.errors import DataError

Row = dict[str, Any]
# A text of this many characters takes about half a gigabyte while it is tokenised.
MAX_CHARACTERS = 2_000_000


def read_row(given: Any, kind: KindName, fields: Sequence[str]) -> Row:
    """The fields of one input: a string, several strings in the fields' order, or a mapping.

    Tags are given to words: a text is split at spaces and punctuation, and `words` are taken as they are.
    """
    row = by_name(given, kind, fields)
    unknown = sorted(set(row) - set(fields) - ({"text"} if kind == "token-classification" else set()))
    if unknown:
        raise DataError(
            f"a row must have {' and '.join(fields)} and nothing else; got {', '.join(map(str, row))}."
        )
    if kind == "token-classification":
        return _with_words(row)
    if kind == "multiple-choice":
        row.setdefault("question", "")
    for name in fields:
        if name not in row:
            raise DataError(f"a row must have {' and '.join(fields)}; {name} is missing.")
        if name == "choices":
            row[name] = _strings(row[name], name)
            if not row[name]:
                raise DataError("choices must have one at least.")
        else:
            check_text(row[name], name)
    return row


def by_name(given: Any, kind: KindName, fields: Sequence[str]) -> Row:
    """What was given, under the names of its fields."""
    if isinstance(given, Mapping):
        return dict(given)
    if isinstance(given, str):
        return {"text": given} if kind == "token-classification" else {fields[0]: given}
    if isinstance(given, Sequence) and not isinstance(given, bytes):
        if kind == "token-classification":
            return {"words": given}
        if kind == "multiple-choice":
            return (
                {"context": given[0], "question": given[1], "choices": list(given[2:])} if given[2:] else {}
            )
        if len(given) != len(fields):
            raise DataError(f"a row has {len(fields)} texts ({', '.join(fields)}); got {len(given)}.")
        return dict(zip(fields, given, strict=True))
    raise DataError(
        f"a row must be a string, a tuple or a mapping of {', '.join(fields)}; got {type(given).__name__}."
    )


def _with_words(row: Row) -> Row:
    """Words and where they stand: characters of the text, or places among the words."""
    if "words" in row:
        words = _strings(row["words"], "words")
        return {"words": words, "spans": [(place, place + 1) for place in range(len(words))], "text": None}
    text = row.get("text")
    check_text(text, "text")
    return {"words": (), "spans": (), "text": text}


def _strings(given: Any, name: str) -> list[str]:
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Sequence):
        raise DataError(f"{name} must be a list of strings; got {type(given).__name__}.")
    for one in given:
        check_text(one, name)
    if sum(map(len, given)) > MAX_CHARACTERS:
        raise DataError(f"{name} must have at most {MAX_CHARACTERS:,} characters together. Cut them.")
    return list(given)


def check_text(text: Any, name: str) -> None:
    """Refuse what cannot be tokenised, with the reason."""
    if not isinstance(text, str):
        raise DataError(f"{name} must be a string; got {type(text).__name__}.")
    if len(text) > MAX_CHARACTERS:
        raise DataError(f"{name} must have at most {MAX_CHARACTERS:,} characters; got {len(text):,}. Cut it.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"{name} has half of a surrogate pair at character {error.start}, which is no text. Repair it "
            "with text.encode('utf-16', 'surrogatepass').decode('utf-16', 'replace')."
        ) from None
