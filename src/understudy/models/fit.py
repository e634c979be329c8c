"""Fit the linear layers of a cut student to its source by least squares.

A cut leaves out layers and channels, so each linear layer reads other inputs than in the source, with the
source's weights. This module refits them one after the other, from the first layer to the last, in closed
form: the inputs are the student's own on a sample of text, and the targets are what the source computes at
the same place in the layer that was cut. No gradients or labels are needed.

Where a linear layer is followed by a residual connection and a LayerNorm, the target is the source's sum
without the student's residual, so that errors of earlier layers are corrected too. All families that can be
cut normalise after the sum.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from tqdm.auto import tqdm
from transformers import PreTrainedModel

from understudy.models.cut import LAYER, Cut, layer_modules, query_scale

# T real tokens of the sample, I inputs and O outputs of a linear layer, H hidden size

logger = logging.getLogger(__name__)

Batch = Mapping[str, Tensor]
# The ridge penalty, relative to the mean square of the inputs: it pulls the weights towards those that were
# cut. With a hundredth of it, the sample is fitted better and unseen text worse, and the weights are several
# times as large, which students unlearn slowly.
_RIDGE = 1.0


@dataclass(frozen=True)
class Fit:
    """Mean squared differences between the hidden states of a student and its source, on the sample."""

    tokens: int
    before: float
    after: float


def fit_layers(
    student: PreTrainedModel,
    source: PreTrainedModel,
    cut: Cut,
    sample: Iterable[Batch],
    *,
    precision: torch.dtype = torch.float32,
) -> Fit:
    """Refit every linear layer of a student to the source that it was cut from.

    If the hidden states are no nearer to the source's afterwards, the weights from the cut are restored.

    Args:
        sample: batches of text, with at least a few thousand tokens.
        precision: of the forward passes. The weights are always computed in float32 and float64.
    """
    batches = list(sample)
    training = student.training, source.training
    student.train(False)
    source.train(False)
    encoder = student.base_model
    weights = {name: value.clone() for name, value in encoder.state_dict().items()}
    # Without autocast's cache, which would keep weights from before they are fitted.
    lower = torch.autocast(
        student.device.type, precision, enabled=precision != torch.float32, cache_enabled=False
    )
    with torch.no_grad(), lower:
        theirs = _hidden_states(source, cut.layers, batches, cut.hidden)
        before = _difference(student, theirs, batches)
        ours, targets = _Reader(student, batches), _Reader(source, batches)
        scale = query_scale(student.config, source.config)
        for place, layer in enumerate(
            tqdm(cut.layers, desc="Fitting the student", leave=False, disable=None), start=1
        ):
            _fit_layer(ours, place, targets, layer, cut, scale)
        after = _difference(student, theirs, batches)
        if not after < before:
            encoder.load_state_dict(weights)
            after = before
    student.train(training[0])
    source.train(training[1])
    return Fit(sum(int(batch["attention_mask"].sum()) for batch in batches), before, after)


def fit_linear(linear: nn.Linear, inputs_TI: Tensor, targets_TO: Tensor) -> None:
    """Replace the weights by W + ΔW, with ΔW = (XᵀX + λI)⁻¹ Xᵀ(Y − XW) over centred X and Y.

    ΔW is 0 where the current weights already reach the targets; the bias absorbs the means.
    """
    with torch.autocast(inputs_TI.device.type, enabled=False):
        errors_TO = targets_TO - linear(inputs_TI)
        has_bias = linear.bias is not None
        mean_I = inputs_TI.mean(0) if has_bias else torch.zeros_like(inputs_TI[0])
        mean_O = errors_TO.mean(0) if has_bias else torch.zeros_like(errors_TO[0])
        centred_TI = inputs_TI - mean_I
        gram_II = (centred_TI.T @ centred_TI).double()
        ridge = _RIDGE * float(gram_II.diagonal().mean())
        if ridge == 0.0:  # the inputs are constant: only a bias can be fitted
            change_IO = torch.zeros_like(linear.weight.T)
        else:
            gram_II.diagonal().add_(ridge)
            moment_IO = (centred_TI.T @ (errors_TO - mean_O)).double()
            change_IO = torch.linalg.solve(gram_II, moment_IO).to(linear.weight.dtype)
        linear.weight.add_(change_IO.T)
        if has_bias:
            linear.bias.add_(mean_O - mean_I @ change_IO)


def _fit_layer(ours: _Reader, place: int, theirs: _Reader, layer: int, cut: Cut, query_scale: float) -> None:
    """Fit the six linear layers of one layer, in the order in which they are computed."""
    targets = theirs.read(
        layer,
        {
            "states": ("query", "input"),
            "query": ("query", "output"),
            "key": ("key", "output"),
            "value": ("value", "output"),
            "output": ("output", "output"),
            "attended": ("up", "input"),
            "up": ("up", "output"),
            "down": ("down", "output"),
        },
        LAYER,
    )

    def inputs(part: str) -> Tensor:
        return ours.read(place, {part: (part, "input")}, part)[part]

    def fit(part: str, inputs_TI: Tensor, targets_TO: Tensor) -> None:
        linear = ours.modules[place][part]
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
    ours.read(place, {}, LAYER)


Side = Literal["input", "output"]


class _Stop(Exception):  # noqa: N818  # ends a forward pass, not an error
    """Raised in a hook when the rest of a forward pass is not needed."""


class _Reader:
    """Reads inputs and outputs of a model's modules on the sample, one layer after the other.

    The output of a finished layer is kept, so that the layers before it are not computed again.
    """

    def __init__(self, model: PreTrainedModel, batches: Sequence[Batch]) -> None:
        self.modules = layer_modules(model)
        self._model = model
        self._batches = batches
        self._finished = 0  # the number of layers
        self._returned: list[Any] = []  # by the last of them, for each batch

    def read(self, layer: int, wanted: Mapping[str, tuple[str, Side]], last: str) -> dict[str, Tensor]:
        """Return inputs or outputs of modules of a layer over all real tokens.

        Args:
            last: the last module to compute; if it is the layer itself, the layer is finished.
        """
        if layer <= self._finished:
            self._finished, self._returned = 0, []
        modules = self.modules[layer]
        found: dict[str, list[Tensor]] = {name: [] for name in wanted}
        returned: list[Any] = []
        mask_BL = torch.empty(0)

        def keep(name: str, side: Side) -> Any:
            def hook(_: nn.Module, given: tuple[Tensor, ...], output: Tensor) -> None:
                found[name].append((given[0] if side == "input" else output)[mask_BL].float())

            return hook

        def stop(_: nn.Module, __: Any, output: Any) -> None:
            if last == LAYER:
                returned.append(output)
            raise _Stop

        hooks = [
            modules[part].register_forward_hook(keep(name, side)) for name, (part, side) in wanted.items()
        ]
        hooks.append(modules[last].register_forward_hook(stop))
        try:
            for number, batch in enumerate(self._batches):
                mask_BL = batch["attention_mask"].bool()
                with self._without_finished_layers(number), contextlib.suppress(_Stop):
                    self._model.base_model(**batch)
        finally:
            for hook in hooks:
                hook.remove()
        if last == LAYER:
            self._finished, self._returned = layer, returned
        return {name: torch.cat(parts) for name, parts in found.items()}

    @contextlib.contextmanager
    def _without_finished_layers(self, batch: int) -> Iterator[None]:
        """Let all finished layers return what the last of them returned for a batch."""
        skipped = [self.modules[number + 1][LAYER] for number in range(self._finished)]
        for layer in skipped:
            layer.forward = lambda *_, **__: self._returned[batch]
        try:
            yield
        finally:
            for layer in skipped:
                del layer.forward


def _hidden_states(
    model: PreTrainedModel, layers: Sequence[int], batches: Sequence[Batch], channels: Tensor | slice
) -> list[Tensor]:
    """Return the hidden states of some layers over a quarter of the sample, which is enough to compare."""
    found: dict[int, list[Tensor]] = {place: [] for place in range(len(layers))}
    for batch in batches[::4]:
        mask_BL = batch["attention_mask"].bool()
        states = model.base_model(**batch, output_hidden_states=True).hidden_states
        for place, layer in enumerate(layers):
            found[place].append(states[layer][mask_BL][:, channels].float())
    return [torch.cat(parts) for parts in found.values()]


def _difference(student: PreTrainedModel, theirs: Sequence[Tensor], batches: Sequence[Batch]) -> float:
    """Return the mean squared difference of the student's hidden states from its source's."""
    layers = range(1, len(theirs) + 1)
    ours = _hidden_states(student, layers, batches, slice(None))
    return float(
        torch.stack([(own - other).pow(2).mean() for own, other in zip(ours, theirs, strict=True)]).mean()
    )
