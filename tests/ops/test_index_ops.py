"""Ops that choose elements: gathers, scatters, ranks and marks, against NumPy and ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

import graphwright as gw
from graphwright.ir.build import new_main_graph
from graphwright.ir.graph import Module
from graphwright.ir.inference.infer import evaluate
from graphwright.ir.symbols import symbol
from graphwright.ir.types import BOOL, F32, I64, tensor
from graphwright.ops.core.compress import Compress
from graphwright.ops.core.gather_nd import GatherND
from graphwright.ops.core.non_zero import NonZero
from graphwright.ops.core.one_hot import OneHot
from graphwright.ops.core.pad import Pad
from graphwright.ops.core.scatter_nd import ScatterND
from graphwright.ops.core.top_k import TopK
from graphwright.ops.core.trilu import Trilu
from graphwright.ops.core.unique import Unique

from .peer import compare, imported, runtime

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


def test_shapes_of_results_follow_symbolic_sizes() -> None:
    n = symbol("N")
    b, (x, rows, marks) = new_main_graph(
        Module(),
        [("x", tensor(F32, n, 4)), ("rows", tensor(I64, n, 1)), ("marks", tensor(F32, 2))],
    )
    assert b(GatherND(), x, rows).type == x.type
    assert b(ScatterND(), x, rows, x).type == x.type
    assert b(OneHot(0, 5), rows, marks).type == tensor(F32, 5, n, 1)
    assert [v.type for v in b(TopK(0, k=n), x)] == [x.type, tensor(I64, n, 4)]
    found, again = b(NonZero(), x), b(NonZero(), x)
    assert found.type.dims[0] == 2
    assert found.type.dims[1] not in (n, again.type.dims[1])


MANY = np.array([[2, 1, 1], [3, 4, 3], [2, 1, 1]], np.float32)
MARKS = np.array([True, False, True])


@pytest.mark.parametrize("ordered", [0, 1])
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("x", [MANY, MANY.astype(np.int64), np.array([["b", "a"], ["b", "a"]], object)])
def test_unique_is_what_onnx_runtime_computes(x: Any, axis: int | None, ordered: int) -> None:
    attributes = {"sorted": ordered} | ({} if axis is None else {"axis": axis})
    expected = runtime("Unique", [x], attributes, 11, 4)
    for actual, wanted in zip(imported("Unique", [x], attributes, 11, 4), expected, strict=True):
        np.testing.assert_array_equal(actual, wanted)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-2, 2), max_size=12), st.booleans())
def test_unique_finds_each_element_once(values: list[int], ordered: bool) -> None:
    x = np.array(values, np.int32)
    y, first, inverse, counts = imported("Unique", [x], {"sorted": int(ordered)}, 11, 4)
    assert y.tolist() == (sorted(set(values)) if ordered else list(dict.fromkeys(values)))
    assert first.tolist() == [values.index(v) for v in y]
    assert [y[k] for k in inverse] == values
    assert counts.tolist() == [values.count(v) for v in y]


def test_unique_slices_may_be_empty() -> None:
    y, first, inverse, counts = imported("Unique", [np.zeros((3, 0), np.float32)], {"axis": 0}, 11, 4)
    assert y.shape == (1, 0)
    assert (first.tolist(), inverse.tolist(), counts.tolist()) == ([0], [0, 0, 0], [3])


@pytest.mark.parametrize(
    "condition, attributes",
    [(MARKS, {}), (MARKS, {"axis": 1}), (MARKS[:2], {"axis": 0}), (MARKS, {"axis": -1}), (MARKS[:0], {})],
)
def test_compress_is_what_onnx_runtime_computes(condition: Any, attributes: dict[str, int]) -> None:
    compare("Compress", [MANY, condition], attributes, 11)


def test_compress_by_a_known_condition_has_a_known_size() -> None:
    b, (x, condition) = new_main_graph(
        Module(), [("x", tensor(F32, 3, symbol("N"))), ("condition", tensor(BOOL, 3))]
    )
    assert b(Compress(0), x, b.const(MARKS)).type == tensor(F32, 2, symbol("N"))
    assert b(Compress(0), x, condition).type.dims[0] not in (2, 3)
    assert Compress(0).decompose(b, x, condition) is None


def scattered_by_hand(cache: Any, update: Any, write: Any, axis: int, mode: str) -> Any:
    """The pseudocode of ONNX's specification."""
    out = cache.copy()
    for prefix in np.ndindex(cache.shape[:axis]):
        for k in range(update.shape[axis]):
            place = write[prefix[0]] + k
            out[(*prefix, place % cache.shape[axis] if mode == "circular" else place)] = update[(*prefix, k)]
    return out


