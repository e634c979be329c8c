"""Encodings as columns of encoded rows, without torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tokenizers import Encoding

# The label of tokens to ignore.
IGNORED_LABEL = -100
# A column that says whether a row was longer than the limit.
TRUNCATED = "truncated"


def model_columns(encodings: Sequence[Encoding], names: Sequence[str]) -> dict[str, list[Any]]:
    """Return the model inputs without the attention mask, since rows have no padding."""
    columns: dict[str, list[Any]] = {"input_ids": [encoding.ids for encoding in encodings]}
    if "token_type_ids" in names:
        columns["token_type_ids"] = [encoding.type_ids for encoding in encodings]
    return columns


def are_truncated(encodings: Sequence[Encoding]) -> list[bool]:
    """Return for each encoding whether tokens were cut off."""
    return [bool(encoding.overflowing) for encoding in encodings]


def several_columns(rows: Sequence[Sequence[Encoding]], names: Sequence[str]) -> dict[str, list[Any]]:
    """Return the columns of rows with several encodings each: `input_ids` has a list for each of them."""
    made = [model_columns(encodings, names) for encodings in rows]
    columns: dict[str, list[Any]] = {name: [row[name] for row in made] for name in made[0]}
    columns[TRUNCATED] = [any(are_truncated(encodings)) for encodings in rows]
    columns["length"] = [max(map(len, lists)) for lists in columns["input_ids"]]
    return columns


def with_lengths(encoded: dict[str, list[Any]], rows: Sequence[int]) -> dict[str, list[Any]]:
    """Add the source row number and the length to encoded rows."""
    encoded["row"] = list(rows)
    encoded["length"] = [len(ids) for ids in encoded["input_ids"]]
    return encoded
