"""Pooling against ONNX Runtime and by hand: windows that overhang, pads, dilations, indices."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

import graphwright as gw
from graphwright.ir.build import new_main_graph
from graphwright.ir.graph import Module
from graphwright.ir.symbols import evaluate, floordiv, maximum, symbol
from graphwright.ir.types import F32, tensor
from graphwright.ops.nn.average_pool import AveragePool
from graphwright.ops.nn.max_pool import MaxPool

from .peer import compare, imported


def draw(*shape: int) -> Any:
    return np.random.default_rng(1).normal(size=shape).astype(np.float32)


@st.composite
def pools(draw_: st.DrawFn) -> tuple[list[int], dict[str, Any]]:
    """Spatial sizes and attributes of a pool of which at least one window fits."""
    rank = draw_(st.integers(1, 3))

    def each(low: int, high: int) -> list[int]:
        return [draw_(st.integers(low, high)) for _ in range(rank)]

    kernel, dilations = each(1, 3), each(1, 2)
    pads = [draw_(st.integers(0, k - 1)) for k in kernel * 2]
    dims = [(k - 1) * d + extra for k, d, extra in zip(kernel, dilations, each(1, 6), strict=True)]
    attributes = {
        "kernel_shape": kernel,
        "strides": each(1, 3),
        "dilations": dilations,
        "pads": pads,
        "ceil_mode": draw_(st.integers(0, 1)),
    }
    return dims, attributes


@settings(max_examples=60, deadline=None)
@given(pools())
def test_max_pool_is_that_of_onnx_runtime(pool: tuple[list[int], dict[str, Any]]) -> None:
    dims, attributes = pool
    compare("MaxPool", [draw(2, 2, *dims)], attributes, opset=12)


@settings(max_examples=40, deadline=None)
@given(pools(), st.integers(0, 1))
def test_max_pool_with_indices(pool: tuple[list[int], dict[str, Any]], order: int) -> None:
    dims, attributes = pool
    compare("MaxPool", [draw(1, 2, *dims)], attributes | {"storage_order": order}, opset=12, outputs=2)


@settings(max_examples=60, deadline=None)
@given(pools(), st.integers(0, 1))
def test_average_pool_is_that_of_onnx_runtime(pool: tuple[list[int], dict[str, Any]], include: int) -> None:
    dims, attributes = pool
    compare("AveragePool", [draw(2, 2, *dims)], attributes | {"count_include_pad": include}, opset=19)


@settings(max_examples=30, deadline=None)
@given(pools(), st.integers(1, 3))
def test_lp_pool_is_that_of_onnx_runtime(pool: tuple[list[int], dict[str, Any]], p: int) -> None:
    dims, attributes = pool
    compare("LpPool", [draw(2, 2, *dims)], attributes | {"p": p}, opset=18, tolerance=1e-4)


@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER", "VALID"])
@pytest.mark.parametrize("stride, size", [(1, 6), (2, 7), (2, 8), (3, 9)])
def test_auto_pad_equals_onnx_runtime(op_type: str, auto_pad: str, stride: int, size: int) -> None:
    attributes = {"auto_pad": auto_pad, "kernel_shape": [3, 2], "strides": [stride, 1]}
    compare(op_type, [draw(1, 2, size, 5)], attributes, opset=11)


def test_elements_beyond_the_pads_are_not_counted() -> None:
    x = np.arange(1, 6, dtype=np.float32).reshape(1, 1, 5)
    attributes = {"kernel_shape": [3], "strides": [2], "pads": [0, 1], "ceil_mode": 1, "count_include_pad": 1}
    (y,) = imported("AveragePool", [x], attributes, 22)
    np.testing.assert_allclose(y, [[[2, 4, 5 / 2]]])
    (y,) = imported("AveragePool", [x], attributes | {"count_include_pad": 0}, 22)
    np.testing.assert_allclose(y, [[[2, 4, 5]]])


def test_a_window_that_would_start_in_the_end_pad_is_dropped() -> None:
    x = np.arange(4, dtype=np.float32).reshape(1, 1, 4)
    attributes = {"kernel_shape": [1], "strides": [2], "pads": [0, 1], "ceil_mode": 1}
    (y,) = imported("MaxPool", [x], attributes, 22)
    np.testing.assert_array_equal(y, [[[0, 2]]])


def test_nan_wins_and_pads_never_do() -> None:
    x = np.array([[[-5, np.nan, -7, -8]]], np.float32)
    y, where = imported("MaxPool", [x], {"kernel_shape": [2], "pads": [1, 0]}, 12, 2)
    np.testing.assert_array_equal(y, [[[-5, np.nan, np.nan, -7]]])
    np.testing.assert_array_equal(where, [[[0, 1, 1, 2]]])


@pytest.mark.parametrize("op_type", ["GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"])
def test_global_pools_equal_onnx_runtime(op_type: str) -> None:
    compare(op_type, [draw(2, 3, 4, 5)], {}, opset=11)


@pytest.mark.parametrize("size", [3, 4, 5, 8, 11])
@pytest.mark.parametrize(
    "kernel, stride, pads", [(3, 2, (1, 1)), (2, 3, (0, 1)), (1, 2, (0, 0)), (3, 2, (0, 2))]
)
def test_a_symbolic_size_with_ceil_is_that_of_its_number(
    size: int, kernel: int, stride: int, pads: tuple[int, int]
) -> None:
    h = symbol("H")
    b, (x,) = new_main_graph(Module(), [("x", tensor(F32, 1, 1, h))])
    y = b(MaxPool((kernel,), (stride,), pads, ceil=True), x)
    attributes = {"kernel_shape": [kernel], "strides": [stride], "pads": list(pads), "ceil_mode": 1}
    (computed,) = imported("MaxPool", [draw(1, 1, size)], attributes, 12)
    assert evaluate(y.type.dims[2], {"H": size}) == computed.shape[2]


def test_symbolic_sizes_are_simple() -> None:
    h = symbol("H")
    b, (x,) = new_main_graph(Module(), [("x", tensor(F32, 1, 8, h, h))])
    assert b(AveragePool((2, 2), (2, 2)), x).type.dims == (1, 8, *[maximum(floordiv(h, 2), 1)] * 2)
    assert b(AveragePool((3, 3), (2, 2), (1, 1, 1, 1)), x).type.dims[2] == floordiv(h - 1, 2) + 1


@pytest.mark.parametrize("device", ["reference", "cpu"])
@pytest.mark.parametrize(
    "kernel, dilations, pads, shape",
    [((2,), (2,), (1, 1), (1, 1, 1)), ((2, 2), (3, 3), (1,) * 4, (1, 2, 2, 2))],
)
def test_an_average_of_pads_alone_is_0(
    device: str,
    kernel: tuple[int, ...],
    dilations: tuple[int, ...],
    pads: tuple[int, ...],
    shape: tuple[int, ...],
) -> None:
    """ONNX Runtime gives 0 too; 0 / 0 would be NaN."""
    node = helper.make_node("AveragePool", ["x"], ["y"], kernel_shape=kernel, dilations=dilations, pads=pads)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "g", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    feed = {"x": np.full(shape, 2.5, np.float32)}
    (wanted,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feed)
    np.testing.assert_array_equal(gw.compile(model, options={"device": device}).run(feed)["y"], wanted)
    assert not wanted.any()
