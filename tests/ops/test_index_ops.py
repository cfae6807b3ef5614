"""Ops that choose elements: gathers, scatters, ranks and marks, against NumPy and ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphwright.ir.build import new_graph
from graphwright.ir.graph import Module
from graphwright.ir.symbols import symbol
from graphwright.ir.types import F32, I64, tensor
from graphwright.ops.gather_nd import GatherND
from graphwright.ops.non_zero import NonZero
from graphwright.ops.one_hot import OneHot
from graphwright.ops.scatter_nd import ScatterND
from graphwright.ops.top_k import TopK

from .peer import compare, imported

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def vector(*values: int) -> Any:
    return np.array(values, np.int64)


def floats(values: Any) -> Any:
    return np.array(values, np.float32)


def grid(values: Any) -> Any:
    return np.array(values, np.int64)


@pytest.mark.parametrize(
    "op_type, opset, arrays, attributes, outputs",
    [
        ("Gather", 7, [X, vector(1, 0)], {"axis": 2}, 1),
        ("Gather", 13, [X, grid([[-1, 0], [1, 1]])], {"axis": 1}, 1),
        ("GatherElements", 11, [X[0], grid([[0, 2, -1, 1]])], {"axis": 0}, 1),
        ("GatherND", 11, [X, grid([[0, 1], [1, -1]])], {}, 1),
        ("GatherND", 13, [X, grid([[0], [2]])], {"batch_dims": 1}, 1),
        ("Scatter", 9, [X[0], grid([[1, 0, 2, 1]]), X[1][:1]], {"axis": 0}, 1),
        ("ScatterElements", 16, [X[0], grid([[1, 1, 1, 1]]), X[1][:1]], {"axis": 1, "reduction": "add"}, 1),
        ("ScatterElements", 18, [X[0], grid([[1, 1, 1, 1]]), X[1][:1]], {"axis": 1, "reduction": "max"}, 1),
        ("ScatterND", 11, [X, grid([[1], [0]]), X[::-1].copy()], {}, 1),
        ("ScatterND", 18, [X, grid([[1, 2], [1, 2]]), X[0][:2]], {"reduction": "mul"}, 1),
        ("OneHot", 9, [vector(0, 3, -1, 7), vector(4), np.array([0, 5], np.float32)], {}, 1),
        ("OneHot", 11, [grid([[0, 1]]), vector(3), np.array([2, 1], np.float32)], {"axis": 1}, 1),
        ("TopK", 7, [X], {"k": 2, "axis": 1}, 2),
        ("TopK", 10, [X, vector(3)], {}, 2),
        ("TopK", 11, [floats([[3, 1, 3, 2, 1]]), vector(4)], {"largest": 0}, 2),
        ("TopK", 11, [floats([[3, 1, 3, 2, 1]]), vector(4)], {}, 2),
        ("Trilu", 14, [X], {"upper": 0}, 1),
        ("Trilu", 14, [X, grid(1)], {}, 1),
        ("ReverseSequence", 10, [X[0], vector(3, 1, 2, 0)], {}, 1),
        ("ReverseSequence", 10, [X, vector(2, 3)], {"batch_axis": 0, "time_axis": 1}, 1),
        ("NonZero", 9, [X % 3], {}, 1),
    ],
)
def test_imports_are_what_onnx_runtime_computes(
    op_type: str, opset: int, arrays: list[Any], attributes: dict[str, Any], outputs: int
) -> None:
    compare(op_type, arrays, attributes, opset, outputs)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_gather_is_numpys_take(data: st.DataObject) -> None:
    dims = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    axis = data.draw(st.integers(-len(dims), len(dims) - 1))
    shape = data.draw(st.lists(st.integers(0, 3), max_size=2))
    low, high = -dims[axis], dims[axis] - 1
    count = int(np.prod(shape))
    chosen = data.draw(st.lists(st.integers(low, high), min_size=count, max_size=count))
    x, indices = np.random.default_rng(0).normal(size=dims), np.array(chosen, np.int64).reshape(shape)
    (y,) = imported("Gather", [x, indices], {"axis": axis}, 13)
    np.testing.assert_array_equal(y, np.take(x, indices, axis))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-3, 3), min_size=1, max_size=9), st.booleans(), st.data())
def test_top_k_is_a_stable_sort(values: list[int], largest: bool, data: st.DataObject) -> None:
    k = data.draw(st.integers(0, len(values)))
    expected = sorted(range(len(values)), key=lambda i: (-values[i] if largest else values[i], i))[:k]
    _, index = imported("TopK", [np.array(values, np.int32), vector(k)], {"largest": int(largest)}, 11, 2)
    assert index.tolist() == expected


def test_scatter_writes_a_copy_in_order() -> None:
    x = np.zeros(3, np.float32)
    (y,) = imported("ScatterND", [x, grid([[1], [1]]), floats([5, 7])], {}, 13)
    np.testing.assert_array_equal(y, [0, 7, 0])
    assert not x.any()


def test_symbolic_shapes() -> None:
    n = symbol("N")
    b, (x, rows, marks) = new_graph(
        Module(),
        "main",
        [("x", tensor(F32, n, 4)), ("rows", tensor(I64, n, 1)), ("marks", tensor(F32, 2))],
    )
    assert b(GatherND(), x, rows).type == x.type
    assert b(ScatterND(), x, rows, x).type == x.type
    assert b(OneHot(0, 5), rows, marks).type == tensor(F32, 5, n, 1)
    assert [v.type for v in b(TopK(0, k=n), x)] == [x.type, tensor(I64, n, 4)]
    found, again = b(NonZero(), x), b(NonZero(), x)
    assert found.type.dims[0] == 2
    assert found.type.dims[1] not in (n, again.type.dims[1])
