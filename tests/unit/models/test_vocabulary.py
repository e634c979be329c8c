"""Smaller vocabularies: the same tokens where all were kept, smaller pieces elsewhere."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    AutoModel,
    AutoTokenizer,
    BertConfig,
    BertModel,
    PreTrainedTokenizerFast,
    RobertaConfig,
)

from understudy.errors import ModelError
from understudy.models.vocabulary import kept_ids, trim_model, trim_tokenizer

TEXT = """the understudy learns the part of the great actor and plays it when the actor is away . a small
encoder learns what a large encoder knows : its layers , its predictions and nothing else . learning and
learned learner relearn the unlearnt lesson of the theatre , greatly and greater than great ."""
WORDS = [*sorted(set(TEXT.split())), "theatrical", "actress", "greatness", "encoding", "unknowable"]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
KINDS = ("WordPiece", "Unigram", "BPE", "byte-level BPE", "BPE with prefixes", "BPE with suffixes")


@cache
def trained(kind: str) -> PreTrainedTokenizerFast:
    lines = TEXT.split("\n")
    if kind == "WordPiece":
        made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        trainer: Any = trainers.WordPieceTrainer(vocab_size=160, special_tokens=SPECIAL)
    elif kind == "Unigram":
        made = Tokenizer(models.Unigram())
        made.pre_tokenizer = pre_tokenizers.Metaspace()
        trainer = trainers.UnigramTrainer(vocab_size=120, special_tokens=SPECIAL, unk_token="[UNK]")
    else:
        marks = {
            "BPE with prefixes": {"continuing_subword_prefix": "##"},
            "BPE with suffixes": {"end_of_word_suffix": "</w>"},
        }.get(kind, {})
        made = Tokenizer(models.BPE(unk_token=None if kind.startswith("byte") else "[UNK]", **marks))
        alphabet = pre_tokenizers.ByteLevel.alphabet() if kind.startswith("byte") else []
        made.pre_tokenizer = (
            pre_tokenizers.ByteLevel(add_prefix_space=False) if alphabet else pre_tokenizers.Whitespace()
        )
        made.decoder = decoders.ByteLevel() if alphabet else None
        trainer = trainers.BpeTrainer(
            vocab_size=400 if alphabet else 140, special_tokens=SPECIAL, initial_alphabet=alphabet, **marks
        )
    made.normalizer = normalizers.Lowercase()
    made.train_from_iterator(lines, trainer)
    places = [(name, made.token_to_id(name)) for name in ("[SEP]", "[CLS]")]
    made.post_processor = (
        processors.RobertaProcessing(*places)
        if kind.startswith("byte")
        else processors.TemplateProcessing(
            "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", list(reversed(places))
        )
    )
    names = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
    return PreTrainedTokenizerFast(
        tokenizer_object=made, **{f"{name}_token": token for name, token in names.items()}
    )


def tokens(tokenizer: PreTrainedTokenizerFast, text: str) -> list[str]:
    return list(tokenizer.convert_ids_to_tokens(tokenizer(text)["input_ids"]))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_a_text_whose_tokens_are_kept_is_read_as_before(kind: str, data: st.DataObject) -> None:
    whole = trained(kind)
    used = data.draw(st.sets(st.sampled_from(range(len(whole))), max_size=80))
    kept = kept_ids(whole, used)
    small = trim_tokenizer(whole, kept)
    assert len(small) == len(kept)
    assert [small.convert_tokens_to_ids(one) for one in whole.convert_ids_to_tokens(kept)] == list(
        range(len(kept))
    )
    for text in data.draw(st.lists(st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join), max_size=12)):
        before, after = whole(text)["input_ids"], small(text)["input_ids"]
        if set(before) <= set(kept):
            assert [kept[one] for one in after] == before
        assert small.unk_token_id not in after or whole.unk_token_id in before


@pytest.mark.parametrize("kind", KINDS)
def test_other_texts_fall_back_to_characters(kind: str) -> None:
    whole = trained(kind)
    small = trim_tokenizer(whole, kept_ids(whole, ()))
    assert len(small) < len(whole) / 1.2
    found = tokens(small, "greater")
    assert "[UNK]" not in found
    assert len(found) == 2 + len("greater") + (kind == "Unigram" and found[1] == "▁")


def test_pairs_get_their_special_tokens(tmp_path: Path) -> None:
    whole = trained("WordPiece")
    small = trim_tokenizer(whole, kept_ids(whole, whole("the actor learns")["input_ids"]))
    small.save_pretrained(tmp_path)
    again = AutoTokenizer.from_pretrained(tmp_path)
    assert len(again) == len(small)
    for tokenizer in (small, again):
        read = tokenizer("the actor", "learns")
        assert tokens(tokenizer, "the actor") == tokens(whole, "the actor")
        specials = [read["input_ids"][place] for place in (0, 3, 5)]
        assert specials == [tokenizer.cls_token_id, *[tokenizer.sep_token_id] * 2]
    padded = again(["the", "the actor learns"], padding=True)["input_ids"]
    assert padded[0][-1] == again.pad_token_id


SIZES: dict[str, int] = {
    "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16
}  # fmt: skip


@pytest.mark.parametrize("config_class", [BertConfig, RobertaConfig])
def test_a_model_gives_the_same_states_for_kept_tokens(config_class: Any, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = AutoModel.from_config(config_class(vocab_size=160, pad_token_id=1, **SIZES)).eval()
    kept = [0, 1, 5, 7, 20, 33, 90]
    ids = torch.tensor([[20, 7, 90, 5, 1], [33, 5, 20, 1, 1]])
    mask = (ids != 1).long()
    before = model(ids, attention_mask=mask).last_hidden_state
    trim_model(model, kept)
    assert model.config.vocab_size == 7
    model.save_pretrained(tmp_path)
    again = AutoModel.from_pretrained(tmp_path).eval()
    renumbered = torch.tensor([[kept.index(one) for one in row] for row in ids.tolist()])
    for one in (model, again):
        after = one(renumbered, attention_mask=mask).last_hidden_state
        assert torch.allclose(after[mask.bool()], before[mask.bool()], atol=1e-6)


def test_positions_that_are_counted_from_the_padding_must_not_move() -> None:
    model = AutoModel.from_config(RobertaConfig(vocab_size=160, pad_token_id=5, **SIZES))
    with pytest.raises(ModelError, match="counted from its padding token, id 5"):
        trim_model(model, [0, 5, 7])


def test_special_tokens_of_a_config_are_renumbered() -> None:
    model = BertModel(BertConfig(vocab_size=160, pad_token_id=4, **SIZES))
    trim_model(model, [2, 4, 9])
    assert model.config.pad_token_id == 1
    assert model.get_input_embeddings().padding_idx == 1


def test_other_tokenizers_are_refused() -> None:
    words = Tokenizer(models.WordLevel({"a": 0, "[UNK]": 1}, unk_token="[UNK]"))
    with pytest.raises(ModelError, match="WordLevel"):
        kept_ids(PreTrainedTokenizerFast(tokenizer_object=words), ())
