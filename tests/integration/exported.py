"""Tiny fine-tuned models of every kind and family, to be exported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from kinds import EXAMPLES
from transformers import AutoConfig, AutoModel, PreTrainedTokenizerFast

import understudy

SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 130,
    "initializer_range": 0.2,
    "type_vocab_size": 2,
}
# Each family's own names of sizes, and whether it tells segments apart.
FAMILIES: dict[str, tuple[dict[str, Any], bool]] = {
    "bert": ({}, True),
    "roberta": ({}, False),
    "electra": ({"embedding_size": 16}, True),
    "distilbert": ({"dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 64}, False),
    "modernbert": ({}, False),
    "mpnet": ({}, False),
}
TRAINING = {
    "training.per_device_train_batch_size": 8,
    "training.report_to": "none",
    "training.load_best_model_at_end": False,
    "training.eval_strategy": "no",
    "training.save_strategy": "no",
    "training.disable_tqdm": True,
    "training.learning_rate": 5e-3,
    "dropout": 0.0,
    "data.max_length": 64,
}


def write_encoder(family: str, tokenizer: PreTrainedTokenizerFast, folder: Path) -> Path:
    """An encoder of a family without a head, with a tokenizer that gives what it takes."""
    own, has_segments = FAMILIES[family]
    names = {"pad": "[PAD]", "cls": "[CLS]", "sep": "[SEP]"}
    ids = {f"{name}_token_id": tokenizer.convert_tokens_to_ids(token) for name, token in names.items()}
    ids |= {"bos_token_id": ids["cls_token_id"], "eos_token_id": ids["sep_token_id"]}
    torch.manual_seed(0)
    config = AutoConfig.for_model(family, **{"vocab_size": len(tokenizer), **SIZES, **ids, **own})
    AutoModel.from_config(config).save_pretrained(folder)
    inputs = ["input_ids", "token_type_ids", "attention_mask"]
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer.backend_tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_max_length=128,
        model_input_names=[name for name in inputs if has_segments or name != "token_type_ids"],
    ).save_pretrained(folder)
    return folder


def fine_tune(encoder: Path, kind: str, folder: Path, *, steps: int) -> Path:
    """A model of one of the kinds, in a folder of its task's name."""
    example = EXAMPLES[kind]
    file = str(example.write(folder))
    settings = TRAINING | {"data.train": file, "data.dev": file, "training.max_steps": steps}
    understudy.finetune(encoder, task=example.task, output_dir=folder / example.task, settings=settings)
    return folder / example.task
