from __future__ import annotations

from pathlib import Path

import pytest
import torch
from datasets import Dataset
from filelock import FileLock
from transformers import PreTrainedTokenizerFast

from understudy.data.encode import IGNORED_LABEL, Collator, encode, keep_whole
from understudy.data.load import row_features
from understudy.errors import RecipeError
from understudy.files import is_whole
from understudy.kinds import get_kind

CONTEXT = "The cat sleeps. The dog runs in Paris. Anna lives in London. Bert works at Acme."


def question_row(answer: str | None, row: int = 0) -> dict:
    answers = {"text": [answer], "answer_start": [CONTEXT.index(answer)]} if answer else {}
    return {
        "row": row,
        "id": str(row),
        "question": "Where?",
        "context": CONTEXT,
        "answers": answers or {"text": [], "answer_start": []},
    }


def test_texts_and_pairs(tokenizer: PreTrainedTokenizerFast) -> None:
    rows = Dataset.from_list([{"row": 5, "text": "good film", "text_pair": "bad", "label": 1}])
    encoded = encode(rows, get_kind("classification"), tokenizer, max_length=16)[0]
    assert tokenizer.convert_ids_to_tokens(encoded["input_ids"]) == [
        "[CLS]", "good", "film", "[SEP]", "bad", "[SEP]",
    ]  # fmt: skip
    assert encoded["token_type_ids"] == [0, 0, 0, 0, 1, 1]
    assert (encoded["labels"], encoded["row"], encoded["length"]) == (1, 5, 6)


@pytest.mark.parametrize("answer", ["Paris", "London", "Acme", "dog runs in Paris"])
def test_every_answer_is_found_in_a_window(tokenizer: PreTrainedTokenizerFast, answer: str) -> None:
    encoded = encode(
        Dataset.from_list([question_row(answer)]),
        get_kind("question-answering"),
        tokenizer,
        max_length=16,
        stride=6,
    )
    assert len(encoded) > 1
    found = [window for window in encoded if window["start_positions"]]
    assert found
    for window in found:
        start = window["offset_starts"][window["start_positions"]]
        end = window["offset_ends"][window["end_positions"]]
        assert CONTEXT[start:end] == answer


def test_windows_share_the_stride(tokenizer: PreTrainedTokenizerFast) -> None:
    encoded = encode(
        Dataset.from_list([question_row(None)]),
        get_kind("question-answering"),
        tokenizer,
        max_length=16,
        stride=6,
    )
    starts = [[offset for offset in window["offset_starts"] if offset >= 0] for window in encoded]
    assert starts[0][-6:] == starts[1][:6]
    assert set(encoded["row"]) == {0}


def test_a_question_without_an_answer_points_at_the_first_token(tokenizer: PreTrainedTokenizerFast) -> None:
    encoded = encode(
        Dataset.from_list([question_row(None)]), get_kind("question-answering"), tokenizer, max_length=64
    )
    assert (encoded[0]["start_positions"], encoded[0]["end_positions"]) == (0, 0)


def test_a_long_question_leaves_room_for_its_context(tokenizer: PreTrainedTokenizerFast) -> None:
    row = question_row("Paris") | {"question": "where " * 200}
    encoded = encode(Dataset.from_list([row]), get_kind("question-answering"), tokenizer, max_length=24)
    assert max(encoded["length"][:]) == 24
    assert encoded[0]["offset_starts"][8 + 2 :][:2] == [0, 4]  # 8 tokens of the question, 2 special ones


def test_a_stride_that_leaves_no_room_is_refused(tokenizer: PreTrainedTokenizerFast) -> None:
    rows = Dataset.from_list([question_row("Paris")])
    with pytest.raises(
        RecipeError, match=r"data\.stride must be less than 13 where data\.max_length is 24; got 13"
    ):
        encode(rows, get_kind("question-answering"), tokenizer, max_length=24, stride=13)


def test_question_tokens_are_no_context(tokenizer: PreTrainedTokenizerFast) -> None:
    window = encode(
        Dataset.from_list([question_row("Paris")]), get_kind("question-answering"), tokenizer, max_length=64
    )[0]
    tokens = tokenizer.convert_ids_to_tokens(window["input_ids"])
    first_context = tokens.index("[SEP]") + 1
    assert window["offset_starts"][:first_context] == [-1] * first_context
    assert window["offset_starts"][-1] == -1


