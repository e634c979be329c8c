"""Encodings as the columns of encoded rows; no torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tokenizers import Encoding

# The label of tokens that carry none.
IGNORED_LABEL = -100


def model_columns(encodings: Sequence[Encoding], names: Sequence[str]) -> dict[str, list[Any]]:
    """What a model is called with, but for the attention mask: rows have no padding."""
    columns: dict[str, list[Any]] = {"input_ids": [encoding.ids for encoding in encodings]}
    if "token_type_ids" in names:
        columns["token_type_ids"] = [encoding.type_ids for encoding in encodings]
    return columns


def with_lengths(encoded: dict[str, list[Any]], rows: Sequence[int]) -> dict[str, list[Any]]:
    """Encoded rows with the number of their source row and their length."""
    encoded["row"] = list(rows)
    encoded["length"] = [len(ids) for ids in encoded["input_ids"]]
    return encoded
