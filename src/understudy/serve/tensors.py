"""The Open Inference Protocol, version 2: rows and predictions as named tensors.

Strings are BYTES tensors. Tensors may be in the JSON, or follow it in binary form, as Triton's clients send
them: a header gives the length of the JSON, and each string is preceded by its length, as four little-endian
bytes.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from understudy.artifacts.artifact import Artifact
from understudy.data.kind import Prediction, RowKind
from understudy.errors import DataError

# The header that gives the length of the JSON if binary tensors follow it.
HEADER = "inference-header-content-length"
_TYPES = {"BOOL": np.bool_, "INT64": np.int64, "FP32": np.float32}


@dataclass(frozen=True)
class InferRequest:
    """A request for predictions.

    Attributes:
        rows: the fields of each row.
        id: the caller's name for the request.
        outputs: the requested outputs, each with whether it should be binary; empty for all.
        is_binary: whether outputs are binary unless they say otherwise.
    """

    rows: list[dict[str, Any]]
    id: str | None = None
    outputs: Mapping[str, bool] = field(default_factory=dict)
    is_binary: bool = False


def parse_infer(body: bytes, header_length: str | None, kind: RowKind, fields: Sequence[str]) -> InferRequest:
    """Read a request.

    Raises:
        DataError: if it is not a valid request for this model.
    """
    size = _json_size(body, header_length)
    content = parse_json(body[:size])
    inputs = content.get("inputs")
    if not isinstance(inputs, list) or not inputs:
        raise DataError(f"inputs must be a list of tensors: {', '.join(fields)}.")
    rest, columns = body[size:], {}
    for tensor in inputs:
        name, values, rest = _read_tensor(tensor, rest)
        if name in columns:
            raise DataError(f"the tensor {name!r} is given twice.")
        columns[name] = [_parse_list(one, name) if name in kind.list_fields else one for one in values]
    if rest:
        raise DataError(f"{len(rest)} bytes follow the last tensor.")
    if len({len(values) for values in columns.values()}) != 1:
        lengths = ", ".join(f"{name} {len(values)}" for name, values in columns.items())
        raise DataError(f"tensors must have the same number of rows; got {lengths}.")
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    wants_binary = _parameters(content).get("binary_data_output") is True
    given = content.get("id")
    if given is not None and not isinstance(given, str):
        raise DataError("id must be a string.")
    return InferRequest(rows, given, _wanted(content, is_binary=wants_binary), wants_binary)


def parse_json(body: bytes) -> dict[str, Any]:
    """Read a JSON object."""
    try:
        content = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise DataError(f"the request is not JSON: {error}") from None
    if not isinstance(content, dict):
        raise DataError(
            'the request must be a JSON object, {"rows": […]} for several rows; got '
            f"{type(content).__name__}."
        )
    return content


def _json_size(body: bytes, header_length: str | None) -> int:
    if header_length is None:
        return len(body)
    if not (header_length.isascii() and header_length.isdigit()) or int(header_length) > len(body):
        raise DataError(
            f"{HEADER} must be the length of the JSON, at most {len(body)}; got {header_length!r}."
        )
    return int(header_length)


def _read_tensor(tensor: Any, rest: bytes) -> tuple[str, list[str], bytes]:
    """Return the name and the strings of a tensor, and the bytes that follow it."""
    if not isinstance(tensor, dict) or not isinstance(tensor.get("name"), str):
        raise DataError("a tensor must be an object with a name, a shape, a datatype and data.")
    name, shape = tensor["name"], tensor.get("shape")
    if tensor.get("datatype") != "BYTES":
        raise DataError(f"{name}: the datatype must be BYTES; got {tensor.get('datatype')!r}.")
    if (
        not isinstance(shape, list)
        or not 1 <= len(shape) <= 2
        or not all(isinstance(one, int) and not isinstance(one, bool) and one >= 0 for one in shape)
        or shape[1:] not in ([], [1])
    ):
        raise DataError(f"{name}: the shape must be [rows] or [rows, 1]; got {shape!r}.")
    size = _parameters(tensor).get("binary_data_size")
    if size is not None:
        if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= len(rest):
            raise DataError(f"{name}: binary_data_size must be at most {len(rest)}; got {size!r}.")
        values, rest = list(_split_binary(rest[:size], name)), rest[size:]
    else:
        values = _flat(tensor.get("data"), name)
    if len(values) != shape[0]:
        raise DataError(f"{name}: the shape has {shape[0]} rows, the data {len(values)}.")
    return name, values, rest


def _flat(data: Any, name: str) -> list[str]:
    if not isinstance(data, list):
        raise DataError(f"{name}: data must be a list of strings.")
    values = [one[0] if isinstance(one, list) and len(one) == 1 else one for one in data]
    if not all(isinstance(one, str) for one in values):
        raise DataError(f"{name}: data must be a list of strings.")
    return values


def _split_binary(content: bytes, name: str) -> Iterator[str]:
    place = 0
    while place < len(content):
        if place + 4 > len(content):
            raise DataError(f"{name}: the binary data ends in the middle of a length.")
        (size,) = struct.unpack_from("<I", content, place)
        place += 4
        if place + size > len(content):
            raise DataError(f"{name}: the binary data ends in the middle of a string.")
        try:
            yield content[place : place + size].decode("utf-8")
        except UnicodeDecodeError:
            raise DataError(f"{name}: strings must be UTF-8.") from None
        place += size


def _parse_list(value: str, name: str) -> Any:
    """Read a field that is a list, such as the words of a text: a JSON list in one string."""
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise DataError(f'{name} must be a JSON list of strings, e.g. ["a", "b"].') from None


def _parameters(content: Mapping[str, Any]) -> Mapping[str, Any]:
    found = content.get("parameters")
    return found if isinstance(found, dict) else {}


def _wanted(content: Mapping[str, Any], *, is_binary: bool) -> dict[str, bool]:
    wanted = content.get("outputs") or []
    if not isinstance(wanted, list):
        raise DataError("outputs must be a list of objects with a name.")
    found = {}
    for one in wanted:
        if not isinstance(one, dict) or not isinstance(one.get("name"), str):
            raise DataError("outputs must be a list of objects with a name.")
        found[one["name"]] = _parameters(one).get("binary_data", is_binary) is True
    return found


def check_outputs(request: InferRequest, sample: Prediction) -> None:
    """Refuse outputs that a model does not have.

    Args:
        sample: any prediction of the model.
    """
    known = columns_of(sample)
    unknown = [name for name in request.outputs if name not in known]
    if unknown:
        raise DataError(f"outputs must be of {', '.join(known)}; got {unknown[0]!r}.")


def write_infer(
    model: str, request: InferRequest, predictions: Sequence[Prediction], sample: Prediction
) -> tuple[bytes, int | None]:
    """Return the body of an answer, and the length of its JSON if binary tensors follow it.

    Args:
        sample: any prediction of the model, to take the names and types of the outputs from.
    """
    known = columns_of(sample)
    outputs, binary = [], []
    for name in request.outputs or known:
        datatype = known[name]
        values = [_value(one, name) for one in predictions]
        if len({len(one) for one in values if _is_row(one, datatype)}) > 1:
            raise DataError(f"{name} has rows of different lengths; ask for the other outputs alone.")
        tensor: dict[str, Any] = {"name": name, "datatype": datatype}
        tensor["shape"] = [len(values), *_row_shape(values[0] if values else _value(sample, name), datatype)]
        flat = list(_flatten(values, datatype))
        if request.outputs.get(name, request.is_binary):
            content = _pack(flat, datatype)
            tensor["parameters"] = {"binary_data_size": len(content)}
            binary.append(content)
        else:
            tensor["data"] = flat
        outputs.append(tensor)
    answer: dict[str, Any] = {"model_name": model, "model_version": "1", "outputs": outputs}
    if request.id is not None:
        answer["id"] = request.id
    head = json.dumps(answer, ensure_ascii=True).encode()
    return head + b"".join(binary), len(head) if binary else None


def columns_of(sample: Prediction) -> dict[str, str]:
    """Return the outputs of a model with their datatypes, from one of its predictions.

    >>> columns_of({"label": "a", "score": 0.9, "probabilities": {"a": 0.9, "b": 0.1}})
    {'label': 'BYTES', 'score': 'FP32', 'probabilities': 'FP32', 'truncated': 'BOOL'}
    """
    named = {name: _datatype(value) for name, value in sample.items() if name != "truncated"}
    return named | {"truncated": "BOOL"}


def _datatype(value: Any) -> str:
    if isinstance(value, dict):
        return "FP32"
    if isinstance(value, list):
        return "FP32" if value and all(isinstance(one, float) for one in value) else "BYTES"
    types = {bool: "BOOL", int: "INT64", float: "FP32"}
    return types.get(type(value), "BYTES")


def _value(prediction: Prediction, name: str) -> Any:
    if name == "truncated":
        return bool(prediction.get("truncated"))
    value = prediction[name]
    return list(value.values()) if isinstance(value, dict) else value


def _is_row(value: Any, datatype: str) -> bool:
    return isinstance(value, list) and datatype == "FP32"


def _flatten(values: Sequence[Any], datatype: str) -> Iterator[Any]:
    for value in values:
        if _is_row(value, datatype):
            yield from value
        elif datatype == "BYTES" and not isinstance(value, str):
            yield json.dumps(value, ensure_ascii=False)  # entities, labels
        else:
            yield value if not isinstance(value, float) or math.isfinite(value) else None


def _pack(values: Iterable[Any], datatype: str) -> bytes:
    if datatype == "BYTES":
        encoded = [value.encode() for value in values]
        return b"".join(struct.pack("<I", len(one)) + one for one in encoded)
    return np.array(list(values), _TYPES[datatype]).tobytes()


def _row_shape(value: Any, datatype: str) -> list[int]:
    return [len(value)] if _is_row(value, datatype) else []


def describe_model(name: str, artifact: Artifact, form: str | None, sample: Prediction) -> dict[str, Any]:
    """Return the metadata of a model: its inputs and outputs.

    Args:
        form: the form in use; None for the artifact's default.
    """
    outputs = [
        {
            "name": one,
            "datatype": datatype,
            "shape": [-1, *(-1 for _ in _row_shape(_value(sample, one), datatype))],
        }
        for one, datatype in columns_of(sample).items()
    ]
    return {
        "name": name,
        "versions": ["1"],
        "platform": f"{artifact.choose(form).engine}_onnx",
        "inputs": [{"name": one, "datatype": "BYTES", "shape": [-1]} for one in artifact.fields],
        "outputs": outputs,
    }
