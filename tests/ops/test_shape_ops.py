"""Ops that change shapes: symbolic chains, imports of every opset, and properties against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphwright as gw
from graphwright.errors import ModelError
from graphwright.ir.build import Builder, new_main_graph
from graphwright.ir.graph import Module, Value
from graphwright.ir.op import Fact, Inference, Op
from graphwright.ir.symbols import Dim, SymbolTable, evaluate, floordiv, minimum, symbol
from graphwright.ir.types import F32, I32, I64, tensor
from graphwright.ops.core.binary import Max, Min, Sub
from graphwright.ops.core.cast import Cast
from graphwright.ops.core.concat import Concat
from graphwright.ops.core.constant_of_shape import ConstantOfShape
from graphwright.ops.core.expand import Expand
from graphwright.ops.core.gather import Gather
from graphwright.ops.core.mod import Mod
from graphwright.ops.core.pad import Pad
from graphwright.ops.core.range import Range
from graphwright.ops.core.reshape import Reshape
from graphwright.ops.core.shape import Shape
from graphwright.ops.core.slice import Slice, sliced_range
from graphwright.ops.core.split import Split
from graphwright.ops.core.squeeze import Squeeze
from graphwright.ops.core.tile import Tile
from graphwright.ops.core.transpose import Transpose
from graphwright.ops.core.unsqueeze import Unsqueeze
from graphwright.ops.nn.space_to_depth import SpaceToDepth
from tests.executables import host_program

from .peer import RefusedError, compare, imported

N, H, T = symbol("N"), symbol("H"), symbol("T")


def start(*dims: Dim) -> tuple[Module, Builder, Value]:
    module = Module()
    b, (x,) = new_main_graph(module, [("x", tensor(F32, *dims))])
    return module, b, x


def vector(*values: int) -> Any:
    return np.array(values, np.int64)


def scalar(value: int) -> Any:
    return np.array(value, np.int64)


def elements(b: Builder, value: Value) -> tuple[Dim, ...] | None:
    fact = b.fact(value)
    assert fact is not None
    return fact.elements


def size_of(b: Builder, x: Value, axis: int) -> Value:
    """One size of x as i64[1], as exporters write it."""
    sizes = b(Shape(), x)
    size: Value = b(Unsqueeze(), b(Gather(), sizes, b.const(scalar(axis))), b.const(vector(0)))
    return size


def test_shape_gather_unsqueeze_concat_reshape() -> None:
    module, b, x = start(N, T, 768)
    target = b(Concat(0), size_of(b, x, 0), size_of(b, x, 1), b.const(vector(12, 64)))
    heads = b(Reshape(), x, target)
    assert heads.type == tensor(F32, N, T, 12, 64)
    assert b(Reshape((0, 0, -1)), heads).type == x.type
    assert not module.symbols.constraints


def test_known_elements_pass_through_ops_that_move_elements() -> None:
    _, b, x = start(N, 3, H)
    sizes = b(Shape(), x)
    first, rest = b(Split(2, 0, (1, 2)), sizes)
    assert elements(b, first) == (N,)
    assert elements(b, b(Slice((-1,), (-4,), (0,), (-1,)), rest)) == (H, 3)
    assert elements(b, b(Transpose(), b(Reshape((3, 1)), sizes))) == (N, 3, H)
    assert elements(b, b(Expand((2, 1)), first)) == (N, N)
    assert elements(b, b(Tile((2,)), rest)) == (3, H, 3, H)
    assert elements(b, b(Squeeze((0,)), first)) == (N,)
    filled = b(ConstantOfShape(-1, I64), b(Shape(), sizes))
    assert elements(b, filled) == (-1, -1, -1)
    assert b(ConstantOfShape(), sizes).type == x.type


@pytest.mark.parametrize(
    ("op", "sizes"),
    [
        (Expand((N,)), (4,)),
        (Tile((N,)), (0,)),
        (Reshape((N, 0), allow_zero=True), (N, 0)),
        (Split(2, 0, (2, N)), (2,)),
        (Pad((N, 1 - N)), (5,)),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_known_elements_are_not_moved_by_data_dependent_sizes(op: Op, sizes: tuple[Dim, ...]) -> None:
    """The type of the result is inferred, and its elements are not computed."""
    _, b, _ = start(N)
    made = b(op, b.const(vector(*range(0 if 0 in sizes else 4))))
    assert (made[0] if isinstance(made, tuple) else made).type == tensor(I64, *sizes)


def test_a_range_over_a_symbol() -> None:
    _, b, x = start(N, 3)
    count = b(Squeeze((0,)), size_of(b, x, 0))
    zero, one, two = (b.const(scalar(v)) for v in (0, 1, 2))
    assert b(Range(), zero, count, one).type == tensor(I64, N)
    assert b(Range(), one, count, two).type.dims[0] == floordiv(N, 2)
    assert b(Range(), zero, b.const(scalar(5)), two).type == tensor(I64, 3)


@pytest.mark.parametrize(
    "dims, target, expected",
    [
        ((N, H + 1, 8), (0, -1, 4), (N, (H + 1) * 2, 4)),
        ((N, H, H), (N, -1), (N, H * H)),
        ((N * 4, 6), (N, 8, -1), (N, 8, 3)),
        ((2 * N, H), (-1,), (2 * N * H,)),
        ((N, 1, 5), (-1, 5), (N, 5)),
    ],
)
def test_the_inferred_size_of_a_symbolic_reshape_is_exact(
    dims: tuple[Dim, ...], target: tuple[Dim, ...], expected: tuple[Dim, ...]
) -> None:
    module, b, x = start(*dims)
    assert b(Reshape(target), x).type.dims == expected
    assert not module.symbols.constraints


def test_sizes_padded_to_multiples_are_divided_and_rolled_without_constraints() -> None:
    """As in Swin transformers: windows of 4 rows, and a roll by 2 rows, which is ``-2 % rows``."""
    module, b, x = start(N, T, 3)
    rows, four = size_of(b, x, 1), b.const(vector(4))
    missing = b(Mod(), b(Sub(), four, b(Mod(), rows, four)), four)
    (below,) = elements(b, missing) or ()
    windows = b(Reshape((0, -1, 4, 3)), b(Pad((0, 0, 0, 0, below, 0)), x))
    whole = b(Reshape((0, -1, 3)), windows)
    assert windows.type.dims == (N, floordiv(T + 3, 4), 4, 3)
    assert whole.type.dims == (N, 4 * floordiv(T + 3, 4), 3)
    assert not module.symbols.constraints
    module.symbols.demand("<=", 1, T, "x")
    all_rows = size_of(b, whole, 1)
    for shift, position in ((2, 2), (-2, 4 * floordiv(T + 3, 4) - 2)):
        assert elements(b, b(Mod(), b.const(vector(shift)), all_rows)) == (position,)
    assert elements(b, b(Min(), all_rows, b.const(vector(4)))) == (4,)
    assert elements(b, b(Max(), all_rows, b.const(vector(4)))) == (4 * floordiv(T + 3, 4),)


def test_a_quotient_that_is_not_proved_becomes_a_constraint() -> None:
    module, b, x = start(N, 3)
    assert b(Reshape((-1, 2)), x).type == tensor(F32, floordiv(N * 3, 2), 2)
    (constraint,) = module.symbols.constraints
    for n, holds in ((2, True), (3, False)):
        sides = [evaluate(side, {"N": n}) for side in (constraint.left, constraint.right)]
        assert (sides[0] == sides[1]) is holds


def test_element_counts_that_are_not_proved_become_a_constraint() -> None:
    module, b, x = start(N, 6)
    assert b(Reshape((T, 3)), x).type == tensor(F32, T, 3)
    (constraint,) = module.symbols.constraints
    assert {evaluate(constraint.left, {"N": 2, "T": 4}), evaluate(constraint.right, {"N": 2, "T": 4})} == {12}


def test_an_empty_tensor_is_reshaped_with_a_dynamic_size() -> None:
    """The sizes other than 0 need not divide each other."""
    _, b, x = start(N, 0)
    assert b(Reshape((0, 0, 2)), x).type == tensor(F32, N, 0, 2)
    assert b(Reshape((3, 0), allow_zero=True), x).type == tensor(F32, 3, 0)
    with pytest.raises(ModelError, match="0 and 6 differ"):
        b(Reshape((3, 2)), x)


def test_a_shape_that_is_computed_from_data_has_a_rank_and_sizes_of_its_own() -> None:
    module = Module()
    inputs = [("x", tensor(F32, 4, 1)), ("shape", tensor(I64, 3)), ("shapes", tensor(I64, N))]
    b, (x, shape, shapes) = new_main_graph(module, inputs)
    first, second = b(Reshape(), x, shape), b(Expand(), x, shape)
    assert first.type.rank == second.type.rank == 3
    assert second.type.dims[1] == 4, "a size that is a number other than 1 stays"
    sizes = {str(d) for d in (*first.type.dims, *second.type.dims)}
    assert len(sizes) == 6, "each size is a symbol of its own"
    assert b(Slice(), x, shape, shape, b.const([1], I64)).type.dims[0] == 4
    with pytest.raises(ModelError, match="unknown"):
        b(Reshape(), x, shapes)


def test_some_elements_are_known_through_floats() -> None:
    """Exporters clamp the bounds of slices in f32, beside an element that is computed at run time."""
    b, (i,) = new_main_graph(Module(), [("i", tensor(I64, 1))])
    bounds = b(Cast(F32), b(Concat(0), b.const([5, 2**24 + 1, 7], I64), i))
    assert b.fact(bounds) == Fact(tensor(F32, 4), partial_elements=(5, None, 7, None)), "2^24 + 1 is rounded"
    limits = b.const(np.array([1e9, 1e9, -1.0, -1e9], np.float32))
    clamped = b(Cast(I32), b(Max(), bounds, limits))
    assert b.fact(clamped) == Fact(tensor(I32, 4), partial_elements=(10**9, None, None, None))


def test_slices_of_symbols() -> None:
    def sliced(dim: Dim, *bounds: int | Dim) -> Dim:
        low, high, step = bounds
        assert isinstance(step, int)
        _, b, x = start(dim)
        size: Dim = b(Slice((low,), (high,), (0,), (step,)), x).type.dims[0]
        return size

    end = 2**63 - 1
    assert sliced(N, 0, end, 1) == N
    assert sliced(N, -2, end, 1) == minimum(N, 2)
    assert sliced(N, 0, 4, 1) == minimum(N, 4)
    assert sliced(N, 0, end, 2) == floordiv(N + 1, 2)
    assert sliced(N, -1, -end, -1) == N
    assert sliced(N + 3, 1, end, 1) == N + 2
    assert sliced(N + 3, 0, -1, 1) == N + 2
    assert sliced(T, 0, N, 1) == minimum(N, T)
    assert sliced(T, N, end, 1) == sliced(T, N, T, 1)


def onnx_start(start: int, size: int, step: int) -> int:
    """ONNX's start for NumPy: clamped to [0, size - 1] if the step is negative."""
    return max(start, -size) if step < 0 else start


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 6), st.integers(-8, 8), st.integers(-8, 8), st.sampled_from([-3, -2, -1, 1, 2, 3]))
def test_a_window_of_a_symbol_is_that_of_its_number(size: int, low: int, high: int, step: int) -> None:
    first, count = sliced_range(Inference(SymbolTable(), ""), N, low, high, step)
    expected = range(*slice(onnx_start(low, size, step), high, step).indices(size))
    assert evaluate(count, {"N": size}) == len(expected)
    if len(expected):
        assert evaluate(first, {"N": size}) == expected.start


