"""Indexing, ranking and scans over random shapes and dtypes, symbolic sizes, and indices out of range."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphwright as gw
import graphwright.ops
from graphwright.errors import GraphwrightError
from graphwright.ir.build import new_main_graph
from graphwright.ir.graph import Module
from graphwright.ir.op import Op
from graphwright.ir.symbols import symbol
from graphwright.ir.types import BF16, BOOL, F16, F32, F64, I8, I32, I64, U8, DType, TensorType
from graphwright.ops.core.arg_reduce import ArgMax, ArgMin
from graphwright.ops.core.concat import Concat
from graphwright.ops.core.constant_of_shape import ConstantOfShape
from graphwright.ops.core.cumulative import CumProd, CumSum
from graphwright.ops.core.eye_like import EyeLike
from graphwright.ops.core.gather import Gather
from graphwright.ops.core.gather_elements import GatherElements
from graphwright.ops.core.gather_nd import GatherND
from graphwright.ops.core.one_hot import OneHot
from graphwright.ops.core.range import Range
from graphwright.ops.core.scatter_elements import ScatterElements
from graphwright.ops.core.scatter_nd import ScatterND
from graphwright.ops.core.slice import Slice
from graphwright.ops.core.split import Split
from graphwright.ops.core.tile import Tile
from graphwright.ops.core.top_k import TopK
from graphwright.ops.core.transpose import Transpose
from graphwright.ops.core.trilu import Trilu
from tests.ops.support import assert_close, run_reference

Array = np.ndarray[Any, Any]
Case = tuple[Op, Sequence[Array]]

graphwright.ops.load()
DTYPES = (F32, F64, F16, BF16, I8, I32, I64, U8)


def check(cases: Sequence[Case]) -> None:
    """All cases in one model: compiled together, run natively, equal to the references."""
    module = Module()
    arrays = [a for _, operands in cases for a in operands]
    types = [(f"x{k}", TensorType(graphwright.ir.types.dtype_of(a), a.shape)) for k, a in enumerate(arrays)]
    b, values = new_main_graph(module, types)
    feed = iter(values)
    nodes = [b.node(op, *(next(feed) for _ in operands)) for op, operands in cases]
    b.graph.set_outputs([v for node in nodes for v in node.outputs])
    model = gw.compile(module)
    results = iter(model(*arrays))
    for op, operands in cases:
        for expected in run_reference(op, operands):
            assert_close(np.asarray(next(results)), expected, f"{op.name} {op.attributes()}")
    assert model.stats()["host_calls"] == 0


def data(rng: np.random.Generator, shape: Sequence[int], dtype: DType) -> Array:
    """Few distinct values, so that there are ties; NaN among floats."""
    found = rng.integers(0 if dtype.kind == "uint" else -3, 4, shape)
    values = found.astype(np.float64)
    if dtype.is_float and values.size > 3:
        values.flat[rng.integers(0, values.size)] = np.nan
    return values.astype(dtype.numpy)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=3, deadline=None)
def test_kernels_equal_references_on_random_shapes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cases: list[Case] = []
    for dtype in rng.permutation(len(DTYPES))[:4]:
        shape = tuple(int(n) for n in rng.choice((1, 2, 3, 5, 17), 3))
        cases += _cases(rng, shape, DTYPES[int(dtype)])
    check(cases)


def _cases(rng: np.random.Generator, shape: tuple[int, ...], dtype: DType) -> list[Case]:
    x, axis = data(rng, shape, dtype), int(rng.integers(-3, 3))
    size = shape[axis]
    count = list(shape)
    count[axis] = int(rng.integers(1, 9))
    places = rng.integers(-size, size, count)
    rows = np.stack([rng.integers(-n, n, (2, 7)) for n in shape[:2]], -1).astype(np.int32)
    batched = rng.integers(-shape[1], shape[1], (shape[0], 4, 1))
    flags = {"exclusive": bool(rng.integers(2)), "reverse": bool(rng.integers(2))}
    reduction = str(rng.choice(("none", "add", "mul", "max", "min")))
    k, diagonal = int(rng.integers(0, size + 1)), int(rng.integers(-4, 5))
    ranked = TopK(axis, bool(rng.integers(2)), ordered=True, k=k)
    last = bool(rng.integers(2))
    return [
        (GatherElements(axis), (x, places)),
        (GatherND(), (x, rows)),
        (GatherND(1), (x, batched)),
        (ScatterElements(axis, reduction), (x, places, data(rng, count, dtype))),
        (ScatterND(reduction), (x, rows, data(rng, (2, 7, shape[2]), dtype))),
        (ranked, (x,)),
        (ArgMax(axis, bool(rng.integers(2)), last), (x,)),
        (ArgMin(axis, keepdims=True, last=last), (x,)),
        (CumSum(axis, **flags), (x,)),
        (CumProd(axis, **flags), (x,)),
        (Trilu(bool(rng.integers(2)), diagonal), (x,)),
        (Tile((2, 1, 3)), (x,)),
        (OneHot(axis, 3), (places, data(rng, (2,), dtype))),
    ]


@pytest.mark.parametrize("repeats", [(2, 3, 2, 2, 3, 2), (1, 2, 2, 2, 2, 3), (3, 1, 1, 2, 1, 1)])
def test_six_axes_are_tiled(repeats: tuple[int, ...]) -> None:
    x = data(np.random.default_rng(2), (2, 3, 1, 3, 2, 5), F32)
    check([(Tile(repeats), (x,))])


def test_ten_axes_move_where_some_stay_together() -> None:
    x = data(np.random.default_rng(2), (2, 1, 3, 2, 2, 1, 2, 3, 2, 2), F32)
    order = (4, 5, 6, 0, 1, 2, 9, 3, 7, 8)
    starts, ends = (1, -1), (3, -4)
    check([(Transpose(order), (x,)), (Slice(starts, ends, (2, 7), (1, -1)), (x,)), (Concat(3), (x, x))])


@pytest.mark.parametrize("size", [0, 1])
def test_nine_axes_of_one_element_move(size: int) -> None:
    x = data(np.random.default_rng(3), (1, 1, 2 * size, *(1,) * 6), F32)
    halves = Split(2, 2, (size, size))
    check([(halves, (x,)), (Transpose(tuple(range(8, -1, -1))), (x[:, :, :size],)), (Tile((1,) * 9), (x,))])


def test_bools_scatter_and_rank() -> None:
    rng = np.random.default_rng(1)
    x, rows = rng.integers(0, 2, (4, 3)).astype(bool), np.array([[1], [1], [-1]])
    updates = rng.integers(0, 2, (3, 3)).astype(bool)
    cases: list[Case] = [(ScatterND(r), (x, rows, updates)) for r in ("none", "add", "mul", "max", "min")]
    check([*cases, (TopK(0, largest=True, ordered=True, k=2), (x,)), (GatherND(), (x, rows))])
    assert TensorType(BOOL, x.shape).dtype == BOOL


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("reduction", ["none", "add"])
def test_slices_of_any_width_are_scattered_in_order(reduction: str, threads: int) -> None:
    """If slices have the same index, the last one is kept, or all are added in order."""
    module, wide = Module(), symbol("W")
    types = [
        ("x", TensorType(F32, (5, wide))),
        ("rows", TensorType(I64, (40, 1))),
        ("updates", TensorType(F32, (40, wide))),
    ]
    b, values = new_main_graph(module, types)
    b.graph.set_outputs(b.node(ScatterND(reduction), *values).outputs)
    model = gw.compile(module, options=gw.CompileOptions(threads=threads))
    rng = np.random.default_rng(3)
    for width in (0, 1, 2, 127, 128, 129, 511, 1024):
        x, updates = data(rng, (5, width), F32), data(rng, (40, width), F32)
        rows = rng.integers(-5, 5, (40, 1))
        expected = x.copy()
        for row, update in zip(rows[:, 0], updates, strict=True):
            expected[row] = update if reduction == "none" else expected[row] + update
        np.testing.assert_array_equal(model(x, rows, updates)[0], expected)


_X = np.zeros((3, 4), np.float32)
_ROW = np.ones((1, 4), np.float32)
OUT_OF_RANGE: list[tuple[Op, tuple[Array, ...], int, str]] = [
    (Gather(0), (_X, np.array([0, 1, 5])), 1, "5, which must be from -3 to 2"),
    (Gather(1), (_X, np.array([0, -9], np.int32)), 1, "-9, which must be from -4 to 3"),
    (GatherND(), (_X, np.array([[0, 4]])), 1, "4, which must be from -4 to 3"),
    (GatherND(), (_X, np.array([[-4, 0]])), 1, "-4, which must be from -3 to 2"),
    (GatherElements(0), (_X, np.full((1, 4), 3, np.int32)), 1, "3, which must be from -3 to 2"),
    (ScatterND(), (_X, np.array([[3]]), _ROW), 1, "3, which must be from -3 to 2"),
    (ScatterElements(1), (_X, np.array([[7]]), _ROW[:, :1]), 1, "7, which must be from -4 to 3"),
]


@pytest.mark.parametrize(
    ("op", "arrays", "position", "fault"), OUT_OF_RANGE, ids=lambda v: getattr(v, "name", "")
)
def test_an_index_out_of_range_ends_the_run(
    op: Op, arrays: tuple[Array, ...], position: int, fault: str
) -> None:
    module = Module()
    types = [(f"x{k}", TensorType(graphwright.ir.types.dtype_of(a), a.shape)) for k, a in enumerate(arrays)]
    b, values = new_main_graph(module, types)
    node = b.node(op, *values)
    node.sources = ("lookup",)
    b.graph.set_outputs(node.outputs)
    model = gw.compile(module)
    with pytest.raises(GraphwrightError, match=f"lookup: an index is out of range: {fault}"):
        model(*arrays)
    legal = list(arrays)
    legal[position] = np.zeros_like(arrays[position])
    (expected,) = run_reference(op, legal)
    np.testing.assert_array_equal(model(*legal)[0], expected)


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_running_sums_of_any_number_of_rows(exclusive: bool, reverse: bool) -> None:
    """Rows of floats are processed sixteen at a time, then one by one; each sum adds its elements in
    order.
    """
    module = Module()
    dims = (symbol("N"), symbol("M"))
    b, (x, k) = new_main_graph(module, [("x", TensorType(F32, dims)), ("k", TensorType(I64, dims))])
    options = {"exclusive": exclusive, "reverse": reverse}
    b.graph.set_outputs([b(CumSum(1, **options), x), b(CumSum(1, **options), k), b(CumProd(1, **options), x)])
    model = gw.compile(module)
    for shape in ((0, 3), (1, 5), (16, 7), (17, 1), (35, 33), (48, 0)):
        rng = np.random.default_rng(shape[0])
        real, whole = rng.normal(size=shape).astype(np.float32), rng.integers(-9, 9, shape)
        flipped = slice(None, None, -1 if reverse else 1)
        for got, a, combine, start in zip(
            model(real, whole),
            (real, whole, real),
            (np.cumsum, np.cumsum, np.cumprod),
            (0, 0, 1),
            strict=True,
        ):
            want = combine(a[:, flipped], 1, a.dtype)
            if exclusive:
                want = np.concatenate([np.full((shape[0], 1), start, a.dtype), want], 1)[:, : shape[1]]
            np.testing.assert_array_equal(got, want[:, flipped])


def test_sizes_that_are_known_only_in_a_run() -> None:
    """Shapes, ranges, fills and triangles have a size that is known only in a run; each size has one plan."""
    n = symbol("N")
    module = Module()
    b, (x,) = new_main_graph(module, [("x", TensorType(F32, (n, 5)))])
    rows = b(Range((0, n, 1)))
    b.graph.set_outputs(
        [
            rows,
            b(Range((n * 2, 3, -2), I32)),
            b(ConstantOfShape(value=True, dtype=BOOL, shape=(n, 2))),
            b(EyeLike(1, I64), x),
            b(Trilu(upper=False, k=0), x),
            b(CumSum(0), x),
            b(ArgMax(0), x),
            b(OneHot(-1, n), rows, b.const(np.array([2.0, 3.0], np.float32))),
        ]
    )
    model = gw.compile(module)
    for size in (2, 7, 33):
        a = np.random.default_rng(size).normal(size=(size, 5)).astype(np.float32)
        expected = (
            np.arange(size),
            np.arange(size * 2, 3, -2, dtype=np.int32),
            np.ones((size, 2), bool),
            np.eye(size, 5, 1, dtype=np.int64),
            np.tril(a),
            np.cumsum(a, 0),
            np.argmax(a, 0, keepdims=True),
            np.where(np.eye(size, dtype=bool), np.float32(3), np.float32(2)),
        )
        for k, (got, want) in enumerate(zip(model(a), expected, strict=True)):
            assert_close(np.asarray(got), want, f"output {k} at {size}")
    assert model.stats()["host_calls"] == 0


@pytest.mark.parametrize("step", [2**31, 2**63 - 1, -(2**31), -(2**63)])
@pytest.mark.parametrize("sizes", [("N", "M"), (5, 4)])
def test_slices_with_steps_that_exceed_every_size(step: int, sizes: Any) -> None:
    """They select one element, or none of an empty axis."""
    b = gw.GraphBuilder()
    x = b.input("x", np.float32, sizes)
    start, end = (-2, -(2**63)) if step < 0 else (1, 2**63 - 1)
    bounds = ((start, start), (end, end), (0, 1), (step, step))
    b.output("y", b.slice(x, *(np.array(numbers, np.int64) for numbers in bounds)))
    model = b.compile()
    for shape in ((5, 4), *([(0, 4), (2, 0)] if sizes == ("N", "M") else [])):
        x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        (found,) = model(x)
        np.testing.assert_array_equal(found, x[-2:-1, -2:-1] if step < 0 else x[1:2, 1:2])
