"""Teachers: fine-tuned, frozen, without dropout, with the fastest attention."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn
from transformers import PreTrainedModel

from understudy.data.task import Task
from understudy.models.pretrained import load_model


def load_teacher(model: str, task: Task, labels: Sequence[str] | None) -> PreTrainedModel:
    """Load a fine-tuned model whose head and labels fit the task, and freeze it.

    Args:
        labels: the data's labels; a teacher with other labels, or another order, is refused.
    """
    teacher = load_model(model, task, labels, fine_tuned=True)
    freeze(teacher)
    return teacher


def freeze(teacher: nn.Module) -> None:
    """Disable gradients and dropout; being outside the Trainer, the teacher never gets a `train()` call."""
    teacher.eval()
    teacher.requires_grad_(False)


def cast_linears(teacher: nn.Module, precision: torch.dtype) -> None:
    """Cast linear weights to the autocast precision once, instead of on every forward pass."""
    for module in teacher.modules():
        if isinstance(module, nn.Linear):
            module.to(precision)


def keep_layers(teacher: PreTrainedModel, num_layers: int) -> None:
    """Remove the layers of an encoder above the first `num_layers`, which nothing learns from.

    One more layer is kept, since some families (ModernBERT) normalise the output of their last layer.
    """
    total, kept = teacher.config.num_hidden_layers, num_layers + 1
    stacks = [
        (parent, name, child)
        for parent in teacher.base_model.modules()
        for name, child in parent.named_children()
        if isinstance(child, nn.ModuleList) and len(child) == total
    ]
    if kept < total and len(stacks) == 1:  # ALBERT repeats one layer, so it runs whole
        parent, name, child = stacks[0]
        setattr(parent, name, child[:kept])
        teacher.config.num_hidden_layers = kept
