"""Fit the linear layers of a cut student to its source by least squares.

A cut leaves out layers and channels, so each linear layer reads other inputs than in the source, with the
source's weights. This module refits them one after the other, from the first layer to the last, in closed
form: the inputs are the student's own on a sample of text, and the targets are what the source computes in
the same place of the layer that was cut. No gradient and no label is needed.

Where a linear layer is followed by a residual connection and a LayerNorm, the target is the source's sum
without the student's residual, so that errors of earlier layers are corrected too. All families that can be
cut normalise after the sum.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from tqdm.auto import tqdm
from transformers import PreTrainedModel

from understudy.models.cut import Cut, layer_modules, query_scale

# T real tokens of the sample, I inputs and O outputs of a linear layer, H hidden size

logger = logging.getLogger(__name__)

Batch = Mapping[str, Tensor]
# Times the mean square of the inputs: pulls the weights to those that were cut. A hundredth of it fits the
# sample better and unseen text worse, with weights several times as large, which students unlearn slowly.
_RIDGE = 1.0


@dataclass(frozen=True)
class Fit:
    """Mean squared differences between the hidden states of a student and its source, on the sample."""

    tokens: int
    before: float
    after: float


def fit_layers(student: PreTrainedModel, source: PreTrainedModel, cut: Cut, sample: Iterable[Batch]) -> Fit:
    """Refit every linear layer of a student to the source that it was cut from.

    If the hidden states are no nearer to the source's afterwards, the weights stay as they were cut.

    Args:
        sample: batches of text, of at least some thousand tokens.
    """
    batches = list(sample)
    ours, theirs = layer_modules(student), layer_modules(source)
    training = student.training, source.training
    student.train(False)
    source.train(False)
    encoder = student.base_model
    weights = {name: value.clone() for name, value in encoder.state_dict().items()}
    with torch.no_grad():
        before = _difference(student, source, cut, batches)
        scale = query_scale(student.config, source.config)
        for place, layer in enumerate(
            tqdm(cut.layers, desc="Fitting the cut", leave=False, disable=None), start=1
        ):
            _fit_layer(student, ours[place], source, theirs[layer], cut, layer, scale, batches)
        after = _difference(student, source, cut, batches)
        if not after < before:
            encoder.load_state_dict(weights)
            after = before
    student.train(training[0])
    source.train(training[1])
    return Fit(sum(int(batch["attention_mask"].sum()) for batch in batches), before, after)


def fit_linear(linear: nn.Linear, inputs_TI: Tensor, targets_TO: Tensor) -> None:
    """Replace the weights by W + ΔW, with ΔW = (XᵀX + λI)⁻¹ Xᵀ(Y − XW) over centred X and Y.

    ΔW is 0 where the present weights already reach the targets; the bias absorbs the means.
    """
    errors_TO = targets_TO - linear(inputs_TI)
    has_bias = linear.bias is not None
    mean_I = inputs_TI.mean(0) if has_bias else torch.zeros_like(inputs_TI[0])
    mean_O = errors_TO.mean(0) if has_bias else torch.zeros_like(errors_TO[0])
    centred_TI = inputs_TI - mean_I
    gram_II = (centred_TI.T @ centred_TI).double()
    ridge = _RIDGE * float(gram_II.diagonal().mean())
    if ridge == 0.0:  # the inputs are constant: there is nothing but a bias to fit
        change_IO = torch.zeros_like(linear.weight.T)
    else:
        gram_II.diagonal().add_(ridge)
        moment_IO = (centred_TI.T @ (errors_TO - mean_O)).double()
        change_IO = torch.linalg.solve(gram_II, moment_IO).to(linear.weight.dtype)
    linear.weight.add_(change_IO.T)
    if has_bias:
        linear.bias.add_(mean_O - mean_I @ change_IO)


def _fit_layer(
    student: PreTrainedModel,
    ours: Mapping[str, nn.Module],
    source: PreTrainedModel,
    theirs: Mapping[str, nn.Module],
    cut: Cut,
    layer: int,
    query_scale: float,
    batches: Sequence[Batch],
) -> None:
    """Fit the six linear layers of one layer, in the order in which they are computed."""
    wanted: dict[str, tuple[str, Side]] = {
        "states": ("query", "input"),
        "query": ("query", "output"),
        "key": ("key", "output"),
        "value": ("value", "output"),
        "output": ("output", "output"),
        "attended": ("up", "input"),
        "up": ("up", "output"),
        "down": ("down", "output"),
    }
    targets = _read(source, theirs, wanted, "down", batches)

    def inputs(part: str) -> Tensor:
        return _read(student, ours, {part: (part, "input")}, part, batches)[part]

    def fit(part: str, inputs_TI: Tensor, targets_TO: Tensor) -> None:
        linear = ours[part]
        assert isinstance(linear, nn.Linear)
        fit_linear(linear, inputs_TI, targets_TO)

    states_TH = inputs("query")
    fit("query", states_TH, query_scale * targets["query"][:, cut.channels("query_key", layer)])
    fit("key", states_TH, targets["key"][:, cut.channels("query_key", layer)])
    fit("value", states_TH, targets["value"][:, cut.channels("value", layer)])
    sums_TH = (targets["states"] + targets["output"])[:, cut.hidden]
    fit("output", inputs("output"), sums_TH - states_TH)
    attended_TH = inputs("up")
    fit("up", attended_TH, targets["up"][:, cut.channels("feed_forward", layer)])
    sums_TH = (targets["attended"] + targets["down"])[:, cut.hidden]
    fit("down", inputs("down"), sums_TH - attended_TH)


Side = Literal["input", "output"]


class _Stop(Exception):  # noqa: N818  # ends a forward pass, and is no error
    """Raised in a hook when the rest of a forward pass is not needed."""


def _read(
    model: PreTrainedModel,
    modules: Mapping[str, nn.Module],
    wanted: Mapping[str, tuple[str, Side]],
    last: str,
    batches: Sequence[Batch],
) -> dict[str, Tensor]:
    """Return inputs or outputs of some modules over all real tokens; nothing is computed after `last`."""
    found: dict[str, list[Tensor]] = {name: [] for name in wanted}
    mask_BL = torch.empty(0)
    hooks = []

    def read(name: str, module: nn.Module, side: Side) -> Any:
        def hook(_: nn.Module, given: tuple[Tensor, ...], output: Tensor) -> None:
            found[name].append((given[0] if side == "input" else output)[mask_BL])

        return module.register_forward_hook(hook)

    def stop(*_: Any) -> None:
        raise _Stop

    for name, (part, side) in wanted.items():
        hooks.append(read(name, modules[part], side))
    hooks.append(modules[last].register_forward_hook(stop))
    try:
        for batch in batches:
            mask_BL = batch["attention_mask"].bool()
            try:
                model.base_model(**batch)
            except _Stop:
                continue
    finally:
        for hook in hooks:
            hook.remove()
    return {name: torch.cat(parts) for name, parts in found.items()}


def _difference(
    student: PreTrainedModel, source: PreTrainedModel, cut: Cut, batches: Sequence[Batch]
) -> float:
    """Return the mean squared difference of the hidden states in the channels and layers that were cut."""
    total, count = 0.0, 0
    for batch in batches[::4]:  # a quarter of the sample is enough to compare
        mask_BL = batch["attention_mask"].bool()
        theirs = source.base_model(**batch, output_hidden_states=True).hidden_states
        ours = student.base_model(**batch, output_hidden_states=True).hidden_states
        for place, layer in enumerate(cut.layers, start=1):
            errors = (ours[place] - theirs[layer][..., cut.hidden])[mask_BL]
            total += float(errors.pow(2).sum())
            count += errors.numel()
    return total / count
