"""A teacher: fine-tuned, frozen, without dropout, on the fastest attention."""

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
        labels: the data's; a teacher that names others, or in another order, is refused.
    """
    teacher = load_model(model, task, labels, fine_tuned=True)
    freeze(teacher)
    return teacher


def freeze(teacher: nn.Module) -> None:
    """No gradients, no dropout: nothing may call `train()` on it, for it stands outside the Trainer."""
    teacher.eval()
    teacher.requires_grad_(False)


def cast_linears(teacher: nn.Module, precision: torch.dtype) -> None:
    """Round the weights that autocast would round on every forward pass, once. Nothing else changes."""
    for module in teacher.modules():
        if isinstance(module, nn.Linear):
            module.to(precision)


def keep_layers(teacher: PreTrainedModel, num_layers: int) -> None:
    """Let the encoder end soon after its first layers: deeper ones that nobody learns from are not run.

    One layer more stays, since some families (ModernBERT) norm the output of their last one.
    """
    total, kept = teacher.config.num_hidden_layers, num_layers + 1
    stacks = [
        (parent, name, child)
        for parent in teacher.base_model.modules()
        for name, child in parent.named_children()
        if isinstance(child, nn.ModuleList) and len(child) == total
    ]
    if kept < total and len(stacks) == 1:  # ALBERT repeats one layer: it runs whole
        parent, name, child = stacks[0]
        setattr(parent, name, child[:kept])
        teacher.config.num_hidden_layers = kept
