"""Exported models run: int8 one text at a time."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic

from understudy.artifacts.session import open_file, pad

INPUTS, OUTPUTS = ("input_ids", "attention_mask"), ("logits", "token_logits")
TEXTS = [[1, 2, 3], [4], [5, 6, 7, 8, 9, 2, 2]]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with one embedding and one matrix: values for each token, and their sums for each text."""
    rng = np.random.default_rng(0)
    # Tokens of very different sizes, so that one scale for all of them is a poor one for most.
    embeddings = (rng.normal(size=(10, 4)) * 3.0 ** np.arange(10)[:, None]).astype(np.float32)
    weights = rng.normal(size=(4, 3)).astype(np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("Gather", ["embeddings", "input_ids"], ["hidden"]),
            helper.make_node("MatMul", ["hidden", "weights"], ["token_logits"]),
            helper.make_node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
            helper.make_node("Unsqueeze", ["mask", "last"], ["mask_BL1"]),
            helper.make_node("Mul", ["token_logits", "mask_BL1"], ["masked"]),
            helper.make_node("ReduceSum", ["masked", "tokens"], ["logits"], keepdims=0),
        ],
        "model",
        [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"]) for name in INPUTS],
        [
            helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 3]),
            helper.make_tensor_value_info("token_logits", TensorProto.FLOAT, ["batch", "length", 3]),
        ],
        [
            numpy_helper.from_array(embeddings, "embeddings"),
            numpy_helper.from_array(weights, "weights"),
            numpy_helper.from_array(np.array([-1]), "last"),
            numpy_helper.from_array(np.array([1]), "tokens"),
        ],
    )
    folder = tmp_path_factory.mktemp("model")
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, folder / "fp32.onnx")
    int8 = {"op_types_to_quantize": ["MatMul"], "weight_type": QuantType.QInt8}
    quantize_dynamic(folder / "fp32.onnx", folder / "int8.onnx", **int8)
    return folder / "int8.onnx"


def batch_of(texts: list[list[int]]) -> dict[str, np.ndarray]:
    return pad([{"input_ids": one} for one in texts], {"input_ids": 0})


@pytest.mark.parametrize("threads", [1, 2, None])
def test_the_other_texts_of_a_batch_do_not_change_an_int8_prediction(file: Path, threads: int | None) -> None:
    session = open_file(file, "onnxruntime", INPUTS, OUTPUTS, threads=threads)
    logits, token_logits = session(batch_of(TEXTS))
    assert logits.shape == (3, 3)
    assert token_logits.shape == (3, 7, 3)
    for row, text in enumerate(TEXTS):
        alone, tokens_alone = session(batch_of([text]))
        assert (logits[row] == alone[0]).all()
        assert (token_logits[row, : len(text)] == tokens_alone[0]).all()
        assert (token_logits[row, len(text) :] == 0).all()


def test_without_it_they_would(file: Path) -> None:
    import onnxruntime

    plain = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    together = plain.run(["logits"], batch_of(TEXTS))[0]
    alone = plain.run(["logits"], batch_of([TEXTS[1]]))[0]
    assert np.abs(together[1] - alone[0]).max() > 1e-3


def test_fp32_is_run_as_a_batch(file: Path) -> None:
    session = open_file(file.with_name("fp32.onnx"), "onnxruntime", INPUTS, OUTPUTS, threads=1)
    _, token_logits = session(batch_of(TEXTS))
    assert (token_logits[1, 1:] != 0).all()  # padding has values, too