@settings(max_examples=60, deadline=None)
@given(batch=st.integers(0, 3), size=st.integers(1, 5), axis=st.integers(1, 2), data=st.data())
def test_tensor_scatter_writes_from_an_index_on(
    batch: int, size: int, axis: int, data: st.DataObject
) -> None:
    mode = data.draw(st.sampled_from(["linear", "circular"]))
    count = data.draw(st.integers(0, size))
    last = size - count if mode == "linear" else 9
    write = vector(*data.draw(st.lists(st.integers(0, last), min_size=batch, max_size=batch)))
    shape, part = [batch, 2, 2, 3], [batch, 2, 2, 3]
    shape[axis], part[axis] = size, count
    rng = np.random.default_rng(size)
    cache, update = rng.normal(size=shape), rng.normal(size=part)
    (y,) = imported("TensorScatter", [cache, update, write], {"mode": mode, "axis": axis}, 24)
    np.testing.assert_array_equal(y, scattered_by_hand(cache, update, write, axis, mode))


def test_tensor_scatter_starts_at_the_beginning_by_default() -> None:
    cache, update = np.zeros((2, 4, 1), np.float32), np.ones((2, 3, 1), np.float32)
    (y,) = imported("TensorScatter", [cache, update], {}, 24)
    assert y[..., 0].tolist() == [[1, 1, 1, 0]] * 2
    assert not cache.any()


def test_linear_tensor_scatter_rejects_what_lies_outside() -> None:
    cache, update = np.zeros((1, 4, 1), np.float32), np.ones((1, 3, 1), np.float32)
    with pytest.raises(IndexError):
        imported("TensorScatter", [cache, update, vector(2)], {}, 24)


def test_unique_of_a_constant_has_a_known_size() -> None:
    b, (x,) = new_main_graph(Module(), [("x", tensor(F32, 3, 3))])
    assert [v.type.dims for v in b(Unique(0), b.const(MANY))] == [(2, 3), (2,), (3,), (2,)]
    y, first, inverse, counts = (v.type.dims for v in b(Unique(), x))
    assert y == first == counts != inverse == (9,)


def model_of(op: str, inputs: dict[str, Any], **attributes: Any) -> bytes:
    """A model of one node, whose inputs have ranks but dynamic sizes."""
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), [None] * array.ndim)
        for name, array in inputs.items()
    ]
    node = helper.make_node(op, list(inputs), ["y"], **attributes)
    graph = helper.make_graph([node], "g", infos, [onnx.ValueInfoProto(name="y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    return bytes(model.SerializeToString())


@pytest.mark.parametrize("device", ["reference", "cpu"])
@pytest.mark.parametrize("indices", [np.array([[1, 0]]), np.array([[1], [0]])])
def test_the_depth_of_indices_may_be_open(indices: Any, device: str) -> None:
    """The depth determines ranks, and is known at the first feed."""
    x = np.array([[1, 2], [3, 4]], np.float32)
    taken = x[tuple(indices.T)]
    gather = gw.compile(
        model_of("GatherND", {"x": x, "i": indices}), options=gw.CompileOptions(device=device)
    )
    assert np.array_equal(gather.run({"x": x, "i": indices})["y"], taken)
    feed = {"x": x, "i": indices, "u": -taken}
    scatter = gw.compile(model_of("ScatterND", feed), options=gw.CompileOptions(device=device))
    want = x.copy()
    want[tuple(indices.T)] = -taken
    assert np.array_equal(scatter.run(feed)["y"], want)


@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_a_depth_of_0_as_input_gives_no_classes(device: str) -> None:
    feed = {"i": vector(0, 1, 2), "depth": np.array(0), "values": np.array([0, 1], np.float32)}
    model = gw.compile(model_of("OneHot", feed), options=gw.CompileOptions(device=device))
    assert model.run(feed)["y"].shape == (3, 0)
    with pytest.raises(gw.GraphwrightError, match="-1"):
        model.run({**feed, "depth": np.array(-1)})


def test_a_vector_of_dynamic_size_may_be_used_as_a_scalar() -> None:
    """Only one element may then be fed."""
    x = np.array([-2, 5], np.float32)
    model = gw.compile(model_of("Clip", {"x": x, "low": np.zeros(1, np.float32)}))
    assert np.array_equal(model.run({"x": x, "low": np.zeros(1, np.float32)})["y"], [0, 5])
    with pytest.raises(gw.FeedError, match="2"):
        model.run({"x": x, "low": np.zeros(2, np.float32)})


def test_strings_are_filled_with_empty_ones() -> None:
    """Empty strings are the counterpart of 0."""
    x = np.array([["a", "b"], ["c", "d"]], object)
    assert evaluate(Trilu(upper=False, k=0), [x])[0].tolist() == [["a", ""], ["c", "d"]]
    assert evaluate(Trilu(upper=True, k=-1), [x])[0].tolist() == [["a", "b"], ["c", "d"]]
    assert evaluate(Pad((0, 1, 0, 0)), [x])[0].tolist() == [["", "a", "b"], ["", "c", "d"]]
