"""Run an exported model, from arrays to logits, with only its engine and numpy."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.artifacts.artifact import Artifact, ExportedModel, checked_file
from understudy.errors import ModelError
from understudy.hardware import num_cores

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

# What ONNX Runtime's quantiser writes into a file as its producer.
_QUANTIZED = "onnx.quantize"


def _open_onnx(path: Path, inputs: tuple[str, ...], outputs: tuple[str, ...], threads: int | None) -> Session:
    session = _start_onnx(path, threads or 0)
    _check_names(path, inputs, [one.name for one in session.get_inputs()])
    _check_names(path, outputs, [one.name for one in session.get_outputs()])

    def run_on(session: Any) -> Session:
        def run(arrays: Arrays) -> Logits:
            return tuple(session.run(outputs, {name: arrays[name] for name in inputs}))

        return run

    if session.get_modelmeta().producer_name != _QUANTIZED:
        return run_on(session)
    # A symbol in place of the second dimension means that it counts tokens.
    shapes = {one.name: one.shape for one in session.get_outputs()}
    per_token = [len(shapes[name]) > 1 and isinstance(shapes[name][1], str) for name in outputs]
    return _one_by_one(
        run_on(session), lambda: run_on(_start_onnx(path, 1)), per_token, threads or num_cores()
    )


def _start_onnx(path: Path, threads: int) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(
            str(path), options, providers=["CPUExecutionProvider"], disabled_optimizers=_SLOWER
        )
    except Exception as error:  # its errors have no common base class
        raise ModelError(
            f"{path} cannot be run by onnxruntime {onnxruntime.__version__}: {error}\nExport the student "
            "again, or use a newer onnxruntime."
        ) from None


def _one_by_one(
    run: Session, open_single: Callable[[], Session], per_token: Sequence[bool], num_threads: int
) -> Session:
    """Return a session that runs the texts of a batch one by one and without padding.

    ONNX Runtime rounds all activations of a call by one scale. In a batch, padding and the other texts would
    therefore change a prediction. Several threads run several texts at once, which is as fast as a batch.

    Args:
        open_single: opens the same model with a single thread, for several texts at once.
        per_token: for each output, whether its second dimension counts tokens.
    """

    @functools.cache
    def open_pool() -> tuple[Session, ThreadPoolExecutor]:
        return open_single(), ThreadPoolExecutor(num_threads)

    def run_rows(arrays: Arrays) -> Logits:
        mask_BL = np.asarray(arrays["attention_mask"], bool)
        texts = [
            {name: value[row : row + 1, mask_L] for name, value in arrays.items()}
            for row, mask_L in enumerate(mask_BL)
        ]
        if len(texts) == 1 or num_threads == 1:
            made = [run(text) for text in texts]
        else:
            single, pool = open_pool()
            made = list(pool.map(single, texts))
        return tuple(
            _place_tokens(values, mask_BL) if counts_tokens else np.concatenate(values)
            for values, counts_tokens in zip(zip(*made, strict=True), per_token, strict=True)
        )

    return run_rows


def _place_tokens(values: Sequence[NDArray[np.float32]], mask_BL: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Return the values of the tokens of several texts in one array, with zeros where there is padding."""
    placed = np.zeros((*mask_BL.shape, *values[0].shape[2:]), np.float32)
    for row, value, mask_L in zip(placed, values, mask_BL, strict=True):
        row[mask_L] = value[0]
    return placed


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
    """Pad the token ids of several texts to the longest, with an attention mask."""
    lengths = [len(row["input_ids"]) for row in rows]
    width = max(lengths)
    arrays = {name: np.full((len(rows), width), value, np.int64) for name, value in padding.items()}
    mask = np.zeros((len(rows), width), np.int64)
    for place, (row, length) in enumerate(zip(rows, lengths, strict=True)):
        mask[place, :length] = 1
        for name, array in arrays.items():
            array[place, :length] = row[name]
    return {**arrays, "attention_mask": mask}
