"""Encode checked rows as model inputs, and collate them into batches.

Rows are stored without padding; `Collator` pads a batch to its longest row. Every encoded row has
`row` (its source row, shared by the windows of one long context) and `length`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import ClassLabel, Dataset, List
from filelock import FileLock
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from understudy.data.encodings import IGNORED_LABEL, TRUNCATED
from understudy.data.kind import RowKind
from understudy.data.tokens import TextReader, padded_width
from understudy.files import is_whole, seal, seal_of

logger = logging.getLogger(__name__)

# Part of every cache key: increase it when the same rows would be encoded differently.
ENCODING_VERSION = 3


def encode(
    rows: Dataset,
    kind: RowKind,
    tokenizer: PreTrainedTokenizerFast,
    *,
    max_length: int,
    stride: int | None = None,
    labelled: bool | None = None,
) -> Dataset:
    """Tokenise checked rows.

    The result is cached on disk next to the rows, under a hash of everything that affects it.

    Args:
        rows: rows from `load_data`.
        max_length, stride: see `TextReader`.
        labelled: add a column `labelled` with this value, for data in which only some rows have labels.
    """
    reader = text_reader(tokenizer, kind, max_length=max_length, stride=stride)
    options = {"max_length": max_length} | ({"stride": reader.stride} if reader.stride else {})
    backend = json.loads(tokenizer.backend_tokenizer.to_str())
    backend |= {"truncation": None, "padding": None}  # left by the last call
    habits = [tokenizer.model_input_names, tokenizer.truncation_side]
    decided_by = [ENCODING_VERSION, rows._fingerprint, kind.name, backend, habits, options]
    decided_by += [] if labelled is None else [labelled]
    fingerprint = hashlib.sha256(json.dumps(decided_by).encode()).hexdigest()[:32]
    given: dict[str, Any] = {"reader": reader, "names": tokenizer.model_input_names}
    labels = rows.features.get(kind.label_field)
    labels = labels.feature if isinstance(labels, List) else labels
    if isinstance(labels, ClassLabel):
        given["labels"] = labels.names

    def encode_batch(batch: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
        encoded = kind.encode(batch, **given)
        if labelled is not None:
            encoded[LABELLED] = [int(labelled)] * len(encoded["row"])
        return encoded

    def encode_rows() -> Dataset:
        return rows.map(
            encode_batch,
            batched=True,
            batch_size=1_000,
            remove_columns=rows.column_names,
            new_fingerprint=fingerprint,
            desc="Tokenising",
        )

    if not rows.cache_files:
        return encode_rows()
    folder = Path(rows.cache_files[0]["filename"]).parent
    return keep_whole(folder / f"cache-{fingerprint}.arrow", encode_rows)


def keep_whole(file: Path, make: Callable[[], Dataset]) -> Dataset:
    """Return the dataset that a function of `datasets` caches in a file; a damaged file is made again."""
    if seal_of(file).exists() and is_whole(file):
        return make()
    # Another process may have made the file but not sealed it yet.
    with _locked(file):
        if file.exists() and not is_whole(file):
            file.unlink(missing_ok=True)
        made = make()
        if file.exists() and not seal_of(file).exists():
            seal(file)
    return made


@contextlib.contextmanager
def _locked(file: Path) -> Iterator[None]:
    """Lock a file against other processes, if the file system supports locks."""
    lock = FileLock(file.with_name(f"{file.name}.lock"))
    try:
        lock.acquire()
    except (OSError, NotImplementedError) as error:  # read-only, or a file system without locks
        logger.debug("no lock for %s: %s", file, error)
    try:
        yield
    finally:
        lock.release()


def text_reader(
    tokenizer: PreTrainedTokenizerFast, kind: RowKind, *, max_length: int, stride: int | None = None
) -> TextReader:
    """Build a text reader from a transformers tokenizer."""
    return TextReader(
        tokenizer.backend_tokenizer,
        windows=kind.has_windows,
        max_length=max_length,
        stride=stride,
        truncation_side=tokenizer.truncation_side,
    )


# Numeric columns that are not labels.
_NOT_LABELS = ("row", "length", TRUNCATED)

# A column that says whether a row has a label, in data in which some have none.
LABELLED = "labelled"
# The tensors of a batch that are passed to an encoder.
ENCODER_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
# Columns with a teacher's logits; token logits have no padding, like the rows themselves.
TEACHER, TEACHER_TOKENS = "teacher_", "teacher_tokens_"
# A column with its hidden states as float32 bytes: the first token's at K layers, for each choice if any.
TEACHER_STATES = "teacher_states"


def special_tokens(tokenizer: PreTrainedTokenizerFast, *, pair: bool = False) -> list[list[int]]:
    """Return the special tokens before, between and after: two lists for one text, three for two."""
    inner = tokenizer("a", add_special_tokens=False)["input_ids"]
    whole = tokenizer("a", "a")["input_ids"] if pair else tokenizer("a")["input_ids"]
    parts: list[list[int]] = [[]]
    place = 0
    while place < len(whole):
        if whole[place : place + len(inner)] == inner:
            parts.append([])
            place += len(inner)
        else:
            parts[-1].append(whole[place])
            place += 1
    return parts


class Collator:
    """A collator that pads rows into a batch of tensors and drops columns that the models do not use.

    Pads on the right, to the longest row of the batch and a multiple of 4.

    Args:
        keep_row: keep the row numbers in the batch, for error messages.
        state_size: the width of a teacher's hidden states, if the rows have them.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerFast,
        *,
        keep_row: bool = False,
        state_size: int = 0,
    ) -> None:
        self.keep_row = keep_row
        self.state_size = state_size
        self.padding = {
            "input_ids": tokenizer.pad_token_id,
            "token_type_ids": tokenizer.pad_token_type_id,
            "attention_mask": 0,
            "labels": IGNORED_LABEL,
        }

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
        names = [name for name in self.padding if name in rows[0] and name != "labels"]
        choices = len(rows[0]["input_ids"]) if _is_nested(rows[0]["input_ids"]) else 0
        flat: dict[str, list[list[int]]] = {
            name: [item for row in rows for item in row[name]] if choices else [row[name] for row in rows]
            for name in names
        }
        if "attention_mask" not in flat:
            flat["attention_mask"] = [[1] * len(ids) for ids in flat["input_ids"]]
        # A list of integers is a label for each token; a list of floats a target for each output, not padded.
        listed = "labels" in rows[0] and isinstance(rows[0]["labels"], list)
        is_per_output = listed and isinstance(rows[0]["labels"][0], float)
        if listed and not is_per_output:
            flat["labels"] = [row["labels"] for row in rows]
        width = padded_width([len(ids) for ids in flat["input_ids"]])
        batch = {
            name: torch.tensor([ids + [self.padding[name]] * (width - len(ids)) for ids in values])
            for name, values in flat.items()
        }
        if choices:
            batch = {name: value.view(len(rows), choices, width) for name, value in batch.items()}
        if is_per_output:
            batch["labels"] = torch.tensor([row["labels"] for row in rows])
        for name in rows[0]:
            if name not in (*batch, *_NOT_LABELS) and isinstance(rows[0][name], int | float):
                values = [row[name] for row in rows]
                dtype = torch.float32 if isinstance(values[0], float) else torch.long
                batch["labels" if name == "label" else name] = torch.tensor(values, dtype=dtype)
        if TEACHER_STATES in rows[0]:
            states = np.stack([np.frombuffer(row[TEACHER_STATES], np.float32) for row in rows])
            shape = (len(rows), choices, -1, self.state_size) if choices else (len(rows), -1, self.state_size)
            batch[TEACHER_STATES] = torch.from_numpy(states.reshape(shape))
        for name in rows[0]:
            if name.startswith(TEACHER) and name != TEACHER_STATES:
                batch[name] = _stack_logits([row[name] for row in rows], name, width)
        if self.keep_row and "row" in rows[0]:
            batch["row"] = torch.tensor([row["row"] for row in rows])
        return batch


def _stack_logits(values: Sequence[Any], name: str, width: int) -> Tensor:
    """Stack the logits of a batch; those of tokens are padded with zeros."""
    tensors = [torch.tensor(value, dtype=torch.float32) for value in values]
    if not name.startswith(TEACHER_TOKENS):
        return torch.stack(tensors)
    stacked = torch.zeros(len(tensors), width, *tensors[0].shape[1:])
    for index, tensor in enumerate(tensors):
        stacked[index, : len(tensor)] = tensor
    return stacked


def _is_nested(ids: Sequence[Any]) -> bool:
    return bool(ids) and isinstance(ids[0], list)
