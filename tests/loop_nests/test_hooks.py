"""Hooks in C on tiles of every size, at any position of the result, next to unreadable pages; compared with
NumPy.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphwright.compiler.pipeline import graph_passes, kernel_passes
from graphwright.ir.build import new_main_graph
from graphwright.ir.builtin.fused import Fused, region_of
from graphwright.ir.graph import Module, Value
from graphwright.ir.loops.verify import verify
from graphwright.ir.types import F32, tensor
from graphwright.loop_nests import RegionKernel, hook_kernel, schedule_of
from graphwright.ops.core.binary import Add, Mul
from graphwright.ops.core.exp import Exp
from graphwright.ops.core.matmul import MatMul
from graphwright.ops.core.unary import Relu, Sigmoid, Tanh
from graphwright.passes.manager import PassManager
from graphwright.targets.cpu.emit import emit_file
from graphwright.targets.cpu.isa import Isa
from graphwright.targets.cpu.limits import LIMITS
from graphwright.targets.cpu.target import TARGETS
from graphwright.targets.cpu.toolchain import compile_shared
from tests.kernels.library.harness import RUNNABLE
from tests.targets.cpu.generated import guarded, load, toolchain

Array = np.ndarray[Any, Any]
ISAS = pytest.mark.parametrize("isa", RUNNABLE, ids=lambda isa: isa.name)


class Case(NamedTuple):
    """An epilogue of ``products`` of ``shape``, and what operands it has; ``groups`` as for hook_kernel."""

    shape: tuple[int, ...]
    groups: tuple[int, int]
    operands: tuple[tuple[int, ...], ...]
    build: Callable[..., list[Value]]
    expected: Callable[..., list[Array]]
    products: int = 1


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


SHAPE = (2, 37, 53)
CASES = {
    "silu": Case(
        SHAPE, (1, 1), (), lambda b, x: [b(Mul(), x, b(Sigmoid(), x))], lambda x: [x * sigmoid(x)]
    ),
    "along all axes, alone and together": Case(
        SHAPE, (1, 1), (SHAPE, (53,), (37, 1), (2, 1, 1)),
        lambda b, x, r, column, row, batch: [
            b(Tanh(), b(Mul(), b(Add(), b(Mul(), b(Add(), x, r), column), row), batch))
        ],
        lambda x, r, column, row, batch: [np.tanh(((x + r) * column + row) * batch)],
    ),
    "several results": Case(
        SHAPE, (1, 1), ((53,),),
        lambda b, x, column: [x, b(Exp(), s := b(Add(), x, column)), b(Relu(), s)],
        lambda x, column: [x, np.exp(x + column), np.maximum(x + column, 0)],
    ),
    "one column": Case(
        (3, 41, 1), (1, 1), ((41, 1), (3, 1, 1)),
        lambda b, x, row, batch: [b(Sigmoid(), b(Add(), b(Mul(), x, row), batch))],
        lambda x, row, batch: [sigmoid(x * row + batch)],
    ),
    "two axes of rows": Case(
        (2, 5, 7, 19), (1, 2), ((7, 1), (5, 1, 19)),
        lambda b, x, inner, outer: [b(Sigmoid(), b(Add(), b(Mul(), x, inner), outer))],
        lambda x, inner, outer: [sigmoid(x * inner + outer)],
    ),
    "two products": Case(
        SHAPE, (1, 1), (SHAPE, (53,)),
        lambda b, x, y, r, column: [b(Add(), b(Mul(), b(Sigmoid(), b(Mul(), x, column)), y), r), y],
        lambda x, y, r, column: [sigmoid(x * column) * y + r, y],
        products=2,
    ),
    "two products of one column": Case(
        (41, 1), (0, 1), ((41, 1),),
        lambda b, x, y, row: [b(Mul(), b(Tanh(), x), b(Add(), y, row))],
        lambda x, y, row: [np.tanh(x) * (y + row)],
        products=2,
    ),
    "two axes of columns": Case(
        (2, 5, 7, 19), (1, 1), ((7, 1), (5, 1, 19)),
        lambda b, x, inner, outer: [b(Sigmoid(), b(Add(), b(Mul(), x, inner), outer))],
        lambda x, inner, outer: [sigmoid(x * inner + outer)],
    ),
}  # fmt: skip


@cache
def made(name: str) -> tuple[RegionKernel, list[int]]:
    """The hook, and which of the case's results is behind each of its outputs."""
    case, module = CASES[name], Module()
    shapes = {"x": (*case.shape[:-1], 3)}
    shapes |= {f"operand{k}": shape for k, shape in enumerate(case.operands)}
    b, (x, *operands) = new_main_graph(module, [(n, tensor(F32, *s)) for n, s in shapes.items()])
    weights = [b.const(np.full((3, case.shape[-1]), k, np.float32)) for k in range(case.products)]
    module.main.set_outputs(case.build(b, *(b(MatMul(), x, w) for w in weights), *operands))
    PassManager((*graph_passes(), *kernel_passes(TARGETS["v4"]))).run(module)
    (node,) = (node for node in module.main if isinstance(node.op, Fused))
    region = region_of(node)
    anchors = [n.output for n in region if isinstance(n.op, MatMul)]
    assert len(anchors) == case.products
    hook = hook_kernel(region, schedule_of(region, LIMITS), anchors, case.groups, module.constants, "hook")
    verify(hook.kernel)
    outer = dict(zip(region.outputs, node.outputs, strict=True))
    results = hook.parameters[len(hook.parameters) - hook.output_count :]
    return hook, [list(module.main.outputs).index(outer[value]) for value in results]


