"""Checked rows to model inputs, by kind, and batches of them.

Rows are stored without padding; `Collator` pads a batch to its longest row. Every encoded row has
`row` (the source row it came from: several windows of one long context share it) and `length`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from datasets import ClassLabel, Dataset
from tokenizers import Encoding
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from understudy.data.tasks import KindName
from understudy.data.tokens import TextReader, padded_width

# Part of every cache key: raise it when the same rows would be encoded otherwise.
ENCODING_VERSION = 2
IGNORED_LABEL = -100

Batch = Mapping[str, list[Any]]
Encoded = dict[str, list[Any]]


def encode(
    rows: Dataset,
    kind: KindName,
    tokenizer: PreTrainedTokenizerFast,
    *,
    max_length: int,
    stride: int | None = None,
) -> Dataset:
    """Tokenise checked rows.

    The result is cached on disk beside the rows, under a name made of everything that decides it.

    Args:
        rows: as `load_data` gives them.
        max_length, stride: see `TextReader`.
    """
    reader = text_reader(tokenizer, kind, max_length=max_length, stride=stride)
    options = {"max_length": max_length} | ({"stride": reader.stride} if reader.stride else {})
    backend = json.loads(tokenizer.backend_tokenizer.to_str())
    backend |= {"truncation": None, "padding": None}  # left there by the last call
    habits = [tokenizer.model_input_names, tokenizer.truncation_side]
    decided_by = [ENCODING_VERSION, rows._fingerprint, kind, backend, habits, options]
    fingerprint = hashlib.sha256(json.dumps(decided_by).encode()).hexdigest()[:32]
    given: dict[str, Any] = {"reader": reader, "names": tokenizer.model_input_names}
    tags = getattr(rows.features.get("tags"), "feature", None)
    if isinstance(tags, ClassLabel):
        given["inside"] = inside_tags(tags.names)
    return rows.map(
        _ENCODERS[kind],
        batched=True,
        batch_size=1_000,
        remove_columns=rows.column_names,
        fn_kwargs=given,
        new_fingerprint=fingerprint,
        desc="Tokenising",
    )


def text_reader(
    tokenizer: PreTrainedTokenizerFast, kind: KindName, *, max_length: int, stride: int | None = None
) -> TextReader:
    """A reader of a transformers tokenizer's."""
    return TextReader(
        tokenizer.backend_tokenizer,
        kind,
        max_length=max_length,
        stride=stride,
        truncation_side=tokenizer.truncation_side,
    )


def _inputs(encodings: Sequence[Encoding], names: Sequence[str]) -> Encoded:
    """What a model is called with, but for the attention mask: rows have no padding."""
    inputs: Encoded = {"input_ids": [encoding.ids for encoding in encodings]}
    if "token_type_ids" in names:
        inputs["token_type_ids"] = [encoding.type_ids for encoding in encodings]
    return inputs


def _with_lengths(encoded: Encoded, rows: Sequence[int]) -> Encoded:
    encoded["row"] = list(rows)
    encoded["length"] = [len(ids) for ids in encoded["input_ids"]]
    return encoded


def _encode_text(batch: Batch, reader: TextReader, names: Sequence[str]) -> Encoded:
    encoded = _inputs(reader.texts(batch["text"], batch.get("text_pair")), names)
    encoded["labels"] = batch["label"]
    return _with_lengths(encoded, batch["row"])


def _encode_question_answering(batch: Batch, reader: TextReader, names: Sequence[str]) -> Encoded:
    """Windows over long contexts.

    A window that does not hold the whole first answer has the first token ([CLS]) as its target, as
    for a question without an answer.
    """
    windows = list(reader.questions(batch["question"], batch["context"]))
    encoded = _inputs([window.encoding for window in windows], names)
    targets = [_answer_tokens(batch["answers"][one.question], one.starts, one.ends) for one in windows]
    encoded |= {
        "start_positions": [start for start, _ in targets],
        "end_positions": [end for _, end in targets],
        "offset_starts": [window.starts for window in windows],
        "offset_ends": [window.ends for window in windows],
    }
    return _with_lengths(encoded, [batch["row"][window.question] for window in windows])


def _answer_tokens(
    answers: Mapping[str, list[Any]], starts: Sequence[int], ends: Sequence[int]
) -> tuple[int, int]:
    """First and last token of the first answer, or (0, 0) where the window does not hold it whole."""
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


