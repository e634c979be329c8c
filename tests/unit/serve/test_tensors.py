"""Tensors of the Open Inference Protocol, in JSON and in binary."""

from __future__ import annotations

import contextlib
import json
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.errors import DataError
from understudy.kinds import get_rows
from understudy.serve.tensors import InferRequest, parse_infer, write_infer

KIND = get_rows("classification")
SAMPLE = {"label": "a", "score": 0.5, "probabilities": {"a": 0.5, "b": 0.5}}


def binary(texts: list[str]) -> tuple[bytes, str]:
    content = b"".join(struct.pack("<I", len(text.encode())) + text.encode() for text in texts)
    tensor = {"name": "text", "shape": [len(texts)], "datatype": "BYTES"}
    head = json.dumps({"inputs": [tensor | {"parameters": {"binary_data_size": len(content)}}]}).encode()
    return head + content, str(len(head))


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=5))
def test_binary_and_json_are_read_alike(texts: list[str]) -> None:
    body, size = binary(texts)
    tensor = {"name": "text", "shape": [len(texts), 1], "datatype": "BYTES", "data": [[one] for one in texts]}
    plain = json.dumps({"inputs": [tensor]}).encode()
    expected = [{"text": text} for text in texts]
    assert parse_infer(body, size, KIND, ["text"]).rows == expected
    assert parse_infer(plain, None, KIND, ["text"]).rows == expected


@given(st.binary(max_size=200), st.one_of(st.none(), st.text(max_size=5), st.integers().map(str)))
def test_anything_is_a_request_or_our_error(body: bytes, header: str | None) -> None:
    with contextlib.suppress(DataError):
        parse_infer(body, header, KIND, ["text"])


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_subnormal=False), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(
    st.fixed_dictionaries(
        {}, optional=dict.fromkeys(("name", "shape", "datatype", "data", "parameters"), json_values)
    ),
    json_values,
)
def test_any_tensor_is_read_or_our_error(tensor: dict[str, Any], outputs: Any) -> None:
    body = json.dumps(
        {"inputs": [{"name": "text", "datatype": "BYTES"} | tensor], "outputs": outputs}
    ).encode()
    with contextlib.suppress(DataError):
        parse_infer(body, None, KIND, ["text"])


def test_outputs_are_named_typed_and_chosen() -> None:
    predictions = [SAMPLE, {**SAMPLE, "label": "ü", "truncated": True}]
    body, size = write_infer("m", InferRequest([], "7"), predictions, SAMPLE)
    assert size is None
    answer = json.loads(body)
    assert answer["id"] == "7"
    shapes = {one["name"]: (one["datatype"], one["shape"], one["data"]) for one in answer["outputs"]}
    assert shapes["label"] == ("BYTES", [2], ["a", "ü"])
    assert shapes["probabilities"] == ("FP32", [2, 2], [0.5] * 4)
    assert shapes["truncated"] == ("BOOL", [2], [False, True])
    body, size = write_infer(
        "m", InferRequest([], outputs={"score": True, "label": True}), predictions, SAMPLE
    )
    assert size is not None
    head, rest = json.loads(body[:size]), body[size:]
    assert [one["parameters"]["binary_data_size"] for one in head["outputs"]] == [8, 11]
    assert np.frombuffer(rest[:8], np.float32).tolist() == [0.5, 0.5]
    assert rest[8:] == b"\x01\0\0\0a\x02\0\0\0" + "ü".encode()


def test_rows_of_different_lengths_have_no_tensor() -> None:
    predictions = [{"probabilities": [0.5, 0.5]}, {"probabilities": [1.0]}]
    with pytest.raises(DataError, match="rows of different lengths"):
        write_infer("m", InferRequest([]), predictions, predictions[0])