@cache
def compiled(name: str, isa: Isa) -> Any:
    return load(compile_shared(emit_file([(made(name)[0].kernel, name)], isa), isa, toolchain())).hook


class Tile(NamedTuple):
    """The position of a tile, and the stride of its rows in elements."""

    batch: int
    rows: slice
    cols: slice
    ld: int

    @property
    def size(self) -> tuple[int, int]:
        return self.rows.stop - self.rows.start, self.cols.stop - self.cols.start


@st.composite
def tiles(draw: st.DrawFn, whole: tuple[int, int, int]) -> Tile:
    """Any tile of a result: no rows, no columns, and all of them too. Of one column, that is in all."""
    rows, cols = (sorted(draw(st.tuples(st.integers(0, n), st.integers(0, n)))) for n in whole[1:])
    cols = cols if whole[2] > 1 else [0, 1]
    ld = 2 * (cols[1] - cols[0] + draw(st.sampled_from((0, 1, 16))))
    return Tile(draw(st.integers(0, whole[0] - 1)), slice(*rows), slice(*cols), ld)


def whole_of(case: Case) -> tuple[int, int, int]:
    """Batches, rows and columns of the product."""
    first, last = case.groups[0], sum(case.groups)
    shape = case.shape
    return math.prod(shape[:first]), math.prod(shape[first:last]), math.prod(shape[last:])


def held(products: list[Array], ld: int) -> Array:
    """The rows of a tile, in each those of all products; NaN between them."""
    (rows, cols), apart = products[0].shape, ld // len(products)
    tile = np.full(max(0, (rows - 1) * ld + apart * (len(products) - 1) + cols), np.nan, np.float32)
    for k, values in enumerate(products):
        for r in range(rows):
            tile[r * ld + k * apart : r * ld + k * apart + cols] = values[r]
    return tile


def call(
    name: str, isa: Isa, tile: Tile, values: Array, operands: dict[str, Array], results: list[Array]
) -> int:
    hook, order = made(name)
    inputs = len(hook.parameters) - len(order)
    buffers = [*(operands[v.name] for v in hook.parameters[:inputs]), *(results[k] for k in order)]
    buf = (ctypes.c_void_p * len(buffers))(*(a.ctypes.data for a in buffers))
    arg = (ctypes.c_int64 * len(hook.sizes))(*(int(str(size)) for size in hook.sizes))
    (rows, cols), (row, col) = tile.size, (tile.rows.start, tile.cols.start)
    numbers = [ctypes.c_int64(n) for n in (tile.ld, tile.batch, row, rows, col, cols)]
    found: int = compiled(name, isa)(buf, arg, ctypes.c_void_p(values.ctypes.data), *numbers)
    return found


@ISAS
@pytest.mark.parametrize("name", CASES)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_a_hook_stores_its_tile_and_nothing_else(name: str, isa: Isa, data: st.DataObject) -> None:
    case = CASES[name]
    whole, side = whole_of(case), data.draw(st.sampled_from(("start", "end")))
    tile, random = data.draw(tiles(whole)), np.random.default_rng(0)
    shapes = (*[case.shape] * case.products, *case.operands)
    arrays = [random.uniform(-2, 2, s).astype(np.float32) for s in shapes]
    products, operands = arrays[: case.products], arrays[case.products :]
    expected = case.expected(*(a.astype(np.float64) for a in arrays))
    values = held([x.reshape(whole)[tile.batch, tile.rows, tile.cols] for x in products], tile.ld)
    results = [guarded(np.full(whole, -7, np.float32), side) for _ in expected]
    given_operands = {f"operand{k}": guarded(a, side) for k, a in enumerate(operands)}
    assert call(name, isa, tile, guarded(values, side), given_operands, results) == 0
    for want, result in zip(expected, results, strict=True):
        filled = np.full(whole, -7, np.float32)
        filled[tile[:3]] = want.reshape(whole)[tile[:3]]
        np.testing.assert_allclose(result, filled, rtol=4e-6, atol=1e-6)