def _encode_multiple_choice(batch: Batch, reader: TextReader, names: Sequence[str]) -> Encoded:
    """Each choice beside the context; `input_ids` is a list per choice."""
    rows = [
        _inputs(reader.choices(context, question, choices), names)
        for context, question, choices in zip(
            batch["context"], batch["question"], batch["choices"], strict=True
        )
    ]
    encoded: Encoded = {name: [row[name] for row in rows] for name in rows[0]}
    encoded["labels"] = batch["label"]
    encoded["row"] = list(batch["row"])
    encoded["length"] = [max(map(len, choices)) for choices in encoded["input_ids"]]
    return encoded


def _encode_token_classification(
    batch: Batch, reader: TextReader, names: Sequence[str], inside: Sequence[int] | None = None
) -> Encoded:
    """The first token of a word carries its tag, those of its later parts the tag of an entity that goes on.

    Other tokens carry none. The tag of a word without a token is predicted as O by `decode.py`.

    Args:
        inside: for each tag, the one of an entity that goes on: that of B-PER is I-PER.
    """
    read = reader.words(batch["words"])
    encoded = _inputs([one.encoding for one in read], names)
    encoded["word_ids"] = [one.word_ids for one in read]
    encoded["labels"] = [
        [
            tags[word] if word >= 0 else _inside(tags[part], inside) if part >= 0 else IGNORED_LABEL
            for word, part in zip(one.word_ids, one.inside_ids, strict=True)
        ]
        for one, tags in zip(read, batch["tags"], strict=True)
    ]
    return _with_lengths(encoded, batch["row"])


def _inside(tag: int, inside: Sequence[int] | None) -> int:
    return tag if inside is None else inside[tag]


def inside_tags(names: Sequence[str]) -> list[int]:
    """For each tag the id of the tag that goes on with it.

    >>> inside_tags(["O", "B-PER", "I-PER"])
    [0, 2, 2]
    """
    ids = {name: place for place, name in enumerate(names)}
    return [ids.get(f"I-{name[2:]}", place) if name[:2] == "B-" else place for place, name in enumerate(names)]


_ENCODERS: Mapping[str, Callable[..., Encoded]] = {
    "classification": _encode_text,
    "regression": _encode_text,
    "question-answering": _encode_question_answering,
    "multiple-choice": _encode_multiple_choice,
    "token-classification": _encode_token_classification,
}

# Per-token columns and what padding is worth in them.
_PER_TOKEN = {"labels": IGNORED_LABEL}
_PER_ROW = {"labels", "start_positions", "end_positions"}


# What an encoder is called with, of a batch's tensors.
ENCODER_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
# Columns with a teacher's logits, without padding as the rows themselves.
TEACHER = "teacher_"
# And one with its states, float32 bytes: K layers of the first token, for each choice where there are any.
TEACHER_STATES = "teacher_states"
_TEACHER_PER_TOKEN = ("teacher_start_logits", "teacher_end_logits")


def special_tokens(tokenizer: PreTrainedTokenizerFast, *, pair: bool = False) -> list[list[int]]:
    """What a tokenizer puts before, between and behind: two lists for one text, three for two."""
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
    """Rows to a padded batch of tensors; columns that are no model input are left out.

    Padding is on the right, to the longest row of the batch and a multiple of 4.

    Args:
        keep_row: leave the rows' numbers in the batch, for whoever must name one.
        state_size: the width of a teacher's states, where rows carry them.
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
            **_PER_TOKEN,
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
        if "labels" in rows[0] and isinstance(rows[0]["labels"], list):
            flat["labels"] = [row["labels"] for row in rows]
        width = padded_width([len(ids) for ids in flat["input_ids"]])
        batch = {
            name: torch.tensor([ids + [self.padding[name]] * (width - len(ids)) for ids in values])
            for name, values in flat.items()
        }
        if choices:
            batch = {name: value.view(len(rows), choices, width) for name, value in batch.items()}
        for name in _PER_ROW & set(rows[0]) - set(batch):
            values = [row[name] for row in rows]
            dtype = torch.float32 if isinstance(values[0], float) else torch.long
            batch[name] = torch.tensor(values, dtype=dtype)
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
    """Logits of a batch, those of tokens filled up with zeros."""
    tensors = [torch.tensor(value, dtype=torch.float32) for value in values]
    if name not in _TEACHER_PER_TOKEN and tensors[0].dim() < 2:
        return torch.stack(tensors)
    stacked = torch.zeros(len(tensors), width, *tensors[0].shape[1:])
    for index, tensor in enumerate(tensors):
        stacked[index, : len(tensor)] = tensor
    return stacked


def _is_nested(ids: Sequence[Any]) -> bool:
    return bool(ids) and isinstance(ids[0], list)
