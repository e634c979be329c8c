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
from datasets import Dataset
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from understudy.data.tasks import KindName
from understudy.errors import RecipeError

# Part of every cache key: raise it when the same rows would be encoded otherwise.
ENCODING_VERSION = 1
# Kernels like even widths. Multiples of 8 cost short texts 7 % of their speed (docs/LOG.md).
PAD_TO_MULTIPLE_OF = 4
IGNORED_LABEL = -100
# As in BERT's own script; less where windows are short, so that a window always has room for context.
DEFAULT_STRIDE = 128
MAX_QUESTION_TOKENS = 64

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
        max_length: tokens, special tokens included; longer inputs are cut (question answering: cut
            into windows).
        stride: tokens that neighbouring windows share (question answering only); 128, or a third of
            the window where that is less, where not given.
    """
    options = {"max_length": max_length}
    if kind == "question-answering":
        options["stride"] = min(DEFAULT_STRIDE, max_length // 3) if stride is None else stride
        room = max_length - _question_limit(max_length) - tokenizer.num_special_tokens_to_add(pair=True)
        if options["stride"] >= room:
            raise RecipeError(
                f"data.stride must be less than {room} where data.max_length is {max_length}; got "
                f"{options['stride']}."
            )
    backend = json.loads(tokenizer.backend_tokenizer.to_str())
    backend |= {"truncation": None, "padding": None}  # left there by the last call
    habits = [tokenizer.model_input_names, tokenizer.truncation_side]
    decided_by = [ENCODING_VERSION, rows._fingerprint, kind, backend, habits, options]
    fingerprint = hashlib.sha256(json.dumps(decided_by).encode()).hexdigest()[:32]
    return rows.map(
        _ENCODERS[kind],
        batched=True,
        batch_size=1_000,
        remove_columns=rows.column_names,
        fn_kwargs={"tokenizer": tokenizer, **options},
        new_fingerprint=fingerprint,
        desc="Tokenising",
    )


def _with_lengths(encoded: Encoded, rows: Sequence[int]) -> Encoded:
    encoded["row"] = list(rows)
    encoded["length"] = [len(ids) for ids in encoded["input_ids"]]
    return encoded


def _encode_text(batch: Batch, tokenizer: PreTrainedTokenizerFast, max_length: int) -> Encoded:
    encoded = dict(
        tokenizer(
            batch["text"],
            batch.get("text_pair"),
            truncation=True,
            max_length=max_length,
            return_attention_mask=False,
        )
    )
    encoded["labels"] = batch["label"]
    return _with_lengths(encoded, batch["row"])


def _encode_question_answering(
    batch: Batch, tokenizer: PreTrainedTokenizerFast, max_length: int, stride: int
) -> Encoded:
    """Windows over long contexts.

    `offsets` holds, for tokens of the context, their first and last character, and -1 for others.
    A window that does not hold the whole first answer has the first token ([CLS]) as its target, as
    for a question without an answer.
    """
    tokens = tokenizer(
        _cut_questions(batch["question"], tokenizer, _question_limit(max_length)),
        batch["context"],
        truncation="only_second",
        max_length=max_length,
        stride=stride,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
        return_attention_mask=False,
    )
    sample = tokens.pop("overflow_to_sample_mapping")
    spans = tokens.pop("offset_mapping")
    encoded: Encoded = dict(tokens)
    encoded |= {"start_positions": [], "end_positions": [], "offset_starts": [], "offset_ends": []}
    for window, index in enumerate(sample):
        in_context = [part == 1 for part in tokens.sequence_ids(window)]
        starts = [span[0] if inside else -1 for span, inside in zip(spans[window], in_context, strict=True)]
        ends = [span[1] if inside else -1 for span, inside in zip(spans[window], in_context, strict=True)]
        start, end = _answer_tokens(batch["answers"][index], starts, ends)
        encoded["start_positions"].append(start)
        encoded["end_positions"].append(end)
        encoded["offset_starts"].append(starts)
        encoded["offset_ends"].append(ends)
    return _with_lengths(encoded, [batch["row"][index] for index in sample])


def _question_limit(max_length: int) -> int:
    return min(MAX_QUESTION_TOKENS, max_length // 3)


def _cut_questions(questions: Sequence[str], tokenizer: PreTrainedTokenizerFast, limit: int) -> list[str]:
    """Questions of at most `limit` tokens: a longer one would leave its windows no room for context."""
    tokens = tokenizer(
        list(questions), add_special_tokens=False, return_offsets_mapping=True, return_attention_mask=False
    )
    return [
        question[: offsets[limit - 1][1]] if len(offsets) > limit else question
        for question, offsets in zip(questions, tokens["offset_mapping"], strict=True)
    ]


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


def _encode_multiple_choice(batch: Batch, tokenizer: PreTrainedTokenizerFast, max_length: int) -> Encoded:
    """Each choice beside the context; `input_ids` is a list per choice."""
    firsts: list[str] = []
    seconds: list[str] = []
    for context, question, choices in zip(batch["context"], batch["question"], batch["choices"], strict=True):
        for choice in choices:
            firsts.append(context)
            seconds.append(f"{question} {choice}".strip())
    flat = tokenizer(
        firsts,
        seconds,
        truncation="longest_first",
        max_length=max_length,
        return_attention_mask=False,
    )
    encoded: Encoded = {}
    for key, values in flat.items():
        remaining = iter(values)
        encoded[key] = [[next(remaining) for _ in choices] for choices in batch["choices"]]
    encoded["labels"] = batch["label"]
    encoded["row"] = list(batch["row"])
    encoded["length"] = [max(map(len, choices)) for choices in encoded["input_ids"]]
    return encoded


def _encode_token_classification(
    batch: Batch, tokenizer: PreTrainedTokenizerFast, max_length: int
) -> Encoded:
    """The first piece of a word carries its tag, the other pieces and special tokens none.

    A word the tokenizer makes nothing of (a lone control character) has no piece; its tag is
    predicted as O by `decode.py`.
    """
    tokens = tokenizer(
        batch["words"],
        is_split_into_words=True,
        truncation=True,
        max_length=max_length,
        return_attention_mask=False,
    )
    encoded: Encoded = dict(tokens)
    encoded["labels"], encoded["word_ids"] = [], []
    for index, tags in enumerate(batch["tags"]):
        words = tokens.word_ids(index)
        first = [
            word if word is not None and word != previous else None
            for previous, word in zip([None, *words], words, strict=False)
        ]
        encoded["labels"].append([IGNORED_LABEL if word is None else tags[word] for word in first])
        encoded["word_ids"].append([-1 if word is None else word for word in first])
    return _with_lengths(encoded, batch["row"])


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
        leave_out: inputs of the tokenizer that the model does not take.
        state_size: the width of a teacher's states, where rows carry them.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerFast,
        *,
        keep_row: bool = False,
        leave_out: Sequence[str] = (),
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
        for name in leave_out:
            del self.padding[name]

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
        names = [name for name in self.padding if name in rows[0] and name != "labels"]
        choices = len(rows[0]["input_ids"]) if _is_nested(rows[0]["input_ids"]) else 0
        flat: dict[str, list[list[int]]] = {
            name: [item for row in rows for item in row[name]] if choices else [row[name] for row in rows]
            for name in names
        }
        flat["attention_mask"] = [[1] * len(ids) for ids in flat["input_ids"]]
        if "labels" in rows[0] and isinstance(rows[0]["labels"], list):
            flat["labels"] = [row["labels"] for row in rows]
        longest = max(map(len, flat["input_ids"]))
        width = -(-longest // PAD_TO_MULTIPLE_OF) * PAD_TO_MULTIPLE_OF
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
        if self.keep_row:
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
