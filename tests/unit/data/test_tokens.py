"""The reader without transformers reads what transformers reads."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from understudy.data.encode import text_reader
from understudy.data.tokens import TextReader
from understudy.kinds import get_kind

TEXTS = st.text(max_size=60)


@pytest.fixture(scope="module")
def byte_level() -> PreTrainedTokenizerFast:
    """Of RoBERTa's kind: bytes, a space before every word, two separators between texts."""
    backend = Tokenizer(models.BPE(unk_token=None))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    backend.train_from_iterator(["the cat sleeps in paris", "a good film was not awful"] * 4, trainer)
    backend.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=True)
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token="<pad>",
        cls_token="<s>",
        sep_token="</s>",
        model_max_length=64,
        model_input_names=["input_ids", "attention_mask"],
    )


@pytest.fixture(params=["words", "bytes"])
def either(
    request: pytest.FixtureRequest, tokenizer: PreTrainedTokenizerFast, byte_level: PreTrainedTokenizerFast
) -> PreTrainedTokenizerFast:
    return tokenizer if request.param == "words" else byte_level


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_texts_and_pairs(
    data: Any, tokenizer: PreTrainedTokenizerFast, byte_level: PreTrainedTokenizerFast
) -> None:
    for one in (tokenizer, byte_level):
        firsts = data.draw(st.lists(TEXTS, min_size=1, max_size=3))
        seconds = data.draw(st.none() | st.just([text[::-1] for text in firsts]))
        theirs = one(firsts, seconds, truncation=True, max_length=12)
        ours = text_reader(one, get_kind("classification"), max_length=12).texts(firsts, seconds)
        assert [read.ids for read in ours] == theirs["input_ids"]
        if "token_type_ids" in theirs:
            assert [read.type_ids for read in ours] == theirs["token_type_ids"]


@settings(max_examples=100, deadline=None)
@given(question=st.text(max_size=10), context=st.text(max_size=120))
def test_windows(
    question: str, context: str, tokenizer: PreTrainedTokenizerFast, byte_level: PreTrainedTokenizerFast
) -> None:
    for one in (tokenizer, byte_level):
        reader = text_reader(one, get_kind("question-answering"), max_length=24, stride=6)
        windows = list(reader.questions([question], [context]))
        assert max(len(window.encoding.ids) for window in windows) <= 24
        if len(one(question, add_special_tokens=False)["input_ids"]) > reader.question_limit:
            continue
        theirs = one(
            [question],
            [context],
            truncation="only_second",
            max_length=24,
            stride=6,
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
        )
        assert [window.encoding.ids for window in windows] == theirs["input_ids"]
        for place, window in enumerate(windows):
            inside = [part == 1 for part in theirs.sequence_ids(place)]
            spans = theirs["offset_mapping"][place]
            assert window.starts == [
                span[0] if is_in else -1 for span, is_in in zip(spans, inside, strict=True)
            ]
            assert window.ends == [
                span[1] if is_in else -1 for span, is_in in zip(spans, inside, strict=True)
            ]


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("text", ["good bad film " * 100, "xyz" * 400, "a " * 300 + "b" * 300, " " * 900])
def test_texts_far_too_long_are_read_as_ever(
    text: str, side: str, tokenizer: PreTrainedTokenizerFast
) -> None:
    backend = tokenizer.backend_tokenizer
    reader = TextReader(backend, max_length=12, truncation_side=side)
    for pair in ([text], [text, "good"], [text, text[::-1]]):
        plain = Tokenizer.from_str(backend.to_str())
        plain.enable_truncation(12, direction=side)
        columns = [[part] for part in pair]
        expected = plain.encode(*pair)
        found = reader.texts(*columns)[0]
        assert found.ids == expected.ids
        assert bool(found.overflowing) == bool(expected.overflowing)
        assert len(found.overflowing) < 40


@pytest.mark.parametrize("side", ["left", "right"])
def test_long_pairs_share_the_room_as_in_transformers(side: str, tokenizer: PreTrainedTokenizerFast) -> None:
    """Of an odd number of tokens the longer text gets one more, even where both were shortened first."""
    generator = random.Random(0)
    words = ["good", "film", "xyzzy", "a", "very", "don't", "qwertyuiop"]

    def text() -> str:
        return " ".join(generator.choices(words, k=generator.choice([2, 20, 60, 150, 400])))

    tokenizer = copy.deepcopy(tokenizer)
    tokenizer.truncation_side = side
    kind = get_kind("classification")
    readers = {length: text_reader(tokenizer, kind, max_length=length) for length in (12, 13, 16, 17)}
    for _ in range(30):
        first, second, length = text(), text(), generator.choice(list(readers))
        theirs = tokenizer(first, second, truncation=True, max_length=length)["input_ids"]
        assert readers[length].texts([first], [second])[0].ids == theirs


def test_words_and_their_first_tokens(either: PreTrainedTokenizerFast) -> None:
    rows = [["Anna", "lives", "\x07", "in", "xyzzy"], [], ["a"] * 40]
    read = text_reader(either, get_kind("token-classification"), max_length=16).words(rows)
    theirs = either([" ".join(row) for row in rows], truncation=True, max_length=16)
    for place, one in enumerate(read):
        assert one.encoding.ids == theirs["input_ids"][place]
        seen = [word for word in one.word_ids if word >= 0]
        assert seen == sorted(set(seen))  # each word once, in order
    assert [word for word in read[2].word_ids if word >= 0] == list(range(14))


def test_a_word_with_signs_in_it_is_read_as_in_a_text(either: PreTrainedTokenizerFast) -> None:
    """`U.S.` has four parts whoever splits the text: what carries its tags is the same."""
    words = ["the", "U.S.", "lies", "north-west", "."]
    reader = text_reader(either, get_kind("token-classification"), max_length=64)
    (given,), ((raw, spans),) = reader.words([words]), reader.raw_words([" ".join(words)])
    assert given.encoding.ids == raw.encoding.ids
    carriers = [token for token, word in enumerate(raw.word_ids) if word >= 0]
    both = zip(given.word_ids, given.inside_ids, strict=True)
    assert carriers == [token for token, (word, part) in enumerate(both) if max(word, part) >= 0]
    text = " ".join(words)
    assert "".join(text[slice(*span)] for span in spans) == text.replace(" ", "")


@given(text=st.text(max_size=40))
@settings(max_examples=100, deadline=None)
def test_any_text_can_be_tagged(
    text: str, tokenizer: PreTrainedTokenizerFast, byte_level: PreTrainedTokenizerFast
) -> None:
    for one in (tokenizer, byte_level):
        ((read, spans),) = text_reader(one, get_kind("token-classification"), max_length=16).raw_words([text])
        seen = [word for word in read.word_ids if word >= 0]
        assert seen == sorted(set(seen))
        assert all(word < len(spans) for word in seen)
        assert spans == sorted(spans)


def test_the_reader_leaves_the_tokenizer_as_it_was(tokenizer: PreTrainedTokenizerFast) -> None:
    before = tokenizer.backend_tokenizer.to_str()
    text_reader(tokenizer, get_kind("classification"), max_length=5).texts(["a good film was very good"])
    assert tokenizer.backend_tokenizer.to_str() == before


def test_texts_are_cut_from_the_side_that_is_said(tokenizer: PreTrainedTokenizerFast) -> None:
    backend = tokenizer.backend_tokenizer
    left, right = (
        TextReader(backend, max_length=4, truncation_side=side).texts(["good bad film"])[0]
        for side in ("left", "right")
    )
    assert right.tokens[1:-1] == ["good", "bad"]
    assert left.tokens[1:-1] == ["bad", "film"]
