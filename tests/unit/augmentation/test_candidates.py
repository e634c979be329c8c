"""Candidates of the masked language model against one plain forward pass per word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForMaskedLM, BertForMaskedLM, PreTrainedTokenizerFast

from understudy.augmentation import candidates
from understudy.augmentation.candidates import Candidates, MaskedWords, whole_words
from understudy.augmentation.replace import Question
from understudy.augmentation.vectors import Vectors
from understudy.augmentation.words import find_words, is_word
from understudy.errors import ModelError

TEXTS = [
    "the good film was great",
    "it was a very bad movie and the cat runs in paris",
    "anna lives in rome",
    "awful",
    "The Zebra sleeps at acme , and bert works . " * 4,
]


@pytest.fixture(scope="module")
def model(encoder: Path) -> BertForMaskedLM:
    torch.manual_seed(0)
    model = AutoModelForMaskedLM.from_pretrained(encoder).eval()
    for parameter in model.parameters():  # so that words differ clearly
        parameter.data += 0.2 * torch.randn_like(parameter)
    return model


def questions() -> list[Question]:
    return [Question(text, span) for text in TEXTS for span in find_words(text, frozenset())]


def plain(model: Any, tokenizer: PreTrainedTokenizerFast, question: Question, count: int) -> list[str]:
    """One forward pass over the text with [MASK] written into it; all logits, all of them sorted."""
    start, end = question.span
    text = question.text[:start] + tokenizer.mask_token + question.text[end:]
    inputs = tokenizer(text, return_tensors="pt")
    place = inputs["input_ids"][0].tolist().index(tokenizer.mask_token_id)
    with torch.no_grad():
        logits = model(**inputs).logits[0, place]
    tokens = tokenizer.convert_ids_to_tokens(logits.argsort(descending=True).tolist())
    words = [token for token in tokens if is_word(token) and token.lower() != question.word.lower()]
    return words[:count]


def test_candidates_are_those_of_one_pass_per_word(model: Any, tokenizer: Any) -> None:
    masked = MaskedWords(model, tokenizer, count=5, max_length=64)
    for question, found in zip(questions(), masked(questions()), strict=True):
        assert list(found) == plain(model, tokenizer, question, 5)
        assert question.word.lower() not in found


@pytest.mark.parametrize("tokens", [32, 512, 100_000])
def test_the_size_of_a_pass_changes_nothing(
    model: Any, tokenizer: Any, tokens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    masked = MaskedWords(model, tokenizer, count=5, max_length=64)
    expected = masked(questions())
    monkeypatch.setattr(candidates, "TOKENS_PER_PASS", tokens)
    assert masked(questions()) == expected
    assert [masked([question])[0] for question in questions()] == expected


def test_a_long_text_is_read_around_the_word(model: Any, tokenizer: Any) -> None:
    text = " ".join(["good"] * 100 + ["film"] + ["bad"] * 100)
    masked = MaskedWords(model, tokenizer, count=5, max_length=13)
    (ids, place), (first, first_place), (last, last_place) = masked.mask(
        [Question(text, (500, 504)), Question(text, (0, 4)), Question(text, (len(text) - 3, len(text)))]
    )
    tokens = tokenizer.convert_ids_to_tokens(ids)
    assert tokens == ["[CLS]", *["good"] * 5, "[MASK]", *["bad"] * 5, "[SEP]"]
    assert tokens[place] == "[MASK]"
    assert len(first) == len(last) == 13
    assert first[first_place] == last[last_place] == tokenizer.mask_token_id


def test_special_tokens_and_pieces_are_no_words(tokenizer: Any) -> None:
    words = whole_words(tokenizer, len(tokenizer))
    assert words[tokenizer.convert_tokens_to_ids("film")] == "film"
    for token in tokenizer.all_special_ids:
        assert words[token] is None
    assert words[tokenizer.convert_tokens_to_ids(".")] is None


def test_a_vocabulary_with_too_few_words_is_refused(model: Any, tokenizer: Any) -> None:
    whole = sum(word is not None for word in whole_words(tokenizer, len(tokenizer)))
    MaskedWords(model, tokenizer, count=whole - 4, max_length=32)  # four more are asked for
    with pytest.raises(ModelError, match=rf"has {whole} whole words; {whole + 1} are needed"):
        MaskedWords(model, tokenizer, count=whole - 3, max_length=32)


def test_words_of_several_pieces_come_from_vectors(model: Any, tokenizer: Any) -> None:
    vectors = Vectors(
        ["zebra", "horse", "pony", "film", "cat"],
        np.array([[1, 0], [0.9, 0.1], [0.8, 0.3], [0, 1], [0, 0]], dtype=np.float32),
    )
    several = Question("the Zebra sleeps", (4, 9))
    single, unknown = Question("the cat sleeps", (4, 7)), Question("the yak sleeps", (4, 7))
    masked = MaskedWords(model, tokenizer, count=2, max_length=64)
    monkey_pieces = Candidates(masked, vectors, {})
    monkey_pieces._has_pieces = {"Zebra": True}
    monkey_pieces._near = vectors.neighbours(["Zebra"], 2)
    answers = monkey_pieces([several, single, unknown])
    assert answers[several] == ("horse", "pony")
    assert answers[single] == masked([single])[0]
    assert answers[unknown] == masked([unknown])[0]
    assert Candidates(masked, None, {})([several])[several] == masked([several])[0]


def test_entities_are_others_of_their_type(model: Any, tokenizer: Any) -> None:
    masked = MaskedWords(model, tokenizer, count=2, max_length=64)
    question = Question("Anna sleeps", (0, 4), "PER")
    names = {"PER": ("Anna", "Bert", "Li")}
    assert Candidates(masked, None, names)([question])[question] == ["Bert", "Li"]


def test_byte_pairs_have_whole_words_behind_a_space() -> None:
    names = [
        "<s>",
        "<pad>",
        "a",
        "Ġfilm",
        "film",
        "lm",
        "<mask>",
        "Ġ",
        "f",
        "i",
        "l",
        "m",
        "Ġf",
        "Ġfi",
        "Ġfil",
    ]
    merges = [("Ġ", "f"), ("Ġf", "i"), ("Ġfi", "l"), ("Ġfil", "m"), ("l", "m")]
    backend = Tokenizer(models.BPE({name: place for place, name in enumerate(names)}, merges))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, mask_token="<mask>", pad_token="<pad>", cls_token="<s>"
    )
    found = dict(zip(names, whole_words(tokenizer, len(names)), strict=True))
    assert found["Ġfilm"] == "film"
    assert found["film"] is None  # a piece inside of a word
    assert found["lm"] is None
    assert found["<mask>"] is None
