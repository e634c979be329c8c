from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from datasets import Dataset
from transformers import BertConfig, BertForQuestionAnswering, BertForTokenClassification, TrainingArguments

from understudy.data.encode import Collator, encode
from understudy.models.teacher import freeze
from understudy.stages import teacher_logits
from understudy.stages.teacher_logits import add_teacher_logits
from understudy.training.arguments import build_arguments

WORDS = ["good film", "the cat runs", "it was a very bad movie", "bert", "anna works at acme in rome"]


@pytest.fixture
def arguments(tmp_path: Path) -> TrainingArguments:
    return build_arguments({"use_cpu": True, "report_to": "none"}, tmp_path)


@pytest.fixture
def tags(encoder: Path, tokenizer: Any) -> tuple[Any, Dataset]:
    """A teacher of tokens with three classes, and five rows of different lengths."""
    torch.manual_seed(1)
    teacher = BertForTokenClassification(BertConfig.from_pretrained(encoder, num_labels=3))
    freeze(teacher)
    rows = Dataset.from_dict(
        {
            "row": list(range(5)),
            "words": [text.split() for text in WORDS],
            "tags": [[0] * len(text.split()) for text in WORDS],
        }
    )
    return teacher, encode(rows, "token-classification", tokenizer, max_length=32)


def count_calls(model: Any, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    calls: list[int] = []
    forward = model.forward

    def counted(*args: Any, **options: Any) -> Any:
        calls.append(1)
        return forward(*args, **options)

    monkeypatch.setattr(model, "forward", counted)
    return calls


def test_logits_are_those_of_each_row_alone_and_computed_once(
    tags: tuple[Any, Dataset], tokenizer: Any, arguments: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    teacher, encoded = tags
    calls = count_calls(teacher, monkeypatch)
    monkeypatch.setattr(teacher_logits, "BATCH_SIZE", 2)
    once = add_teacher_logits(encoded, "token-classification", teacher, tokenizer, "hash", arguments)
    assert len(calls) == 3
    for row in once:
        alone = teacher(input_ids=torch.tensor([row["input_ids"]])).logits[0].detach()
        assert np.allclose(row["teacher_logits"], alone, atol=1e-5)
        assert len(row["teacher_logits"]) == row["length"]
    before = len(calls)
    again = add_teacher_logits(encoded, "token-classification", teacher, tokenizer, "hash", arguments)
    assert len(calls) == before
    assert again["teacher_logits"][:] == once["teacher_logits"][:]
    add_teacher_logits(encoded, "token-classification", teacher, tokenizer, "another", arguments)
    assert len(calls) > before
    batch = Collator(tokenizer, keep_row=True)([once[1], once[2]])
    assert batch["teacher_logits"].shape == (2, batch["input_ids"].shape[1], 3)
    assert batch["row"].tolist() == [1, 2]
    assert torch.allclose(batch["teacher_logits"][0, :5], torch.tensor(once[1]["teacher_logits"]))
    assert (batch["teacher_logits"][0, 5:] == 0).all()


def test_an_interrupted_cache_goes_on_at_the_next_shard(
    tags: tuple[Any, Dataset], tokenizer: Any, arguments: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    teacher, encoded = tags
    whole = add_teacher_logits(encoded, "token-classification", teacher, tokenizer, "a", arguments)
    monkeypatch.setattr(teacher_logits, "ROWS_PER_SHARD", 2)
    write = teacher_logits._write
    written: list[Path] = []

    def die(path: Path, columns: Any) -> None:
        if len(written) == 2:
            raise KeyboardInterrupt
        written.append(path)
        write(path, columns)

    monkeypatch.setattr(teacher_logits, "_write", die)
    with pytest.raises(KeyboardInterrupt):
        add_teacher_logits(encoded, "token-classification", teacher, tokenizer, "b", arguments)
    monkeypatch.setattr(teacher_logits, "_write", write)
    calls = count_calls(teacher, monkeypatch)
    parts = add_teacher_logits(encoded, "token-classification", teacher, tokenizer, "b", arguments)
    assert len(calls) == 1
    for one, other in zip(parts["teacher_logits"][:], whole["teacher_logits"][:], strict=True):
        assert np.allclose(one, other, atol=1e-5)


def test_positions_of_an_answer(encoder: Path, tokenizer: Any, arguments: Any) -> None:
    torch.manual_seed(1)
    teacher = BertForQuestionAnswering(BertConfig.from_pretrained(encoder))
    freeze(teacher)
    answers = {"text": ["rome"], "answer_start": [14]}
    rows = Dataset.from_dict(
        {
            "row": [0, 1],
            "question": ["where", "who is it"],
            "context": ["anna lives in rome", "anna lives in rome and bert works"],
            "answers": [answers] * 2,
        }
    )
    encoded = encode(rows, "question-answering", tokenizer, max_length=32)
    once = add_teacher_logits(encoded, "question-answering", teacher, tokenizer, "hash", arguments)
    batch = Collator(tokenizer)([once[0], once[1]])
    assert batch["teacher_start_logits"].shape == batch["input_ids"].shape
    alone = teacher(**{key: torch.tensor([once[0][key]]) for key in ("input_ids", "token_type_ids")})
    length = once[0]["length"]
    assert torch.allclose(batch["teacher_end_logits"][0, :length], alone.end_logits[0], atol=1e-5)
