"""int8 for OpenVINO: 8-bit weights and activations, calibrated on real rows (extra `openvino`)."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from understudy.artifacts.quantize import HEAD, parts_of
from understudy.artifacts.session import Arrays
from understudy.errors import RecipeError


def quantize_openvino(
    source: Path, target: Path, rows: Sequence[Arrays], *, keep: Collection[str] = ()
) -> None:
    """Quantise an ONNX file to OpenVINO's `.xml` and `.bin`.

    Args:
        rows: model inputs to calibrate the ranges of activations with.
        keep: parts to leave in fp32; see `parts_of`.
    """
    try:
        import nncf
        import openvino
    except ImportError:
        raise RecipeError(
            "--openvino needs OpenVINO and NNCF: pip install 'understudy-distill[openvino]'."
        ) from None
    nncf.set_log_level(logging.ERROR)
    model = openvino.convert_model(source)
    kept = {name for part, names in parts_of(source).items() if part in keep for name in names}
    if HEAD in keep:  # the last matrix product is named after its output
        kept |= {name for output in model.outputs for name in output.names}
    # A product with a bias becomes two nodes: NAME/WithoutBiases and the sum.
    found = [one.get_friendly_name() for one in model.get_ops()]
    ignored: Any = nncf.IgnoredScope(names=[name for name in found if name.split("/")[0] in kept])
    quantized = nncf.quantize(
        model,
        nncf.Dataset(list(rows)),
        subset_size=len(rows),
        model_type=nncf.ModelType.TRANSFORMER,
        ignored_scope=ignored,
    )
    openvino.save_model(quantized, target, compress_to_fp16=False)
