"""A small tokenizer and encoder with random weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertForMaskedLM, PreTrainedTokenizerFast

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def make_tokenizer(pieces: Sequence[str], *, max_length: int = 128) -> PreTrainedTokenizerFast:
    """Make a lowercase WordPiece tokenizer of these pieces and the special tokens."""
    vocabulary = {piece: index for index, piece in enumerate(dict.fromkeys([*SPECIAL, *pieces]))}
    backend = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])],
    )
    names = {f"{name[1:-1].lower()}_token": name for name in SPECIAL}
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        model_max_length=max_length,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        **names,
    )


def write_encoder(
    folder: Path, tokenizer: PreTrainedTokenizerFast, *, width: int = 32, layers: int = 2, heads: int = 2
) -> Path:
    """Write a BERT with a masked-LM head and its tokenizer to a folder, and return the folder."""
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=2 * width,
        max_position_embeddings=tokenizer.model_max_length,
        initializer_range=0.2,  # wide enough that a fresh model is not a constant
    )
    BertForMaskedLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