def test_a_symbolic_bound_keeps_its_sign() -> None:
    symbols = SymbolTable(assumable=None)
    at = Inference(symbols, "")
    _, count = sliced_range(at, T, 0, N - 1, 1)
    assert evaluate(count, {"N": 4, "T": 9}) == 3
    assert [*map(str, symbols.guards)] == ["0 <= N - 1"]
    _, count = sliced_range(at, T, -N, 2**63 - 1, 1)
    assert evaluate(count, {"N": 4, "T": 9}) == 4
    assert str(sliced_range(Inference(SymbolTable(), ""), T, 0, N - 1, 1)[1]) == "sliced"


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_slice_is_numpys_from_an_element(data: st.DataObject) -> None:
    dims = data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=3))
    x = np.arange(int(np.prod(dims)), dtype=np.float32).reshape(dims)
    axes = data.draw(st.permutations(range(len(dims))))[: data.draw(st.integers(1, len(dims)))]
    bound, step = st.integers(-7, 7), st.sampled_from([-2, -1, 1, 2])
    rows = [(data.draw(bound), data.draw(bound), data.draw(step)) for _ in axes]
    where = [slice(None)] * len(dims)
    for axis, (low, high, by) in zip(axes, rows, strict=True):
        where[axis] = slice(onnx_start(low, dims[axis], by), high, by)
    lows, highs, steps = (vector(*column) for column in zip(*rows, strict=True))
    (y,) = imported("Slice", [x, lows, highs, vector(*axes), steps], {}, 13)
    np.testing.assert_array_equal(y, x[tuple(where)])


