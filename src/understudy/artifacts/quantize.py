"""Quantise an ONNX file's weights to 8 or 4 bits, by parts: the embeddings, each layer, the head.

Embeddings make up most of a small student, and 4 bits hardly slow down their lookup. Matrix products are
slower with 4-bit weights than with 8-bit ones.
"""

from __future__ import annotations

import errno
import logging
import os
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnxruntime.quantization import QuantType, quantize_dynamic

from understudy.artifacts.onnx import SCOPES
from understudy.files import is_full
from understudy.models.families import stack_names

# Matrix products with weights, and embeddings. (Gemm is converted to MatMul.)
_QUANTIZED = ("MatMul", "Gemm", "Gather")
EMBEDDINGS, HEAD = "embeddings", "head"
_EMBEDDINGS = re.compile("embeddings|embedding_hidden")  # the latter is ALBERT's
_BLOCK = {"embeddings": 32, "all": 64}  # number of 4-bit weights that share a scale and a zero point
_INT8_ACTIVATIONS = 4  # ONNX Runtime's "accuracy level" of products with 4-bit weights

Int4 = Literal["embeddings", "all"]
"""The weights that get 4 bits: the embeddings alone, or those of the layers as well."""


def parts_of(file: Path) -> dict[str, list[str]]:
    """Return the parts that can be quantised, each with the names of its nodes."""
    model = onnx.load(file)
    weights = {one.name for one in model.graph.initializer}
    parts: dict[str, list[str]] = {}
    for node in model.graph.node:
        weight = node.input[0] if node.op_type == "Gather" else node.input[-1]
        if node.op_type == "Gemm":
            weight = node.input[1]
        if node.op_type in _QUANTIZED and weight in weights:
            parts.setdefault(_part(node), []).append(node.name)
    return parts


def _part(node: Any) -> str:
    """Return the part of the model that a node belongs to, from the module names left by the exporter."""
    scopes = next((one.value for one in node.metadata_props if one.key == SCOPES), "")
    found = re.search(rf"\.(?:{'|'.join(stack_names())})\.(\d+)(?:\.|$)", scopes.replace("'", "."))
    if found:
        return f"layer {int(found[1]) + 1}"
    return EMBEDDINGS if _EMBEDDINGS.search(scopes) else HEAD


def quantize(source: Path, target: Path, *, keep: Collection[str] = (), int4: Int4 | None = None) -> None:
    """Quantise an ONNX file's weights to 8 bits; activations are quantised dynamically, tensor by tensor.

    Args:
        keep: parts to leave in fp32.
        int4: the weights that get 4 bits instead.
    """
    parts = parts_of(source) if keep else {}  # parts_of reads the whole file
    names = [name for part, nodes in parts.items() if part in keep for name in nodes]
    kept = [*names, *(f"{name}_MatMul" for name in names)]  # a Gemm is renamed when it becomes a MatMul
    # Only a MatMul can have 4 bits, so each Gemm gets 8.
    products = onnx.load(source).graph.node if int4 == "all" else ()
    for_4_bits = [node.name for node in products if node.op_type == "MatMul"]
    root = logging.getLogger()
    level = root.level
    root.setLevel(logging.ERROR)  # it recommends preprocessing, which such a graph does not need
    try:
        quantize_dynamic(
            source,
            target,
            op_types_to_quantize=["MatMul"] if int4 else ["MatMul", "Gather"],
            weight_type=QuantType.QInt8,
            per_channel=True,
            # 7 bits for the weights of matrix products: with 8, sums overflow on CPUs without VNNI, and a
            # prediction would depend on the machine (docs/decisions/0019-int8-on-every-cpu.md).
            reduce_range=True,
            nodes_to_exclude=[*kept, *for_4_bits],
        )
        if int4:
            _quantize_to_4_bits(target, int4, kept)
    except DecodeError as error:  # ONNX cannot read back a file that it wrote next to `source`
        if is_full(source):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(source.parent)) from error
        raise
    finally:
        root.setLevel(level)


def _quantize_to_4_bits(file: Path, int4: Int4, kept: Collection[str]) -> None:
    """Quantise the weights of an ONNX file that are still in fp32 to 4 bits, in place."""
    root = logging.getLogger()
    before = list(root.handlers)
    from onnxruntime.quantization import matmul_nbits_quantizer as nbits

    root.handlers[:] = before  # the module adds one when it is imported
    settings = nbits.DefaultWeightOnlyQuantConfig(
        block_size=_BLOCK[int4],
        accuracy_level=_INT8_ACTIVATIONS,
        op_types_to_quantize=("Gather",) if int4 == "embeddings" else ("Gather", "MatMul"),
    )
    model = onnx.load(file)
    quantizer = nbits.MatMulNBitsQuantizer(model, algo_config=settings, nodes_to_exclude=list(kept))
    # The embedding of a padding token is all zeros, so its scale is 0, and it is divided by that scale.
    with np.errstate(invalid="ignore", divide="ignore"):
        quantizer.process()
    onnx.save(quantizer.model.model, file)
