"""A smaller vocabulary: keep some tokens of a tokenizer, and their embeddings in a model.

Most weights of a small encoder are embeddings. A text whose tokens are all kept is read as before; any other
falls back to smaller pieces, since all single characters are kept.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from understudy.errors import ModelError
from understudy.models.families import family_of

# V kept tokens, E width of an embedding

_MODELS = ("WordPiece", "Unigram", "BPE")
_SPACES = ("▁", "Ġ")  # how SentencePiece and byte-level tokenizers write a space


def kept_ids(tokenizer: PreTrainedTokenizerFast, used: Collection[int]) -> list[int]:
    """Return the ids to keep, in order: used tokens, special ones, single characters, and what BPE needs.

    A BPE token is merged from two others, which are kept with it.
    """
    content = _content(tokenizer)
    model = content["model"]
    ids = _ids(model)
    special = {one["id"] for one in content["added_tokens"]}
    characters = {place for token, place in ids.items() if len(_bare(token, model)) <= 1 or _is_byte(token)}
    kept = {*used, *special, *characters, *_unknown(model, ids)}
    if model["type"] == "BPE":
        kept |= _parts(model, ids, kept)
    return sorted(kept & {*ids.values(), *special})


def trim_tokenizer(tokenizer: PreTrainedTokenizerFast, kept: Sequence[int]) -> PreTrainedTokenizerFast:
    """Return a tokenizer with some tokens of another; `kept` has their old ids, in the new order."""
    new = {old: place for place, old in enumerate(kept)}
    content = _content(tokenizer)
    model = content["model"]
    if model["type"] == "Unigram":
        model["vocab"] = [model["vocab"][old] for old in kept if old < len(model["vocab"])]
        if model.get("unk_id") is not None:
            model["unk_id"] = new[model["unk_id"]]
    else:
        model["vocab"] = {token: new[old] for token, old in model["vocab"].items() if old in new}
    if model["type"] == "BPE":
        model["merges"] = [pair for pair in model["merges"] if _merged(pair, model) in model["vocab"]]
    for token in content["added_tokens"]:
        token["id"] = new[token["id"]]
    _renumber(content.get("post_processor"), new)
    if content.get("padding"):
        content["padding"]["pad_id"] = new[content["padding"]["pad_id"]]
    trimmed = copy.deepcopy(tokenizer)
    trimmed._tokenizer = Tokenizer.from_str(json.dumps(content))
    return trimmed


def trim_model(model: PreTrainedModel, kept: Sequence[int]) -> None:
    """Keep the embeddings of some tokens only, and renumber the special tokens in the config."""
    old = model.get_input_embeddings()
    assert isinstance(old, nn.Embedding)
    new = {id_: place for place, id_ in enumerate(kept)}
    padding = new.get(old.padding_idx) if old.padding_idx is not None else None
    if family_of(model.config).positions_after_padding and padding != old.padding_idx:
        raise ModelError(
            f"positions of {model.config.model_type} are counted from its padding token, id "
            f"{old.padding_idx}, and tokens before it would be left out. Leave student.vocabulary out."
        )
    weight_VE = old.weight.detach()[torch.tensor(kept)].clone()
    model.set_input_embeddings(
        nn.Embedding(len(kept), old.embedding_dim, padding_idx=padding, _weight=weight_VE)
    )
    model.config.vocab_size = len(kept)
    for name, value in vars(model.config).items():
        if name.endswith("_token_id") and isinstance(value, int):
            setattr(model.config, name, new.get(value))


def _content(tokenizer: PreTrainedTokenizerFast) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(tokenizer.backend_tokenizer.to_str())
    kind = content["model"]["type"]
    if kind not in _MODELS:
        raise ModelError(
            f"a {kind} tokenizer cannot be made smaller; only {', '.join(_MODELS)} can. Leave "
            "student.vocabulary out."
        )
    return content


def _ids(model: Mapping[str, Any]) -> dict[str, int]:
    """Return the id of each token."""
    if model["type"] == "Unigram":
        return {token: place for place, (token, _) in enumerate(model["vocab"])}
    return dict(model["vocab"])


def _bare(token: str, model: Mapping[str, Any]) -> str:
    """Return a token without its marker for the inside, start or end of a word."""
    token = token.removeprefix(model.get("continuing_subword_prefix") or "")
    token = token.removesuffix(model.get("end_of_word_suffix") or "")
    return token[1:] if len(token) > 1 and token[0] in _SPACES else token


def _is_byte(token: str) -> bool:
    return len(token) == 6 and token.startswith("<0x") and token.endswith(">")


def _unknown(model: Mapping[str, Any], ids: Mapping[str, int]) -> set[int]:
    if model["type"] == "Unigram":
        return {model["unk_id"]} if model.get("unk_id") is not None else set()
    return {ids[model["unk_token"]]} if model.get("unk_token") in ids else set()


def _pair(merge: str | Sequence[str]) -> tuple[str, str]:
    first, second = merge.split(" ") if isinstance(merge, str) else merge
    return first, second


def _merged(merge: str | Sequence[str], model: Mapping[str, Any]) -> str:
    """Return the token that a pair is merged to."""
    first, second = _pair(merge)
    return first + second.removeprefix(model.get("continuing_subword_prefix") or "")


def _parts(model: Mapping[str, Any], ids: Mapping[str, int], kept: Collection[int]) -> set[int]:
    """Return the tokens that kept BPE tokens are merged from, at every step."""
    parts: dict[str, list[tuple[str, str]]] = {}
    for merge in model["merges"]:
        parts.setdefault(_merged(merge, model), []).append(_pair(merge))
    waiting = [token for token, place in ids.items() if place in kept]
    found: set[str] = set()
    while waiting:
        token = waiting.pop()
        for pair in parts.get(token, ()):
            new = {one for one in pair if one not in found}
            found |= new
            waiting.extend(new)
    return {ids[token] for token in found if token in ids}


def _renumber(processor: dict[str, Any] | None, new: Mapping[int, int]) -> None:
    """Renumber the special tokens that a post-processor adds."""
    if processor is None:
        return
    for one in processor.get("processors", ()):
        _renumber(one, new)
    for name in ("sep", "cls"):
        if name in processor:
            processor[name][1] = new[processor[name][1]]
    for special in processor.get("special_tokens", {}).values():
        special["ids"] = [new[old] for old in special["ids"]]