@pytest.mark.parametrize("low", [None, 0, -2, 1])
@pytest.mark.parametrize("high", [None, 2**63 - 1, 2, -1])
@pytest.mark.parametrize("step", [1, 2, -1, -3])
def test_bounds_that_are_computed_at_run_time(low: int | None, high: int | None, step: int) -> None:
    """A bound that is None is an input; none of the slices runs in Python."""
    b = gw.GraphBuilder()
    x = b.input("x", "f32", ["N", 2])
    given = {"low": low, "high": high}
    bounds = [
        b.input(name, "i64", [1]) if value is None else np.array([value]) for name, value in given.items()
    ]
    b.output("y", b.slice(x, bounds[0], bounds[1], np.array([0]), np.array([step])))
    model = b.compile()
    for size, first, last in [(5, 1, 3), (5, -4, -1), (3, 4, 9), (4, -9, 2), (0, 0, 1), (5, 3, -9)]:
        array = np.arange(2 * size, dtype=np.float32).reshape(size, 2)
        feed = {"x": array, "low": np.array([first]), "high": np.array([last])}
        feed = {name: value for name, value in feed.items() if given.get(name) is None}
        start = onnx_start(first if low is None else low, size, step)
        expected = array[start : last if high is None else high : step]
        np.testing.assert_array_equal(model.run(feed)["y"], expected)
    program = host_program(model.package)
    assert not any(step.op.startswith("Slice") for step in (program.hosts() if program else ()))