def test_the_first_piece_of_a_word_carries_its_tag(tokenizer: PreTrainedTokenizerFast) -> None:
    rows = Dataset.from_list([{"row": 0, "words": ["Anna", "xyz", "runs"], "tags": [1, 2, 0]}])
    encoded = encode(rows, get_kind("token-classification"), tokenizer, max_length=16)[0]
    tokens = tokenizer.convert_ids_to_tokens(encoded["input_ids"])
    assert tokens == ["[CLS]", "anna", "x", "##y", "##z", "runs", "[SEP]"]
    ignored = IGNORED_LABEL
    assert encoded["labels"] == [ignored, 1, 2, ignored, ignored, 0, ignored]
    assert encoded["word_ids"] == [-1, 0, 1, -1, -1, 2, -1]


def test_equal_neighbouring_words_are_two_words(tokenizer: PreTrainedTokenizerFast) -> None:
    rows = Dataset.from_list([{"row": 0, "words": ["very", "very"], "tags": [1, 2]}])
    assert encode(rows, get_kind("token-classification"), tokenizer, max_length=16)[0]["word_ids"] == [
        -1,
        0,
        1,
        -1,
    ]


def test_choices_are_encoded_beside_their_context(tokenizer: PreTrainedTokenizerFast) -> None:
    row = {"row": 0, "context": "the cat", "question": "who", "choices": ["cat", "big dog"], "label": 0}
    encoded = encode(Dataset.from_list([row]), get_kind("multiple-choice"), tokenizer, max_length=16)[0]
    tokens = [tokenizer.convert_ids_to_tokens(ids) for ids in encoded["input_ids"]]
    assert tokens[1] == ["[CLS]", "the", "cat", "[SEP]", "who", "big", "dog", "[SEP]"]
    assert encoded["length"] == 8
    batch = Collator(tokenizer)([encoded, encoded])
    assert batch["input_ids"].shape == (2, 2, 8)
    assert batch["attention_mask"][0].sum(dim=-1).tolist() == [7, 8]


def test_batches_are_as_long_as_their_longest_row_and_a_multiple_of_4(
    tokenizer: PreTrainedTokenizerFast,
) -> None:
    texts = ["good", "the cat sleeps in the city of rome", "bad film"]
    rows = Dataset.from_list([{"row": i, "text": text, "label": 0} for i, text in enumerate(texts)])
    encoded = encode(rows, get_kind("classification"), tokenizer, max_length=64)
    batch = Collator(tokenizer)([encoded[index] for index in range(3)])
    assert batch["input_ids"].shape == (3, 12)
    assert batch["attention_mask"].sum(dim=-1).tolist() == encoded["length"][:]
    assert Collator(tokenizer)([encoded[0]])["input_ids"].shape == (1, 4)
    assert "row" not in batch
    assert "length" not in batch


def test_scores_stay_numbers(tokenizer: PreTrainedTokenizerFast) -> None:
    rows = Dataset.from_list([{"row": 0, "text": "good", "label": 2.5}])
    batch = Collator(tokenizer)([encode(rows, get_kind("regression"), tokenizer, max_length=8)[0]])
    assert batch["labels"].dtype == torch.float32
    assert batch["labels"].tolist() == [2.5]


def test_tags_are_padded_with_the_ignored_label(tokenizer: PreTrainedTokenizerFast) -> None:
    rows = Dataset.from_list([{"row": 0, "words": ["anna"], "tags": [1]}])
    batch = Collator(tokenizer)([encode(rows, get_kind("token-classification"), tokenizer, max_length=8)[0]])
    assert batch["labels"].tolist() == [[IGNORED_LABEL, 1] + [IGNORED_LABEL] * 2]


def test_targets_of_labels_are_stacked_without_padding(tokenizer: PreTrainedTokenizerFast) -> None:
    """There may be more labels than tokens, and fewer."""
    kind, labels = get_kind("multi-label"), [f"label {number}" for number in range(9)]
    rows = Dataset.from_list(
        [{"row": 0, "text": "good film", "label": [0, 8]}, {"row": 1, "text": "bad", "label": []}],
        features=row_features(kind, kind.required, labels),
    )
    encoded = encode(rows, kind, tokenizer, max_length=16)
    assert encoded[1]["labels"] == [0.0] * 9
    batch = Collator(tokenizer)(list(encoded))
    assert batch["labels"].dtype == torch.float32
    assert batch["labels"].tolist() == [[1.0] + [0.0] * 7 + [1.0], [0.0] * 9]
    assert batch["input_ids"].shape == (2, 4)


@pytest.mark.parametrize("error", [NotImplementedError, PermissionError])
def test_rows_are_kept_where_a_file_system_has_no_locks(
    error: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(FileLock, "acquire", refuse)
    file, rows = tmp_path / "rows.arrow", Dataset.from_list([{"row": 1}])

    def make() -> Dataset:
        file.write_bytes(b"rows")
        return rows

    assert keep_whole(file, make) is rows
    assert is_whole(file)
