"""Vectors of sentences: by hand, and whatever stands beside them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from understudy.mining.vectors import (
    StateVectors,
    StaticVectors,
    count_tokens,
    sif_weights,
    static_table,
)
from understudy.models.pretrained import load_encoder, load_tokenizer

TEXTS = ["the good film", "a very bad film in the city", "", "good"]


def test_a_static_vector_is_the_mean_of_its_tokens(encoder: Path) -> None:
    tokenizer = load_tokenizer(str(encoder))
    table = np.random.default_rng(0).normal(size=(len(tokenizer), 5)).astype(np.float32)
    vectors = StaticVectors(tokenizer, table)(TEXTS)
    for text, vector in zip(TEXTS, vectors, strict=True):
        mean = table[tokenizer(text, add_special_tokens=False)["input_ids"]].sum(axis=0)
        expected = mean / np.linalg.norm(mean) if text else np.zeros(5)
        assert vector == pytest.approx(expected, abs=1e-6)
    assert StaticVectors(tokenizer, table)([]).shape == (0, 5)


def test_a_tokenizer_that_pads_and_cuts_is_read_as_any_other(encoder: Path) -> None:
    """Tokenizers of sentence embedders do both by themselves."""
    tokenizer = load_tokenizer(str(encoder))
    plain = count_tokens(tokenizer, TEXTS)
    tokenizer.backend_tokenizer.enable_padding(length=128)
    tokenizer.backend_tokenizer.enable_truncation(2)
    assert count_tokens(tokenizer, TEXTS).tolist() == plain.tolist()
    assert plain[tokenizer.pad_token_id] == 0
    assert plain.sum() == sum(len(text.split()) for text in TEXTS)


def test_frequent_tokens_weigh_less(encoder: Path) -> None:
    tokenizer = load_tokenizer(str(encoder))
    table = static_table(tokenizer, load_encoder(str(encoder)), ["the film", "the city", "the dog"] * 100)
    the, film, unseen = (tokenizer.convert_tokens_to_ids(word) for word in ("the", "film", "awful"))
    weights = sif_weights(count_tokens(tokenizer, ["the film", "the city", "the dog"]))
    assert weights[the] < weights[film] < weights[unseen] == 1.0
    assert not table[tokenizer.all_special_ids].any()
    assert table[unseen].any()


def test_mean_states_do_not_depend_on_what_stands_beside_them(encoder: Path) -> None:
    tokenizer, model = load_tokenizer(str(encoder)), load_encoder(str(encoder))
    embed = StateVectors(tokenizer, model, max_length=32)
    together = embed(TEXTS)
    for text, vector in zip(TEXTS, together, strict=True):
        assert embed([text])[0] == pytest.approx(vector, abs=1e-5)
        with torch.inference_mode():
            states = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0].mean(dim=0)
        assert vector == pytest.approx((states / states.norm()).numpy(), abs=1e-5)
