"""Large weights stay in the model's file: only the records of their position may change."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import graphwright as gw
from graphwright.frontends.onnx.unparsed_weights import LARGE, detach_weights

RNG = np.random.default_rng(5)
BIG = RNG.standard_normal((160, 128), np.float32)
SMALL = RNG.standard_normal(128).astype(np.float32)


def _model(name: str = "w", *more: TensorProto) -> onnx.ModelProto:
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", name], ["p"]), helper.make_node("Add", ["p", "b"], ["y"])],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 160])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 128])],
        [numpy_helper.from_array(BIG, name), numpy_helper.from_array(SMALL, "b"), *more],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def test_large_raw_data_is_cut_out_and_nothing_else() -> None:
    data = _model().SerializeToString()
    slim, weights = detach_weights(memoryview(data))
    assert list(weights) == ["w"]
    np.testing.assert_array_equal(np.frombuffer(weights["w"], np.float32), BIG.ravel())
    assert len(slim) < len(data) - BIG.nbytes + 8
    parsed, expected = onnx.ModelProto.FromString(bytes(slim)), _model()
    assert parsed.graph.initializer[0].HasField("raw_data")
    expected.graph.initializer[0].raw_data = b""
    assert parsed == expected


@pytest.mark.parametrize("padding", range(5))
def test_results_do_not_depend_on_where_weights_lie(padding: int, tmp_path: Path) -> None:
    """Names have all lengths, so weights start at every alignment."""
    model = _model("w" * (1 + padding))
    onnx.save(model, tmp_path / "x.onnx")
    x = RNG.standard_normal((2, 160), np.float32)
    (mapped,) = gw.compile(tmp_path / "x.onnx")(x)
    (parsed,) = gw.compile(model)(x)
    np.testing.assert_array_equal(mapped, parsed)
    np.testing.assert_allclose(mapped, x @ BIG + SMALL, rtol=1e-4, atol=1e-4)


def test_two_weights_of_one_name_are_left_to_the_parser() -> None:
    data = _model("w", numpy_helper.from_array(BIG, "w")).SerializeToString()
    slim, weights = detach_weights(memoryview(data))
    assert bytes(slim) == data
    assert weights == {}


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_damaged_bytes_are_left_to_the_parser_or_cut_alike(data: st.DataObject) -> None:
    whole = bytearray(_model().SerializeToString())
    head = [*range(200), *range(len(whole) - 400, len(whole))]
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.sampled_from(head))] = data.draw(st.integers(0, 255))
    del whole[data.draw(st.sampled_from([len(whole), len(whole) - 1, len(whole) // 2, 3])) :]
    slim, weights = detach_weights(memoryview(bytes(whole)))
    assert all(len(part) >= LARGE for part in weights.values())
    try:
        expected = onnx.ModelProto.FromString(bytes(whole))
    except Exception:
        return  # whatever the cut model says, this one is refused or has other weights
    parsed = onnx.ModelProto.FromString(bytes(slim))
    for tensor in parsed.graph.initializer:
        if tensor.name in weights and not tensor.raw_data:
            tensor.raw_data = bytes(weights[tensor.name])
    assert parsed == expected
