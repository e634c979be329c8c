"""Vectors of sentences: close vectors mean similar text.

`StaticVectors` follows the idea of model2vec: each token goes through the encoder once, alone, and a sentence
is the mean of its tokens' vectors, in which frequent tokens weigh less (SIF). model2vec itself is not used:
its distillation needs an older transformers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from understudy.data.encode import special_tokens
from understudy.data.tokens import tokenize
from understudy.models.pretrained import default_device
from understudy.progress import progress

# S sentences, V vocabulary, D dimensions, B batch, L tokens

Vectors = NDArray[np.float32]
Embed = Callable[[Sequence[str]], Vectors]
"""A function of sentences that returns a vector of unit length for each; zeros for one without tokens."""

DIMENSIONS = 256
_SIF = 1e-4  # the a in the weight a / (a + p) of a token with frequency p
_BATCH = 512
_STATES_BATCH = 64


class StaticVectors:
    """A function that averages the vectors of a sentence's tokens."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast, table_VD: Vectors) -> None:
        self.tokenizer = tokenizer
        self.table_VD = torch.from_numpy(table_VD)

    def __call__(self, sentences: Sequence[str]) -> Vectors:
        if not sentences:
            return np.empty((0, self.table_VD.shape[1]), np.float32)
        tokens = _token_ids(self.tokenizer, sentences)
        lengths = [len(ids) for ids in tokens]
        ids = torch.tensor([token for ids in tokens for token in ids], dtype=torch.long)
        starts = torch.tensor([0, *np.cumsum(lengths)[:-1]], dtype=torch.long)
        sums_SD = torch.nn.functional.embedding_bag(ids, self.table_VD, starts, mode="sum")
        return _unit(sums_SD.numpy())


class StateVectors:
    """A function that averages an encoder's last hidden states."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast, encoder: PreTrainedModel, max_length: int) -> None:
        self.tokenizer, self.max_length = tokenizer, max_length
        self.encoder: Any = encoder.to(default_device())  # type: ignore[arg-type]

    def __call__(self, sentences: Sequence[str]) -> Vectors:
        order = np.argsort([len(sentence) for sentence in sentences], kind="stable")
        found = np.empty((len(sentences), self.encoder.config.hidden_size), np.float32)
        for start in range(0, len(order), _STATES_BATCH):
            places = order[start : start + _STATES_BATCH]
            batch = self.tokenizer(
                [sentences[place] for place in places],
                truncation=True,
                max_length=self.max_length,
                padding=True,
                return_tensors="pt",
            ).to(self.encoder.device)
            with torch.inference_mode():
                states_BLD = self.encoder(**batch).last_hidden_state
            mask_BL1 = batch["attention_mask"][:, :, None]
            means_BD = (states_BLD * mask_BL1).sum(dim=1) / mask_BL1.sum(dim=1)
            found[places] = means_BD.float().cpu().numpy()
        return _unit(found)


def static_table(
    tokenizer: PreTrainedTokenizerFast, encoder: PreTrainedModel, sample: Iterable[str]
) -> Vectors:
    """Return the vector of every token: the encoder's mean state for it, reduced by PCA, times its weight.

    Args:
        sample: text in which tokens are counted.
    """
    states_VH = _token_states(tokenizer, encoder)
    centred_VH = states_VH - states_VH.mean(axis=0)
    # The directions of the largest variance; eigh sorts them from the smallest.
    _, directions_HH = np.linalg.eigh(centred_VH.T.astype(np.float64) @ centred_VH)
    chosen_HD = directions_HH[:, ::-1][:, :DIMENSIONS]
    table_VD = centred_VH @ chosen_HD
    weights_V = sif_weights(count_tokens(tokenizer, sample))
    weights_V[[one for one in tokenizer.all_special_ids if one < len(weights_V)]] = 0.0
    weighted_VD: Vectors = (table_VD * weights_V[:, None]).astype(np.float32)
    return weighted_VD


def sif_weights(counts_V: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the weight a / (a + p) of each token, where p is its share of all tokens.

    >>> sif_weights(np.array([0, 1, 9999])).round(2).tolist()
    [1.0, 0.5, 0.0]
    """
    shares_V = counts_V / max(1, counts_V.sum())
    weights_V: NDArray[np.float64] = _SIF / (_SIF + shares_V)
    return weights_V


def count_tokens(tokenizer: PreTrainedTokenizerFast, texts: Iterable[str]) -> NDArray[np.int64]:
    """Count each token in some texts."""
    counts_V = np.zeros(len(tokenizer), np.int64)
    rest = iter(texts)
    while part := list(islice(rest, _BATCH)):
        for ids in _token_ids(tokenizer, part):
            np.add.at(counts_V, np.asarray(ids, np.int64), 1)
    return counts_V


def _token_ids(tokenizer: PreTrainedTokenizerFast, texts: Sequence[str]) -> list[list[int]]:
    """Return the tokens of whole texts, without special tokens and padding."""
    backend = tokenizer.backend_tokenizer
    backend.no_truncation()
    backend.no_padding()
    return [encoding.ids for encoding in tokenize(backend, texts, special_tokens=False, offsets=False)]


def _token_states(tokenizer: PreTrainedTokenizerFast, encoder: Any) -> Vectors:
    """Run every token through the encoder alone, between the special tokens."""
    before, after = special_tokens(tokenizer)
    device = default_device()
    encoder = encoder.to(device).eval()
    parts = []
    with progress("Vectors of tokens", len(tokenizer), "tokens") as advance:
        for start in range(0, len(tokenizer), _BATCH):
            tokens = range(start, min(start + _BATCH, len(tokenizer)))
            ids_BL = torch.tensor([[*before, token, *after] for token in tokens], device=device)
            with torch.inference_mode():
                states_BLH = encoder(
                    input_ids=ids_BL, attention_mask=torch.ones_like(ids_BL)
                ).last_hidden_state
            parts.append(states_BLH.mean(dim=1).float().cpu().numpy())
            advance(len(tokens))
    return np.concatenate(parts)


def _unit(vectors_SD: NDArray[Any]) -> Vectors:
    lengths_S1 = np.linalg.norm(vectors_SD, axis=1, keepdims=True)
    return (vectors_SD / np.where(lengths_S1 > 0, lengths_S1, 1.0)).astype(np.float32)
