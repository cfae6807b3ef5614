"""MurmurHash3, compared with ONNX Runtime and with published hashes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

import graphwright as gw

RNG = np.random.default_rng(3)
TEXTS = np.array(["", "a", "ab", "abc", "abcd", "abcde", "äöü€", "x" * 100], object)
OPERANDS: dict[int, Any] = {
    TensorProto.INT32: RNG.integers(-9, 9, (3, 2), np.int32),
    TensorProto.INT64: RNG.integers(-(2**60), 2**60, (3, 2)),
    TensorProto.UINT32: RNG.integers(0, 2**32, (3, 2), np.uint32),
    TensorProto.UINT64: RNG.integers(0, 2**63, (0, 2), np.uint64),
    TensorProto.FLOAT: RNG.normal(size=(2, 2)).astype(np.float32),
    TensorProto.DOUBLE: RNG.normal(size=(2, 2)),
    TensorProto.STRING: TEXTS,
}


def model(dtype: int, rank: int, **attributes: Any) -> Any:
    node = helper.make_node("MurmurHash3", ["x"], ["y"], domain="com.microsoft", **attributes)
    result = TensorProto.UINT32 if attributes.get("positive", 1) else TensorProto.INT32
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", dtype, [None] * rank)],
        [helper.make_tensor_value_info("y", result, None)],
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


@pytest.mark.parametrize(
    "attributes", [{}, {"seed": 42}, {"positive": 0}, {"seed": 2**32 - 5, "positive": 0}]
)
@pytest.mark.parametrize("dtype", OPERANDS)
def test_hashes_are_those_of_onnx_runtime(dtype: int, attributes: dict[str, int]) -> None:
    x = OPERANDS[dtype]
    proto = model(dtype, x.ndim, **attributes)
    (wanted,) = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"x": x})
    (found,) = gw.compile(proto)(x)
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)


def test_hashes_are_the_published_ones() -> None:
    """Of the texts in the article about MurmurHash in Wikipedia."""
    texts = np.array(["", "test", "Hello, world!", "The quick brown fox jumps over the lazy dog"], object)
    (found,) = gw.compile(model(TensorProto.STRING, 1))(texts)
    assert list(map(hex, found)) == ["0x0", "0xba6bd213", "0xc0363e43", "0x2e4ff723"]
