"""Weights of classes in the loss against labels, for rows with classes of unequal frequency."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from understudy.data.labels import fold
from understudy.data.rows import label_ids
from understudy.errors import RecipeError, did_you_mean
from understudy.objectives.patient import label_loss

# B batch, C classes


def class_weights(
    setting: str | Mapping[str, float],
    labels: NDArray[np.int64],
    names: Sequence[str],
    numbering: Sequence[str] | None = None,
) -> tuple[float, ...]:
    """Return the weight of each class, with a mean of 1 over the rows.

    Args:
        setting: `balanced`, or weights by label; labels that are not named have a weight of 1.
        labels: the class of each training row.
        names: label names in the order of their ids.
        numbering: see `label_ids`.

    Three rows of one class and one of another: `balanced` is n / (k · n_c), as in scikit-learn.

    >>> class_weights("balanced", np.array([0, 0, 0, 1]), ["neg", "pos"])
    (0.6666666666666666, 2.0)
    >>> class_weights({"pos": 5.0}, np.array([0, 0, 0, 1]), ["neg", "pos"])
    (0.5, 2.5)
    """
    counts = np.bincount(labels, minlength=len(names)).astype(np.float64)
    weights = np.ones(len(names))
    if isinstance(setting, str):
        found = counts > 0
        weights[found] = len(labels) / (found.sum() * counts[found])
        return tuple(weights.tolist())
    ids = label_ids(names, numbering)
    for name, weight in setting.items():
        place = ids.get(name, ids.get(fold(name)))
        if place is None:
            hint = did_you_mean(name, names)
            raise RecipeError(f"class_weights: no label is {name!r}; they are {', '.join(names)}.{hint}")
        weights[place] = weight
    return tuple((weights * len(labels) / (counts @ weights)).tolist())


def weigh_rows(loss_B: Tensor, labels_B: Tensor, weights_C: Sequence[float]) -> Tensor:
    """Multiply each row's loss by the weight of its class."""
    return loss_B * loss_B.new_tensor(weights_C)[labels_B]


def weighted_loss(weights_C: Sequence[float]) -> Callable[..., Tensor]:
    """Return Trainer's `compute_loss_func` for weighted classes: Σ w[y] · L_CE over the rows of a step.

    The sum is divided by the number of rows and not by the sum of their weights, so that batches of any shape
    add up to the same epoch. Over all training rows both are the same, since weights have a mean of 1.
    """

    def loss(
        outputs: Mapping[str, Any], labels_B: Tensor, num_items_in_batch: Tensor | int | None = None
    ) -> Tensor:
        loss_B = weigh_rows(label_loss(outputs["logits"], labels_B), labels_B, weights_C)
        num_rows = len(labels_B) if num_items_in_batch is None else num_items_in_batch
        return torch.sum(loss_B) / num_rows

    return loss
