"""Models and batches, as the published code reads them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import set_seed

from understudy.data.encode import Collator, encode
from understudy.data.load import load_data
from understudy.data.settings import DataSettings
from understudy.kinds.tasks import get_task
from understudy.models.pretrained import load_tokenizer
from understudy.models.settings import StudentSettings
from understudy.models.student import load_student
from understudy.models.teacher import load_teacher

BATCH, LENGTH = 32, 128
START = "bert-12l-384h-mlm"
LABELS = ("not_equivalent", "equivalent")
CONFIG = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "hidden_act",
    "max_position_embeddings",
    "type_vocab_size",
    "initializer_range",
)


def load_pair(teacher: Path) -> tuple[Any, Any, Any]:
    """A teacher, a student of 4 layers of 312 with random weights, without dropout, and the tokenizer."""
    set_seed(1)
    task = get_task("mrpc")
    student, _ = load_student(
        StudentSettings(shape="tinybert-4l-312d"),
        str(teacher),
        task,
        LABELS,
        sample=lambda: (),
        dropout=0.0,
        attention="eager",
    )
    return load_teacher(str(teacher), task, LABELS), student, load_tokenizer(str(teacher))


def load_rows(glue: Path, tokenizer: Any, task_name: str = "mrpc", length: int = LENGTH) -> Any:
    """The training rows of a task, encoded."""
    task = get_task(task_name)
    data = load_data(task, DataSettings(source=str(glue)), ["train"])
    return encode(data.splits["train"], task.kind, tokenizer, max_length=length)


def pad(batch: dict[str, Tensor], length: int = LENGTH) -> dict[str, Tensor]:
    """A batch with every row filled up to the longest that is allowed."""
    return {
        name: nn.functional.pad(value, (0, length - value.shape[1])) if value.dim() == 2 else value
        for name, value in batch.items()
    }


def save_rows(rows: Any, tokenizer: Any, file: Path, length: int = LENGTH) -> Path:
    """Save encoded rows as padded arrays, which need none of our code to be read."""
    padded = pad(Collator(tokenizer)([rows[place] for place in range(len(rows))]), length)
    names = ("input_ids", "attention_mask", "token_type_ids")
    np.savez(file, **{name: padded[name].numpy() for name in names})
    return file.resolve()


def save_for_authors(model: Any, tokenizer: Any, folder: Path, fit: nn.Linear | None = None) -> None:
    """Save a BERT as the libraries of 2019 read it: weights as a pickle, config, vocab.txt."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = {name: value.contiguous() for name, value in model.state_dict().items()}
    if fit is not None:
        weights |= {f"fit_dense.{name}": value for name, value in fit.state_dict().items()}
    torch.save(weights, folder / "pytorch_model.bin")
    config = {name: getattr(model.config, name) for name in CONFIG}
    config |= {
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "pre_trained": "",
        "training": "",
    }
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    words = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    (folder / "vocab.txt").write_text("\n".join(word for word, _ in words) + "\n", "utf-8")
