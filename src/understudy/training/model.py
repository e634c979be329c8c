"""The trained module, as seen by the optimiser, checkpoints and DDP: a student with its projections."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from understudy.capture.query_key import capture, prepare_capture
from understudy.capture.representations import Representations
from understudy.data.encode import ENCODER_INPUTS, TEACHER, TEACHER_STATES, TEACHER_TOKENS
from understudy.errors import RecipeError
from understudy.models.layer_map import layer_map
from understudy.models.projections import Projections
from understudy.training.objectives import Objectives

# B batch, C choices, L tokens, K layers, H hidden size


class DistillationModel(nn.Module):
    """A student, the projections to its teacher's width, and the losses it learns from.

    The losses are computed inside `forward`, so that DDP sees them as its only outputs: a projection whose
    term has no weight does not take part in the step, and no process waits for its gradient.

    Attributes:
        layers: the student layers that are compared, counted from 1.
    """

    def __init__(
        self,
        student: PreTrainedModel,
        projections: Projections | None,
        objectives: Objectives,
        layers: Sequence[int],
    ) -> None:
        super().__init__()
        self.student = student
        self.projections = projections
        self.objectives = objectives
        self.layers = tuple(layers)

    @property
    def config(self) -> Any:
        return self.student.config

    def get_input_embeddings(self) -> nn.Module:
        return self.student.get_input_embeddings()

    def gradient_checkpointing_enable(self, **options: Any) -> None:
        self.student.gradient_checkpointing_enable(**options)

    def forward(self, batch: Mapping[str, Tensor], teacher: Representations) -> dict[str, Tensor]:
        """Compute the loss of every term, with one value per example."""
        student = read_model(self.student, batch, self.layers, self.objectives)
        if self.projections is not None and self.layers:
            student = project(student, self.projections)
        # Differences of large and nearly equal numbers, which a lower precision would round away.
        with torch.autocast(self.student.device.type, enabled=False):
            return self.objectives.losses(student.float(), teacher.float(), batch)


def match_models(
    student: PreTrainedModel,
    teacher: PreTrainedModel | None,
    objectives: Objectives,
    *,
    teacher_config: Any = None,
    channels: Tensor | None = None,
) -> tuple[DistillationModel, tuple[int, ...]]:
    """Prepare both models for capture, create the student's projections, and check that they are comparable.

    Args:
        teacher: the teacher, or None if the batches carry its outputs.
        teacher_config: the config of a teacher that is not loaded.
        channels: the teacher's channels that the student's were cut from, if any.

    Returns:
        The module to train, and the teacher layer of each of its layers.
    """
    if teacher is not None:
        teacher_config = teacher.config
    if objectives.layer_map is None:
        return DistillationModel(student, None, objectives, ()), ()
    if teacher_config is None:
        raise RecipeError("objectives that compare layers need a teacher, or its config.")
    taught = layer_map(objectives.layer_map, *(_num_layers(one) for one in (student.config, teacher_config)))
    objectives = dataclasses.replace(objectives, layer_map=taught)  # type: ignore[type-var]
    layers = tuple(range(1, len(taught) + 1))
    widths: tuple[int, ...] = (student.config.hidden_size, teacher_config.hidden_size)
    num_states, shown = len(layers), None
    if objectives.attention:
        assert teacher is not None
        for model in (student, teacher):
            prepare_capture(model)
        shown = _try(student, layers), _try(teacher, taught)
        widths, num_states = tuple(_width(one) for one in shown), len(layers) + 1
    projections = Projections(objectives.projection, widths[0], widths[1], num_states, channels=channels)
    if shown is not None:
        with torch.no_grad():
            objectives.check(project(shown[0], projections.to(student.device)), shown[1])
    return DistillationModel(student, projections, objectives, layers), taught


_TRIED = 4  # tokens


def _try(model: PreTrainedModel, layers: Sequence[int]) -> Representations:
    """Capture a model's representations of a few tokens."""
    tokens = torch.full((1, _TRIED), model.config.vocab_size - 1, device=model.device)
    training = model.training
    with torch.no_grad():
        shown = capture(
            model.train(False).base_model,
            {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)},
            layers,
        )
    model.train(training)
    return shown


def _num_layers(config: Any) -> int:
    return int(config.num_hidden_layers)


def _width(shown: Representations) -> int:
    assert shown.embeddings_BLH is not None
    return shown.embeddings_BLH.shape[-1]


def project(shown: Representations, projections: Projections) -> Representations:
    """Project a student's embeddings and hidden states to its teacher's width."""
    if shown.embeddings_BLH is None:
        return dataclasses.replace(shown, hidden=projections(shown.hidden))
    embeddings_BLT, *hidden = projections([shown.embeddings_BLH, *shown.hidden])
    return dataclasses.replace(shown, embeddings_BLH=embeddings_BLT, hidden=tuple(hidden))


def read_model(
    model: PreTrainedModel, batch: Mapping[str, Tensor], layers: Sequence[int], objectives: Objectives
) -> Representations:
    """Run a model on a batch and collect what the objectives compare.

    The choices of a question are treated as separate texts everywhere except in the logits.
    """
    if objectives.attention:
        runner = model if objectives.logits else model.base_model
        return capture(runner, model_inputs(model, batch, flat=not objectives.logits), layers)
    output = model(
        **model_inputs(model, batch, flat=False), **({"output_hidden_states": True} if layers else {})
    )
    hidden = tuple(output["hidden_states"][layer] for layer in layers)
    if objectives.first_token_only:
        hidden = tuple(state[:, :1] for state in hidden)
    return Representations(None, hidden, (), _logits(output))


def read_batch(batch: Mapping[str, Tensor], num_layers: int) -> Representations:
    """Collect a teacher's cached outputs from the `teacher_…` columns of a batch."""
    logits = {
        name.removeprefix(TEACHER_TOKENS).removeprefix(TEACHER): value
        for name, value in batch.items()
        if name.startswith(TEACHER) and name != TEACHER_STATES
    }
    hidden: tuple[Tensor, ...] = ()
    if num_layers:
        states = batch[TEACHER_STATES]  # BKH, or BCKH
        hidden = tuple(states[..., place, :].flatten(0, -2)[:, None] for place in range(num_layers))
    return Representations(None, hidden, (), logits)


def model_inputs(model: PreTrainedModel, batch: Mapping[str, Tensor], *, flat: bool) -> dict[str, Tensor]:
    """Return the inputs of a batch that a model accepts; e.g. DistilBERT has no token types.

    Args:
        flat: treat the choices of a question as separate texts, as for an encoder without a head.
    """
    names = encoder_inputs(model)
    inputs = {name: batch[name] for name in batch if name in names}
    return {name: value.flatten(0, -2) for name, value in inputs.items()} if flat else inputs


def encoder_inputs(model: PreTrainedModel) -> frozenset[str]:
    """Return the names of the inputs that a model's encoder accepts."""
    return frozenset(inspect.signature(model.base_model.forward).parameters) & frozenset(ENCODER_INPUTS)


def _logits(output: Any) -> dict[str, Tensor]:
    return {name: output[name] for name in output if name.endswith("logits")}


def autocast(device: torch.device, precision: torch.dtype) -> torch.autocast:
    """Run in a lower precision, if one is requested."""
    return torch.autocast(device.type, dtype=precision, enabled=precision != torch.float32)
