"""Loads and stores that replace moves of elements: kernels compute the same as the references of the ops."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import graphwright as gw
from graphwright.fusion import moves
from graphwright.fusion.fuse import Fuse
from graphwright.ir.build import Builder, new_main_graph
from graphwright.ir.builtin.fused import Fused
from graphwright.ir.evaluate import evaluate_module
from graphwright.ir.graph import Module, Node, Value
from graphwright.ir.symbols import symbol
from graphwright.ir.types import F32, tensor
from graphwright.loop_nests.moves import is_move
from graphwright.ops.core.binary import Add, Mul
from graphwright.ops.core.concat import Concat
from graphwright.ops.core.exp import Exp
from graphwright.ops.core.reductions import ReduceMax
from graphwright.ops.core.reshape import Reshape
from graphwright.ops.core.roll import Roll
from graphwright.ops.core.slice import Slice
from graphwright.ops.core.transpose import Transpose
from graphwright.ops.core.unary import Neg, Relu
from graphwright.passes.infer_shapes import InferShapes
from graphwright.passes.manager import run_passes
from graphwright.targets.cpu.target import TARGETS

from .test_region import compare

SIZES = st.sampled_from((0, 1, 2, 3, 4, 5, 7, 16, 17))
quick = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


def moved(draw: st.DrawFn, b: Builder, x: Value) -> Value:
    """One move of ``x``, of whatever kind its shape allows."""
    dims = x.type.dims
    rank, axis = len(dims), draw(st.integers(0, len(dims) - 1))
    size = dims[axis]
    kind = draw(st.sampled_from(("transpose", "slice", "roll", "split", "merge", "halves", "twice")))
    if kind == "transpose":
        return b(Transpose(tuple(draw(st.permutations(range(rank))))), x)
    if isinstance(size, int) and size > 1 and kind == "slice":
        start, step = draw(st.integers(0, size - 1)), draw(st.sampled_from((1, 2, -1)))
        end = -(2**31) if step < 0 else draw(st.integers(start + 1, size))
        return b(Slice((start,), (end,), (axis,), (step,)), x)
    if isinstance(size, int) and size > 1 and kind == "roll":
        return b(Roll(axis, draw(st.integers(0, size - 1))), x)
    if isinstance(size, int) and size % 2 == 0 and kind == "split":
        return b(Reshape((*dims[:axis], 2, size // 2, *dims[axis + 1 :]), allow_zero=True), x)
    if isinstance(size, int) and size % 2 == 0 and kind == "halves":
        low = b(Slice((0,), (size // 2,), (axis,), (1,)), x)
        high = b(Slice((size // 2,), (size,), (axis,), (1,)), x)
        return b(Concat(axis), b(Neg(), high), low)
    if kind == "twice":
        return b(Concat(axis), x, x)
    if kind == "merge" and rank > 1 and axis + 1 < rank:
        return b(Reshape((*dims[:axis], dims[axis] * dims[axis + 1], *dims[axis + 2 :]), allow_zero=True), x)
    return x


@st.composite
def regions(draw: st.DrawFn) -> Module:
    """Moves in front of, between and behind elementwise nodes, and perhaps a reduction."""
    shape = (symbol("N"), *draw(st.lists(SIZES, min_size=1, max_size=3)))
    module = Module()
    b, (x,) = new_main_graph(module, [("x", tensor(F32, *shape))])
    graph, value = b.graph, x
    for _ in range(draw(st.integers(1, 4))):
        value = moved(draw, b, value)
    y = graph.add_input(value.type, "y")
    value = b(Add(), b(Exp(), value), y)
    if draw(st.booleans()):
        value = b(Mul(), value, b(ReduceMax((len(value.type.dims) - 1,)), value))
    if x.type == value.type and draw(st.booleans()):
        value = b(Add(), value, x)
    outputs = [value]
    for _ in range(draw(st.integers(0, 3))):
        value = moved(draw, b, value)
    graph.set_outputs([*outputs, value] if value is not outputs[0] else outputs)
    return module


def fused_regions(module: Module) -> list[Node]:
    run_passes(module, InferShapes(), Fuse(TARGETS["v4"]))
    return [node for node in module.main if isinstance(node.op, Fused)]


@pytest.mark.parametrize("n", (1, 3))
def test_regions_of_moves_mean_the_same(n: int) -> None:
    """Results are equal even for short runs, where this form does not pay."""
    seen = 0

    @quick
    @given(regions())
    def check(module: Module) -> None:
        nonlocal seen
        with mock.patch.object(moves, "SHORTEST_RUN", 0):
            nodes = fused_regions(module)
        for node in nodes:
            seen += any(map(is_move, node.regions[0]))
            compare(node, module, {"N": n})

    check()
    assert seen > 50


def test_results_of_compiled_moves(tmp_path: object) -> None:
    """One compiled model has split heads, rotated halves, rolls along both axes and windows; N is dynamic."""
    module = Module()
    types = [("q", tensor(F32, symbol("N"), 7, 96)), ("x", tensor(F32, symbol("N"), 35, 17))]
    b, (q, x) = new_main_graph(module, types)
    heads = b(Transpose((0, 2, 1, 3)), b(Reshape((symbol("N"), 7, 3, 32), allow_zero=True), q))
    low, high = (b(Slice((k,), (k + 16,), (3,), (1,)), heads) for k in (0, 16))
    rope = b(Add(), heads, b(Exp(), b(Concat(3), b(Neg(), high), low)))
    image = b(Reshape((symbol("N"), 5, 7, 17), allow_zero=True), b(Exp(), x))
    turned = b(Roll(2, 3), b(Roll(1, 4), image))
    windows = b(Transpose((0, 2, 1, 3)), turned)
    b.graph.set_outputs([rope, windows])
    rng = np.random.default_rng(0)
    options = gw.CompileOptions(cache_dir=f"{tmp_path}/c", key_dir=f"{tmp_path}/k", threads=2)
    model = gw.compile(module, options=options)
    for n in (0, 1, 2):
        feeds = [rng.standard_normal((n, *s)).astype(np.float32) for s in ((7, 96), (35, 17))]
        for got, want in zip(model(*feeds), evaluate_module(module, feeds), strict=True):
            np.testing.assert_allclose(got, want, rtol=2e-6, atol=1e-6)
    moves = [node for node in module.walk() if is_move(node)]
    assert len(moves) == 7


def test_the_axis_of_a_concatenation_is_not_rolled() -> None:
    """Halves of one element would otherwise be rolled along the axis that counts the halves."""
    module = Module()
    b, (x, y) = new_main_graph(module, [(name, tensor(F32, symbol("N"), 1, 2)) for name in "xy"])
    low, high = (b(Slice((k,), (k + 1,), (2,), (1,)), x) for k in (0, 1))
    joined = b(Concat(2), b(Neg(), high), low)
    b.graph.set_outputs([b(Add(), b(Exp(), b(Roll(2, 1), joined)), y)])
    with mock.patch.object(moves, "SHORTEST_RUN", 0):
        nodes = fused_regions(module)
    for node in nodes:
        compare(node, module, {"N": 3})


def test_operands_of_a_concatenation_may_be_read_twice_over_and_over() -> None:
    """2^40 paths lead from the concatenation to the input."""
    module = Module()
    b, (x, y) = new_main_graph(module, [("x", tensor(F32, 3, 4)), ("y", tensor(F32, 3, 8))])
    value = x
    for _ in range(40):
        value = b(Add(), b(Neg(), value), b(Relu(), value))
    b.graph.set_outputs([b(Add(), b(Concat(1), b(Neg(), value), value), y)])
    with mock.patch.object(moves, "SHORTEST_RUN", 0):
        nodes = fused_regions(module)
    assert any(is_move(inner) for node in nodes for inner in node.regions[0])


@pytest.mark.parametrize("sizes", [(0,), (0, 3), (2, 0)])
def test_an_empty_value_can_be_concatenated_with_itself(sizes: tuple[int, ...]) -> None:
    """Twice 0 is 0, so the search would not end."""
    module = Module()
    b, (x,) = new_main_graph(module, [("x", tensor(F32, *sizes))])
    axis = sizes.index(0)
    b.graph.set_outputs([b(Add(), b(Concat(axis), b(Neg(), x), x), x)])
    with mock.patch.object(moves, "SHORTEST_RUN", 0):
        fused_regions(module)
    assert module.main.outputs[0].type.dims == sizes


def test_an_axis_may_be_on_both_sides() -> None:
    """A value and its transpose are both used as one row: axes of 2 and 4, and of 4 and 2."""
    module = Module()
    b, (x,) = new_main_graph(module, [("x", tensor(F32, 2, 4))])
    e = b(Neg(), x)
    rows = [b(Reshape((8,)), value) for value in (e, b(Transpose((1, 0)), e))]
    b.graph.set_outputs([b(Add(), *rows)])
    with mock.patch.object(moves, "SHORTEST_RUN", 0):
        for node in fused_regions(module):
            compare(node, module, {})
