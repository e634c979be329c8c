"""Inputs of a predictor, checked and turned into the fields of a row, without torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from understudy.data.kind import Row
from understudy.errors import DataError

# Tokenising a text of this many characters takes about half a gigabyte.
MAX_CHARACTERS = 2_000_000


def is_several(inputs: Any) -> bool:
    """Return whether a caller gives several inputs: a list, a column of a frame, an array, any iterable."""
    if hasattr(inputs, "columns"):
        raise DataError(
            "a table must be given by its column, e.g. predict(frame['text']), or by its rows, e.g. "
            "predict(frame[['text', 'text_pair']].to_dict('records'))."
        )
    return isinstance(inputs, Iterable) and not isinstance(inputs, str | bytes | tuple | Mapping)


def name_fields(given: Any, fields: Sequence[str], *, also: Sequence[str] = ()) -> Row:
    """Return an input by field: a string, several strings in the order of the fields, or a mapping.

    Args:
        also: other fields that a mapping may have.
    """
    if isinstance(given, Mapping):
        row = dict(given)
        if set(row) - {*fields, *also}:
            raise DataError(
                f"a row must have {' and '.join(fields)} and nothing else; got {', '.join(map(str, row))}."
            )
        return row
    if isinstance(given, str):
        return {fields[0]: given}
    if isinstance(given, Sequence) and not isinstance(given, bytes):
        if len(given) != len(fields):
            texts = f"{len(fields)} text{'s' * (len(fields) != 1)} ({', '.join(fields)})"
            raise DataError(f"a row must have {texts}; got {len(given)}.")
        return dict(zip(fields, given, strict=True))
    raise DataError(
        f"a row must be a string, a tuple or a mapping of {', '.join(fields)}; got {type(given).__name__}."
    )


def check_strings(given: Any, name: str) -> list[str]:
    """Check that the value is a list of valid strings that are not too long together."""
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Sequence):
        raise DataError(f"{name} must be a list of strings; got {type(given).__name__}.")
    for one in given:
        check_given(one, name)
    if sum(map(len, given)) > MAX_CHARACTERS:
        raise DataError(f"{name} must have at most {MAX_CHARACTERS:,} characters together. Cut them.")
    return list(given)


def check_given(text: Any, name: str) -> None:
    """Refuse a text that cannot be tokenised, with the reason."""
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
