"""Attention maps of student and teacher for real sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from understudy.data.task import Task
from understudy.models.pretrained import load_model, load_tokenizer
from understudy.training.model import encoder_inputs

MAX_TOKENS = 24


@dataclass(frozen=True)
class AttentionMaps:
    """The tokens of a text, and an attention matrix for each pair of layers.

    Attributes:
        pairs: student layer and teacher layer, counted from 1.
    """

    tokens: list[str]
    pairs: list[tuple[int, int]]
    student: list[NDArray[Any]]
    teacher: list[NDArray[Any]]


def attention_maps(
    student: str,
    teacher: str,
    task: Task,
    labels: Sequence[str] | None,
    texts: Sequence[tuple[str, ...]],
    *,
    paired: Sequence[int],
) -> list[AttentionMaps]:
    """Return both models' attention, averaged over heads; empty for a family that does not expose it.

    Args:
        paired: the teacher layer for each of the student's, counted from 1.
    """
    tokenizer, teachers_own = load_tokenizer(student), load_tokenizer(teacher)
    models = [
        load_model(name, task, labels, fine_tuned=True, attention="eager") for name in (student, teacher)
    ]
    for model in models:
        model.train(False)
    made = []
    for text in texts:
        both = [
            one(*text, return_tensors="pt", truncation=True, max_length=MAX_TOKENS)
            for one in (tokenizer, teachers_own)
        ]
        tokens = list(tokenizer.convert_ids_to_tokens(both[0]["input_ids"][0]))
        if tokens != list(teachers_own.convert_ids_to_tokens(both[1]["input_ids"][0])):
            continue  # a student with a smaller vocabulary splits it differently
        seen = []
        for model, encoded in zip(models, both, strict=True):
            with torch.no_grad():
                names = encoder_inputs(model)
                taken = {name: value for name, value in encoded.items() if name in names}
                output = model.base_model(**taken, output_attentions=True)
            if not getattr(output, "attentions", None) or output.attentions[0] is None:
                return []
            seen.append(output.attentions)
        pairs = list(enumerate(paired, start=1))
        made.append(
            AttentionMaps(
                tokens,
                pairs,
                [mean_heads(seen[0][one - 1][0]) for one, _ in pairs],
                [mean_heads(seen[1][other - 1][0]) for _, other in pairs],
            )
        )
    return made


def mean_heads(attention_NLL: Tensor) -> NDArray[Any]:
    """Average a layer's attention over its heads."""
    return np.asarray(attention_NLL.float().mean(dim=0).cpu().numpy())
