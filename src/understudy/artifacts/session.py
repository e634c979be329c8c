"""Run an exported model, from arrays to logits, with only its engine and numpy."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.artifacts.artifact import Artifact, ExportedModel, checked_file
from understudy.errors import ModelError

Arrays = Mapping[str, NDArray[np.int64]]
Logits = tuple[NDArray[np.float32], ...]
Session = Callable[[Arrays], Logits]


def open_model(folder: Path, artifact: Artifact, model: ExportedModel, *, threads: int | None) -> Session:
    """Open a model of an artifact.

    Args:
        threads: threads per forward pass. Defaults to the engine's choice.
    """
    path = checked_file(folder, artifact, model.file)
    if model.engine == "openvino":
        checked_file(folder, artifact, str(Path(model.file).with_suffix(".bin")))
    return open_file(path, model.engine, artifact.inputs, artifact.outputs, threads=threads)


def open_file(
    path: Path, engine: str, inputs: Sequence[str], outputs: Sequence[str], *, threads: int | None
) -> Session:
    """Open a model file."""
    if engine not in _ENGINES:
        raise ModelError(f"{path}: the engine must be one of {', '.join(_ENGINES)}; got {engine!r}.")
    return _ENGINES[engine](path, tuple(inputs), tuple(outputs), threads)


# A sum fused with the layer norm after it is several times slower than the two separately (docs/LOG.md).
_SLOWER = ["SkipLayerNormFusion"]


def _open_onnx(path: Path, inputs: tuple[str, ...], outputs: tuple[str, ...], threads: int | None) -> Session:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or 0
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(
            str(path), options, providers=["CPUExecutionProvider"], disabled_optimizers=_SLOWER
        )
    except Exception as error:  # its errors have no common base class
        raise ModelError(
            f"{path} cannot be run by onnxruntime {onnxruntime.__version__}: {error}\nExport the student "
            "again, or use a newer onnxruntime."
        ) from None
    _check_names(path, inputs, [one.name for one in session.get_inputs()])
    _check_names(path, outputs, [one.name for one in session.get_outputs()])

    def run(arrays: Arrays) -> Logits:
        made: list[NDArray[np.float32]] = session.run(outputs, {name: arrays[name] for name in inputs})
        return tuple(made)

    return run


def _open_openvino(
    path: Path, inputs: tuple[str, ...], outputs: tuple[str, ...], threads: int | None
) -> Session:
    try:
        import openvino
    except ImportError:
        raise ModelError(f"{path} needs OpenVINO: pip install 'understudy-distill[openvino]'.") from None
    # Its default on many CPUs is bf16, which differs from the model that was scored.
    settings: dict[str, Any] = {"INFERENCE_PRECISION_HINT": "f32"}
    if threads:
        settings["INFERENCE_NUM_THREADS"] = threads
    try:
        model = openvino.Core().compile_model(str(path), "CPU", settings)
    except RuntimeError as error:
        raise ModelError(
            f"{path} cannot be run by OpenVINO {openvino.__version__}: {error}\nExport the student again."
        ) from None
    _check_names(path, inputs, [name for one in model.inputs for name in one.names])
    request, lock = model.create_infer_request(), threading.Lock()  # a request runs once at a time

    def run(arrays: Arrays) -> Logits:
        with lock:
            made = request.infer({name: arrays[name] for name in inputs})
            return tuple(np.array(made[place]) for place in range(len(outputs)))

    return run


_ENGINES: Mapping[str, Callable[[Path, tuple[str, ...], tuple[str, ...], int | None], Session]] = {
    "onnxruntime": _open_onnx,
    "openvino": _open_openvino,
}


def _check_names(path: Path, expected: Sequence[str], found: Sequence[str]) -> None:
    missing = sorted(set(expected) - set(found))
    if missing:
        raise ModelError(f"{path} must have {', '.join(expected)}; it has {', '.join(found)}.")


def pad(rows: Sequence[Mapping[str, Sequence[int]]], padding: Mapping[str, int]) -> dict[str, Any]:
    """Pad the token ids of several texts to the longest, with an attention mask.

    A single text is not padded: in int8 all activations have one scale, which padding would change.
    """
    lengths = [len(row["input_ids"]) for row in rows]
    width = max(lengths)
    arrays = {name: np.full((len(rows), width), value, np.int64) for name, value in padding.items()}
    mask = np.zeros((len(rows), width), np.int64)
    for place, (row, length) in enumerate(zip(rows, lengths, strict=True)):
        mask[place, :length] = 1
        for name, array in arrays.items():
            array[place, :length] = row[name]
    return {**arrays, "attention_mask": mask}