def test_the_vector_of_ends_has_an_unknown_length() -> None:
    b = gw.GraphBuilder()
    x, low, high = b.input("x", "f32", [5, 2]), b.input("low", "i64", [1]), b.input("high", "i64", ["K"])
    b.output("y", b.slice(x, low, high, np.array([0])))
    array = np.arange(10, dtype=np.float32).reshape(5, 2)
    results = b.compile().run({"x": array, "low": np.array([1]), "high": np.array([3])})
    np.testing.assert_array_equal(results["y"], array[1:3])


@pytest.mark.parametrize(("starts", "ends", "steps"), [(1, 0, 1), (2, 2, 1)])
def test_vectors_of_bounds_whose_lengths_contradict_each_other(starts: int, ends: int, steps: int) -> None:
    b = gw.GraphBuilder()
    x, low, high = (
        b.input("x", "f32", [5, 2]),
        b.input("low", "i64", [starts]),
        b.input("high", "i64", [ends]),
    )
    b.output("y", b.slice(x, low, high, np.arange(starts), np.ones(steps, np.int64)))
    feed = {"x": np.zeros((5, 2), np.float32), "low": np.zeros(starts, np.int64)}
    with pytest.raises(gw.GraphwrightError):
        b.compile().run({**feed, "high": np.ones(ends, np.int64)})


