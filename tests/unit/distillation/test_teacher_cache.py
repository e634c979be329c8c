from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from datasets import Dataset
from transformers import (
    BertConfig,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
    TrainingArguments,
)

from understudy.data.encode import Collator, encode
from understudy.data.load import cache_folder
from understudy.distillation import teacher_cache
from understudy.distillation.teacher_cache import add_teacher_answers
from understudy.kinds import get_kind
from understudy.models.teacher import freeze
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
    return teacher, encode(rows, get_kind("token-classification"), tokenizer, max_length=32)


def count_calls(model: Any, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    calls: list[int] = []
    forward = model.forward

    def counted(*args: Any, **options: Any) -> Any:
        calls.append(1)
        return forward(*args, **options)

    monkeypatch.setattr(model, "forward", counted)
    return calls


def ask(
    teacher: Any, encoded: Dataset, tokenizer: Any, arguments: Any, name: str = "hash", **options: Any
) -> Dataset:
    kind = options.pop("kind", get_kind("token-classification"))
    return add_teacher_answers(encoded, kind, lambda: teacher, tokenizer, name, arguments, **options)


def test_logits_are_those_of_each_row_alone_and_computed_once(
    tags: tuple[Any, Dataset], tokenizer: Any, arguments: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    teacher, encoded = tags
    calls = count_calls(teacher, monkeypatch)
    monkeypatch.setattr(teacher_cache, "BATCH_SIZE", 2)
    once = ask(teacher, encoded, tokenizer, arguments)
    assert len(calls) == 3
    for row in once:
        alone = teacher(input_ids=torch.tensor([row["input_ids"]])).logits[0].detach()
        assert np.allclose(row["teacher_tokens_logits"], alone, atol=1e-5)
        assert len(row["teacher_tokens_logits"]) == row["length"]
    before = len(calls)
    again = ask(teacher, encoded, tokenizer, arguments)
    assert len(calls) == before
    assert again["teacher_tokens_logits"][:] == once["teacher_tokens_logits"][:]
    ask(teacher, encoded, tokenizer, arguments, "another teacher")
    assert len(calls) > before
    batch = Collator(tokenizer, keep_row=True)([once[1], once[2]])
    assert batch["teacher_tokens_logits"].shape == (2, batch["input_ids"].shape[1], 3)
    assert batch["row"].tolist() == [1, 2]
    assert torch.allclose(
        batch["teacher_tokens_logits"][0, :5], torch.tensor(once[1]["teacher_tokens_logits"])
    )
    assert (batch["teacher_tokens_logits"][0, 5:] == 0).all()


def test_states_are_those_of_the_first_token_in_their_layers(
    tags: tuple[Any, Dataset], tokenizer: Any, arguments: Any
) -> None:
    teacher, encoded = tags
    rows = ask(teacher, encoded, tokenizer, arguments, layers=(2, 1))
    batch = Collator(tokenizer, state_size=32)([rows[0], rows[4]])
    assert batch["teacher_states"].shape == (2, 2, 32)
    alone = teacher(input_ids=torch.tensor([rows[4]["input_ids"]]), output_hidden_states=True).hidden_states
    assert torch.allclose(batch["teacher_states"][1, 0], alone[2][0, 0], atol=1e-5)
    assert torch.allclose(batch["teacher_states"][1, 1], alone[1][0, 0], atol=1e-5)


def test_an_interrupted_cache_goes_on_at_the_next_shard(
    tags: tuple[Any, Dataset], tokenizer: Any, arguments: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    teacher, encoded = tags
    whole = ask(teacher, encoded, tokenizer, arguments, "a")
    monkeypatch.setattr(teacher_cache, "ROWS_PER_SHARD", 2)
    fill = teacher_cache._fill
    filled: list[int] = []

    def die(shard: Any, *rest: Any) -> None:
        if len(filled) == 2:
            raise KeyboardInterrupt
        filled.append(shard.start)
        fill(shard, *rest)

    monkeypatch.setattr(teacher_cache, "_fill", die)
    with pytest.raises(KeyboardInterrupt):
        ask(teacher, encoded, tokenizer, arguments, "b")
    monkeypatch.setattr(teacher_cache, "_fill", fill)
    calls = count_calls(teacher, monkeypatch)
    parts = ask(teacher, encoded, tokenizer, arguments, "b")
    assert len(calls) == 1
    for one, other in zip(parts["teacher_tokens_logits"][:], whole["teacher_tokens_logits"][:], strict=True):
        assert np.allclose(one, other, atol=1e-5)


@pytest.mark.parametrize("kind", ["predictions", "states"])
def test_a_flipped_byte_is_seen_and_mended(
    kind: str, tags: tuple[Any, Dataset], tokenizer: Any, arguments: Any, caplog: pytest.LogCaptureFixture
) -> None:
    teacher, encoded = tags
    once = ask(teacher, encoded, tokenizer, arguments, layers=(1,))
    said, shown = (
        once["teacher_tokens_logits"][:],
        once["teacher_states"][:],
    )  # before the mapped file changes
    (file,) = cache_folder().rglob(f"{kind}-*[a-z]")
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    again = ask(teacher, encoded, tokenizer, arguments, layers=(1,))
    assert "is not what was written" in caplog.text
    assert again["teacher_tokens_logits"][:] == said
    assert again["teacher_states"][:] == shown


def test_predictions_are_plain_arrow(tags: tuple[Any, Dataset], tokenizer: Any, arguments: Any) -> None:
    teacher, encoded = tags
    rows = ask(teacher, encoded, tokenizer, arguments)
    (file,) = cache_folder().rglob("predictions-*.arrow")
    table = pa.ipc.open_stream(file.read_bytes()).read_all()
    assert table.column_names == ["row", "logits"]
    assert table["row"].to_pylist() == [0, 1, 2, 3, 4]
    assert table["logits"].to_pylist() == rows["teacher_tokens_logits"][:]


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
    encoded = encode(rows, get_kind("question-answering"), tokenizer, max_length=32)
    once = ask(teacher, encoded, tokenizer, arguments, kind=get_kind("question-answering"))
    batch = Collator(tokenizer)([once[0], once[1]])
    assert batch["teacher_tokens_start_logits"].shape == batch["input_ids"].shape
    alone = teacher(**{key: torch.tensor([once[0][key]]) for key in ("input_ids", "token_type_ids")})
    length = once[0]["length"]
    assert torch.allclose(batch["teacher_tokens_end_logits"][0, :length], alone.end_logits[0], atol=1e-5)


def test_its_size_is_what_the_docs_say(encoder: Path, tokenizer: Any, arguments: Any) -> None:
    """Rows × layers × width × 4 bytes of states, and little beside; 4 bytes a logit and 8 a row's number."""
    torch.manual_seed(1)
    teacher = BertForSequenceClassification(BertConfig.from_pretrained(encoder, num_labels=3))
    freeze(teacher)
    texts = WORDS * 400
    rows = Dataset.from_dict(
        {
            "row": list(range(len(texts))),
            "text": texts,
            "label": [0] * len(texts),
        }
    )
    encoded = encode(rows, get_kind("classification"), tokenizer, max_length=32)
    ask(teacher, encoded, tokenizer, arguments, kind=get_kind("classification"), layers=(1, 2))
    (states,) = cache_folder().glob("teacher-*/states-*.arrow")
    numbers = len(texts) * 2 * teacher.config.hidden_size * 4
    assert numbers < states.stat().st_size < 1.05 * numbers
    (predictions,) = cache_folder().glob("teacher-*/predictions-*.arrow")
    assert predictions.stat().st_size < 1.2 * len(texts) * (3 * 4 + 12)


def test_memory_does_not_grow_with_the_rows(
    tags: tuple[Any, Dataset], tokenizer: Any, arguments: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    teacher, encoded = tags
    monkeypatch.setattr(teacher_cache, "ROWS_PER_SHARD", 500)
    held = {}
    for count in (500, 5_000):
        rows = encoded.select([number % 5 for number in range(count)]).flatten_indices()
        ask(teacher, rows, tokenizer, arguments, f"of {count}")
        before = pa.total_allocated_bytes()
        answered = ask(teacher, rows, tokenizer, arguments, f"of {count}")
        assert answered[count - 1]["teacher_tokens_logits"] == answered[4]["teacher_tokens_logits"]
        held[count] = pa.total_allocated_bytes() - before
    assert held[5_000] <= held[500] + 10_000, held
