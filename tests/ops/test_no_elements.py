"""Axes of no elements, and integers where most models have floats, against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import ValueInfoProto, helper

import graphwright as gw
from graphwright.config import Options
from graphwright.ir.dtypes import DTYPES
from graphwright.ir.op import Fact
from graphwright.ir.symbols import symbol
from graphwright.ir.types import TensorType
from graphwright.ops.core.known_elements import broadcast_elements
from tests.ops.peer import compare


def model(op: str, dims: list[str], **attributes: Any) -> bytes:
    node = helper.make_node(op, ["x"], ["y"], **attributes)
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("x", 1, dims)], [ValueInfoProto(name="y")]
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(made.SerializeToString())


@pytest.mark.parametrize("device", ["cpu", "reference"])
@pytest.mark.parametrize("op", ["Hardmax", "ArgMax", "ArgMin", "Softmax", "LogSoftmax"])
def test_rows_of_no_elements(op: str, device: str) -> None:
    text = model(op, ["N", "M"], axis=1)
    session, compiled = onnxruntime.InferenceSession(text), gw.compile(text, options=Options(device=device))
    for shape in ((0, 3), (0, 0), (2, 1), (3, 4)) + (() if op[:3] == "Arg" else ((3, 0),)):
        x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)[:, ::-1].copy()
        want = session.run(None, {"x": x})[0]
        np.testing.assert_allclose(compiled(x)[0], want, rtol=1e-6)


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_the_largest_of_no_elements_is_rejected(device: str) -> None:
    compiled = gw.compile(model("ArgMax", ["N", "M"], axis=1), options=Options(device=device))
    with pytest.raises(gw.GraphwrightError, match="ArgMax"):
        compiled(np.zeros((3, 0), np.float32))


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("keepdims", [0, 1])
def test_logarithms_of_sums_of_integers(dtype: Any, keepdims: int) -> None:
    x = np.array([[1, 2, 3], [0, 5, 7], [-4, 30, 2]], dtype)
    compare("ReduceLogSumExp", [x], {"axes": [1], "keepdims": keepdims}, opset=13)
    compare("ReduceLogSumExp", [x], {"axes": [0, 1], "keepdims": keepdims}, opset=13)


def test_tf_idf_of_rows_without_tokens() -> None:
    attributes = {
        "mode": "TF", "min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 1, "ngram_counts": [0, 1],
        "ngram_indexes": [0, 1], "pool_int64s": [2, 5, 6],
    }  # fmt: skip
    for tokens in (np.zeros((3, 0), np.int64), np.array([[5, 6, 2]])):
        compare("TfIdfVectorizer", [tokens], attributes, opset=9)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_means_of_no_elements_do_not_warn(device: str) -> None:
    """``python -W error`` turns warnings into errors, which would stop the run."""
    x, rows = np.zeros((2, 3, 0, 4), np.float32), np.zeros((3, 0), np.float32)
    for op, given in (("GlobalAveragePool", x), ("MeanVarianceNormalization", x), ("LpNormalization", rows)):
        dims = [f"n{axis}" for axis in range(given.ndim)]
        (found,) = gw.compile(model(op, dims), options=Options(device=device))(given)
        if op == "GlobalAveragePool":
            assert found.shape == (2, 3, 1, 1)
            assert np.isnan(found).all()
        else:
            np.testing.assert_array_equal(found, given)
    b = gw.GraphBuilder()
    y = b.layer_normalization(b.input("x", "f32", ("N", "M")), b.input("scale", "f32", ("M",)))
    b.output("y", y[0] if isinstance(y, tuple) else y)
    (found,) = b.compile(options=Options(device=device))(rows, np.zeros(0, np.float32))
    assert found.shape == (3, 0)


def test_known_integers_of_no_elements_with_a_dynamic_axis() -> None:
    """Shape inference computes small integer tensors; this one has no elements for any size of the other
    axis.
    """
    known = Fact(TensorType(DTYPES["i64"], (0, symbol("N"))), ())
    assert broadcast_elements([known, known], (0, symbol("N"))) == []
    assert broadcast_elements([known, Fact(TensorType(DTYPES["i64"], ()), (3,))], (0, symbol("N"))) == []