def test_only_the_axis_whose_bounds_are_computed_has_an_unknown_size() -> None:
    b = gw.GraphBuilder()
    x, low, high = b.input("x", "f32", ["N", 5, 4]), b.input("low", "i64", [1]), b.input("high", "i64", [1])
    starts = b.concat(np.array([-2]), low, np.array([3]), axis=0)
    ends = b.concat(np.array([2**62]), high, np.array([0]), axis=0)
    y = b.slice(x, starts, ends, np.array([0, -2, -1]), np.array([1, 1, -1]))
    b.output("y", y)
    b.output("z", b.add(y, np.zeros((1, 1, 3), np.float32)))
    model = b.compile()
    assert model.outputs[0].shape[2] == 3
    array = np.arange(60, dtype=np.float32).reshape(3, 5, 4)
    for size, first, last in [(3, 1, 3), (1, 0, 9), (2, 4, 2)]:
        feed = {"x": array[:size], "low": np.array([first]), "high": np.array([last])}
        expected = array[:size][-2:, first:last, 3:0:-1]
        results = model.run(feed)
        np.testing.assert_array_equal(results["y"], expected)
        np.testing.assert_array_equal(results["z"], expected)
    program = host_program(model.package)
    assert not any(step.op.startswith("Slice") for step in (program.hosts() if program else ()))


X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
IMAGE = np.arange(96, dtype=np.float32).reshape(1, 12, 4, 2)


@pytest.mark.parametrize(
    "op_type, opset, arrays, attributes, outputs",
    [
        ("Reshape", 7, [X, vector(4, -1)], {}, 1),
        ("Reshape", 14, [X[:, :0], vector(0, 5)], {"allowzero": 1}, 1),
        ("Flatten", 7, [X], {"axis": 2}, 1),
        ("Flatten", 13, [X], {"axis": -1}, 1),
        ("Squeeze", 7, [X[:, None]], {"axes": [1]}, 1),
        ("Squeeze", 11, [X[:1]], {}, 1),
        ("Squeeze", 13, [X[:, None], vector(-3)], {}, 1),
        ("Squeeze", 13, [X[:1]], {}, 1),
        ("Unsqueeze", 7, [X], {"axes": [0, 2]}, 1),
        ("Unsqueeze", 13, [X, vector(-1, 0)], {}, 1),
        ("Transpose", 7, [X], {"perm": [2, 0, 1]}, 1),
        ("Transpose", 13, [X], {}, 1),
        ("Shape", 7, [X], {}, 1),
        ("Shape", 15, [X], {"start": -2, "end": 9}, 1),
        ("Size", 13, [X], {}, 1),
        ("Concat", 13, [X, X], {"axis": -2}, 1),
        ("Split", 7, [X], {"axis": 2, "split": [1, 3]}, 2),
        ("Split", 11, [X], {"axis": -1}, 2),
        ("Split", 13, [X, vector(1, 2)], {"axis": 1}, 2),
        ("Split", 18, [X], {"axis": 1, "num_outputs": 2}, 2),
        ("Slice", 7, [X], {"starts": [1, -2], "ends": [9, -1], "axes": [0, 2]}, 1),
        ("Slice", 10, [X, vector(0), vector(2**31 - 1), vector(2), vector(2)], {}, 1),
        ("Slice", 13, [X, vector(-1), vector(-(2**63)), vector(1), vector(-1)], {}, 1),
        ("Expand", 8, [X[:, :1], vector(3, 1)], {}, 1),
        ("Tile", 13, [X, vector(1, 2, 1)], {}, 1),
        ("Pad", 7, [X], {"pads": [0, 1, 0, 0, 0, 2], "value": 3.0}, 1),
        ("Pad", 11, [X, vector(0, 1, 2, 0, 0, 1)], {"mode": "reflect"}, 1),
        ("Pad", 13, [X, vector(0, -1, 2, 1, 0, 1), np.float32(5)], {}, 1),
        ("Pad", 18, [X, vector(1, 2), None, vector(-1)], {"mode": "edge"}, 1),
        ("Pad", 19, [X, vector(1, 2, 0, 1), None, vector(1, 2)], {"mode": "wrap"}, 1),
        ("Range", 11, [np.float32(0), np.float32(1), np.float32(0.3)], {}, 1),
        ("Range", 11, [np.int64(10), np.int64(3), np.int64(-3)], {}, 1),
        ("ConstantOfShape", 9, [vector(2, 0, 3)], {}, 1),
        ("EyeLike", 9, [X[0]], {"k": 1}, 1),
        ("DepthToSpace", 11, [IMAGE], {"blocksize": 2, "mode": "CRD"}, 1),
        ("DepthToSpace", 7, [IMAGE], {"blocksize": 2}, 1),
        ("SpaceToDepth", 13, [IMAGE], {"blocksize": 2}, 1),
    ],
)  # fmt: skip
def test_imports_are_what_onnx_runtime_computes(
    op_type: str, opset: int, arrays: list[Any], attributes: dict[str, Any], outputs: int
) -> None:
    compare(op_type, [None if a is None else np.asarray(a) for a in arrays], attributes, opset, outputs)


