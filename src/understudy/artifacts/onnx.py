"""A student as one ONNX file."""

from __future__ import annotations

import inspect
import logging
import warnings
from collections.abc import Sequence
from pathlib import Path

import onnx
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from understudy.data.encode import ENCODER_INPUTS
from understudy.data.kind import Kind
from understudy.files import write_atomically

# What ONNX Runtime of the last two years reads; later ones bring nothing that an encoder needs.
OPSET = 20
# Where in the model a node stands. All else that the exporter notes is of the machine it ran on.
SCOPES = "pkg.torch.onnx.name_scopes"


def input_names(model: PreTrainedModel, tokenizer_names: Sequence[str]) -> tuple[str, ...]:
    """What the tokenizer gives and the model takes."""
    taken = inspect.signature(model.forward).parameters
    given = {*tokenizer_names, "attention_mask"}
    return tuple(name for name in ENCODER_INPUTS if name in taken and name in given)


class TensorModel(nn.Module):
    """A model of tensors alone: B texts of L tokens in, logits out.

    Of multiple choice every choice is a text of its own, with one logit.
    """

    def __init__(self, model: PreTrainedModel, kind: Kind, names: Sequence[str]) -> None:
        super().__init__()
        self.model = model
        self.kind = kind
        self.names = names

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        inputs = self.kind.separate_texts(inputs)
        output = self.model(**dict(zip(self.names, inputs, strict=True)), return_dict=True)
        return tuple(output[name] for name in self.kind.outputs)


def export_onnx(model: PreTrainedModel, kind: Kind, names: Sequence[str], path: Path) -> None:
    """Write a model to one file, for any number of texts of any length."""
    model.to("cpu")  # type: ignore[arg-type]  # transformers' decorator loses the type
    # Fused attention is taken apart by the exporter, with guards against rows without a token.
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    batch, length = torch.export.Dim("batch"), torch.export.Dim("length")
    # Two texts and more than one token: sizes of one would be taken for constants.
    example = tuple(torch.ones(2, 6, dtype=torch.long) for _ in names)
    chatter = logging.getLogger("torch.onnx")
    level = chatter.level
    chatter.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the exporter, about itself
            program = torch.onnx.export(
                TensorModel(model, kind, names).eval(),
                example,
                dynamo=True,
                input_names=list(names),
                output_names=list(kind.outputs),
                dynamic_shapes={"inputs": tuple({0: batch, 1: length} for _ in names)},
                opset_version=OPSET,
                verbose=False,
            )
    finally:
        chatter.setLevel(level)
        model.set_attn_implementation(before)
    assert program is not None
    exported = program.model_proto
    for node in exported.graph.node:
        scopes = [one for one in node.metadata_props if one.key == SCOPES]
        del node.metadata_props[:]
        node.metadata_props.extend(scopes)
        node.doc_string = ""
    del exported.graph.value_info[:]  # and the exporter's guesses of shapes, which quantisation trips over
    del exported.graph.metadata_props[:]
    del exported.metadata_props[:]
    write_atomically(path, lambda temporary: onnx.save(exported, temporary))
