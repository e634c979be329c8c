"""Export a student as one ONNX file."""

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

# Supported by ONNX Runtime for two years; later opsets add nothing that an encoder needs.
OPSET = 20
# The position of a node in the model. The exporter's other metadata is specific to its machine.
SCOPES = "pkg.torch.onnx.name_scopes"


def input_names(model: PreTrainedModel, tokenizer_names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of inputs that the tokenizer provides and the model accepts."""
    taken = inspect.signature(model.forward).parameters
    given = {*tokenizer_names, "attention_mask"}
    return tuple(name for name in ENCODER_INPUTS if name in taken and name in given)


class TensorModel(nn.Module):
    """A model with only tensors as inputs and outputs: B texts of L tokens to logits.

    For multiple choice every choice is a separate text with one logit.
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
    # The exporter decomposes fused attention, adding guards against rows without tokens.
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    batch, length = torch.export.Dim("batch"), torch.export.Dim("length")
    # Two texts and several tokens: sizes of one would be treated as constants.
    example = tuple(torch.ones(2, 6, dtype=torch.long) for _ in names)
    chatter = logging.getLogger("torch.onnx")
    level = chatter.level
    chatter.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the exporter's warnings about itself
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
    del exported.graph.value_info[:]  # the exporter's inferred shapes, which break quantisation
    del exported.graph.metadata_props[:]
    del exported.metadata_props[:]
    write_atomically(path, lambda temporary: onnx.save(exported, temporary))