@pytest.mark.parametrize(
    "attributes, expected",
    [
        ({"value": np.float64(2.5)}, np.float64(2.5)),
        ({"value_int": 3}, np.int64(3)),
        ({"value_ints": (1, 2)}, vector(1, 2)),
        ({"value_float": 0.5}, np.float32(0.5)),
        ({"value_floats": (0.5, 1.5)}, np.array([0.5, 1.5], np.float32)),
    ],
)
def test_constants_keep_the_dtype_of_their_attribute(attributes: dict[str, Any], expected: Any) -> None:
    (y,) = imported(
        "Constant", [], {k: np.asarray(v) if k == "value" else v for k, v in attributes.items()}, 13
    )
    assert y.dtype == expected.dtype
    np.testing.assert_array_equal(y, expected)


def test_a_constant_without_a_value_is_rejected() -> None:
    with pytest.raises(RefusedError, match="the constant has no value"):
        imported("Constant", [], {}, 13)


def test_a_block_that_does_not_divide_a_symbol_is_a_constraint() -> None:
    module, b, x = start(1, 2, H, 4)
    assert b(SpaceToDepth(2), x).type == tensor(F32, 1, 8, floordiv(H, 2), 2)
    assert len(module.symbols.constraints) == 1


def test_a_padded_shape_has_zeros() -> None:
    """Symbolic sizes are padded with 0 like numbers, not with empty strings."""
    _, b, x = start(N, 3)
    assert b.fact(b(Pad((1, 2)), b(Shape(), x))).elements == (0, N, 3, 0, 0)


def test_the_batch_of_a_padded_sequence_that_is_split_into_blocks_is_known() -> None:
    """TensorFlow's dilated convolutions in one dimension pad a sequence to blocks, and infer the batch."""
    nodes = onnx.parser.parse_graph("""
        g (float[N, T, 2] x) => (float[batch, count, 4, 2] y)
        <int64[1] one = {1}, int64[1] three = {3}, int64[1] four = {4}, int64[4] start = {0, 8, 0, 0},
         int64[1] zero = {0}, int64[1] all = {-1}, int64[2] block = {4, 2}> {
            shape = Shape(x)
            size = Gather(shape, one)
            more = Add(size, three)
            rounded = Div(more, four)
            whole = Mul(rounded, four)
            missing = Sub(whole, size)
            pads = Concat<axis = 0>(start, missing, zero)
            padded = Pad(x, pads)
            padded_shape = Shape(padded)
            padded_size = Gather(padded_shape, one)
            blocks = Div(padded_size, four)
            target = Concat<axis = 0>(all, blocks, block)
            y = Reshape(padded, target)
        }
    """)
    model = gw.compile(onnx.helper.make_model(nodes, opset_imports=[onnx.helper.make_opsetid("", 17)]))
    batch, count = (model.outputs[0].shape or ())[:2]
    assert (str(batch), str(count)) == ("N", "floordiv(T + 3, 4) + 2")
    for size in (1, 4, 7):
        x = np.arange(3 * size * 2, dtype=np.float32).reshape(3, size, 2)
        expected = np.zeros((3, 8 + -(-size // 4) * 4, 2), np.float32)
        expected[:, 8 : 8 + size] = x
        (found,) = model(x)
        np.testing.assert_array_equal(found, expected.reshape(3, -1, 4, 2))
