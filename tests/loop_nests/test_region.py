"""Loop IR of random fused regions: its interpreter computes the same as the references of the ops."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from graphwright.compiler.pipeline import graph_passes, kernel_passes
from graphwright.ir.build import new_main_graph
from graphwright.ir.builtin.fused import Fused
from graphwright.ir.constants.pool import ConstantPool
from graphwright.ir.evaluate import evaluate_module
from graphwright.ir.graph import Graph, Module, Node
from graphwright.ir.loops.interpret import interpret
from graphwright.ir.loops.nodes import Alloc, Kind, Let, Level, Loop, Statement, Store, walk
from graphwright.ir.loops.verify import verify
from graphwright.ir.op import Array, Op, Trait
from graphwright.ir.symbols import Dim, evaluate, symbol
from graphwright.ir.types import F16, F32, DType, TensorType, tensor
from graphwright.loop_nests import RegionKernel, hook_kernel, region_kernel, schedule_of
from graphwright.ops.core.binary import Add, Mul, Sub
from graphwright.ops.core.cast import Cast
from graphwright.ops.core.div import Div
from graphwright.ops.core.exp import Exp
from graphwright.ops.core.matmul import MatMul
from graphwright.ops.core.reductions import ReduceMax, ReduceMean, ReduceSum
from graphwright.ops.core.transpose import Transpose
from graphwright.ops.core.unary import Relu
from graphwright.ops.nn.layer_normalization import LayerNormalization
from graphwright.ops.nn.softmax import Softmax
from graphwright.passes.manager import PassManager
from graphwright.targets.cpu.limits import LIMITS
from graphwright.targets.cpu.target import TARGETS
from tests.random_graphs.generate import case
from tests.random_graphs.values import Known, filled

SIZES = {"N": 3, "M": 2}
SHORT, COLUMNS, BLOCK = LIMITS.unroll_row, LIMITS.column_block, LIMITS.row_block


def fused_nodes(module: Module) -> list[Node]:
    """The fused nodes of a compiled module, including those in regions."""
    PassManager((*graph_passes(), *kernel_passes(TARGETS["v4"]))).run(module)
    return [node for graph in module.graphs.values() for node in graph.walk() if isinstance(node.op, Fused)]


def run_kernel(made: RegionKernel, feeds: dict[object, Array], sizes: dict[str, int]) -> list[Array]:
    """The outputs of the interpreter; buffers have joined axes, so arrays are reshaped to them."""
    numbers = {n: evaluate(dim, sizes) for n, dim in zip(made.kernel.sizes, made.sizes, strict=True)}
    arrays: dict[str, Array] = {}
    first_output = len(made.parameters) - made.output_count
    for k, (value, buffer) in enumerate(zip(made.parameters, made.kernel.parameters, strict=True)):
        shape = [evaluate(dim, numbers) for dim in buffer.shape]
        if k < first_output:
            arrays[buffer.name] = feeds[value].reshape(shape).copy()
        else:
            arrays[buffer.name] = np.zeros(shape, value.type.dtype.numpy)
    verify(made.kernel)
    interpret(made.kernel, arrays, numbers)
    return [arrays[b.name] for b in made.kernel.parameters[first_output:]]


def reference(region: Graph, constants: ConstantPool, feeds: list[Array]) -> list[Array]:
    module = Module()
    module.constants = constants
    module.graphs["main"] = region
    with np.errstate(all="ignore"):
        return list(evaluate_module(module, feeds))


def compare(node: Node, module: Module, sizes: dict[str, int], seed: int = 0) -> RegionKernel:
    """The kernel of a fused region without a contraction, checked."""
    (region,) = node.regions
    made = region_kernel(region, schedule_of(region, LIMITS), module.constants, "k")
    rng = np.random.default_rng(seed)
    feeds = {
        v: filled(v.type.dtype, [evaluate(d, sizes) for d in v.type.dims], Known(3), rng)
        for v in region.inputs
    }
    want = dict(zip(region.outputs, reference(region, module.constants, list(feeds.values())), strict=True))
    got = run_kernel(made, feeds, sizes)
    for value, array in zip(made.parameters[-made.output_count :], got, strict=True):
        a, b = array.astype(np.float64).reshape(-1), want[value].astype(np.float64).reshape(-1)
        tolerance = {2: 0.02}.get(value.type.dtype.bytes, 1e-5) if value.type.dtype.is_float else 0.0
        np.testing.assert_allclose(
            a, b, rtol=tolerance, atol=tolerance * max(1.0, np.max(np.abs(b), initial=0))
        )
    return made


@pytest.mark.parametrize("seed", range(300, 380))
def test_random_regions_equal_their_ops(seed: int) -> None:
    module = case(Random(seed), steps=20).module
    for node in fused_nodes(module):
        if not any(Trait.CONTRACTION in n.op.traits for n in node.regions[0]):
            compare(node, module, SIZES, seed)


def kernel_of(op: Op, *types: TensorType) -> RegionKernel:
    """The one kernel that the compiler makes of an op, checked at its sizes."""
    module = Module()
    b, values = new_main_graph(module, [(f"x{k}", type) for k, type in enumerate(types)])
    module.main.set_outputs([b(op, *values)])
    (node,) = fused_nodes(module)
    return compare(node, module, {"N": 5, "M": 4, "empty": 0})


def loops(made: RegionKernel, kind: Kind) -> list[Loop]:
    return [s for s in walk(made.kernel.body) if isinstance(s, Loop) and s.kind is kind]


def rows_kept(body: tuple[Statement, ...]) -> int:
    return sum(isinstance(s, Alloc) and s.buffer.level is Level.CACHE for s in walk(body))


@pytest.mark.parametrize("dims", [(5, 33), (symbol("N"), 33), (4, symbol("M")), (1, 3, 15), (7,), (1, 1)])
def test_softmax_keeps_the_powers_in_its_result_and_walks_three_times(dims: tuple[Dim, ...]) -> None:
    made = kernel_of(Softmax(), tensor(F32, *dims))
    (result,) = made.kernel.parameters[-1:]
    stores = [s for s in walk(made.kernel.body) if isinstance(s, Store) and s.buffer == result]
    assert rows_kept(made.kernel.body) == 0
    assert len(stores) == (1 if dims == (1, 1) else 2)
    assert made.rereads == (dims != (1, 1))


@pytest.mark.parametrize("rows, length", [(4, 33), (6, SHORT), (4, SHORT + 1), (5, 33), (1, 33)])
def test_an_even_number_of_short_rows_goes_in_pairs(rows: int, length: int) -> None:
    made = kernel_of(Softmax(), tensor(F32, rows, length))
    (result,) = made.kernel.parameters[-1:]
    stores = [s for s in walk(made.kernel.body) if isinstance(s, Store) and s.buffer == result]
    pairs = rows % 2 == 0 and length <= SHORT
    assert len(stores) == (4 if pairs else 2)
    units = rows // 2 if pairs else rows
    assert [loop.extent for loop in loops(made, Kind.PARALLEL)] == ([units] if rows > 1 else [])


def test_an_even_number_of_symbolic_rows_is_computed_in_pairs() -> None:
    made = kernel_of(Softmax(), tensor(F32, symbol("N"), 4, 33))
    (loop,) = loops(made, Kind.PARALLEL)
    assert loop.extent == symbol(made.kernel.sizes[0]) // 2
    kernel_of(Softmax(), tensor(F32, symbol("N"), 3, 33))  # an odd number at N = 5


def test_a_row_is_kept_if_no_result_can_hold_it() -> None:
    assert rows_kept(kernel_of(Softmax(), tensor(F16, 5, 33)).kernel.body) == 1
    assert rows_kept(kernel_of(Softmax(), tensor(F16, 4, 33)).kernel.body) == 2  # of each of a pair


def test_a_result_that_is_needed_itself_holds_nothing_else() -> None:
    """Both results read the powers in the last pass."""
    module = Module()
    b, (x,) = new_main_graph(module, [("x", tensor(F32, 5, 33))])
    powers = b(Exp(), x)
    total = b(ReduceSum((1,)), powers)
    module.main.set_outputs([b(Div(), powers, total), b(Sub(), powers, total)])
    (node,) = fused_nodes(module)
    assert rows_kept(compare(node, module, {}).kernel.body) == 1


def test_rows_of_normalization_stay_in_the_cache() -> None:
    made = kernel_of(LayerNormalization(), tensor(F32, 6, 33), tensor(F32, 33), tensor(F32, 33))
    assert rows_kept(made.kernel.body) == 0  # nothing is costly to compute again
    assert len(loops(made, Kind.PARALLEL)) == 1


@pytest.mark.parametrize("columns", [17, COLUMNS, COLUMNS + 1, 3 * COLUMNS])
def test_reductions_over_outer_axes_go_by_blocks_of_columns(columns: int) -> None:
    made = kernel_of(ReduceMean((1,), keepdims=False), tensor(F32, 2, 40, columns))
    assert len(loops(made, Kind.REDUCE)) == 1
    assert len(loops(made, Kind.PARALLEL)) == (1 if columns <= COLUMNS else 2)


@pytest.mark.parametrize("dims", [(symbol("N"), 7), (5, 8), (600, 3)])
def test_each_lane_walks_a_short_row(dims: tuple[Dim, ...]) -> None:
    made = kernel_of(Softmax(), tensor(F32, *dims))
    (lanes,) = loops(made, Kind.VECTOR)
    assert [loop.extent for loop in loops(made, Kind.REDUCE)] == [dims[1]] * 3
    assert {walked for walked in loops(made, Kind.REDUCE)} <= set(walk(lanes.body))
    assert rows_kept(made.kernel.body) == 0


@pytest.mark.parametrize("length, loops_over_rows", [(32, [32]), (80, [10]), (83, [10, 3])])
def test_long_sums_of_few_columns_are_several(length: int, loops_over_rows: list[int]) -> None:
    made = kernel_of(ReduceSum((0,), keepdims=False), tensor(F32, length, 5))
    assert [loop.extent for loop in loops(made, Kind.REDUCE)] == loops_over_rows


@pytest.mark.parametrize(
    "dims, axes, extents",
    [
        ((64, 40), (0,), [64]),
        ((128, 40), (0,), [2, 64]),
        ((150, 40), (0,), [3, None]),
        ((150, 2, 3, 40), (0, 2), [3, None, 3]),
        ((2, 2, 150, 40), (0, 2), [2, 3, None]),
        ((8 * 128 + 3, 5), (0,), [2, 64, 3]),  # eight sums per lane
        ((200, 2, 40, 5), (0, 2), [4, None, 5]),  # the longer axis is outside
        ((200, 2, 43, 5), (0, 2), [4, None, 5, 3]),
    ],
)
def test_long_sums_are_added_in_blocks(
    dims: tuple[int, ...], axes: tuple[int, ...], extents: list[int | None]
) -> None:
    """None is the number of iterations of a block, of which the last one has fewer."""
    made = kernel_of(ReduceSum(axes, keepdims=False), tensor(F32, *dims))
    found = [loop.extent if isinstance(loop.extent, int) else None for loop in loops(made, Kind.REDUCE)]
    assert found == extents


@pytest.mark.parametrize("size", [0, 1, 64, 65, 700])
@pytest.mark.parametrize("columns", [5, 40])
def test_sums_of_unknown_length_are_added_in_blocks(size: int, columns: int) -> None:
    module = Module()
    b, (x,) = new_main_graph(module, [("x", tensor(F32, symbol("N"), columns))])
    module.main.set_outputs([b(ReduceSum((0,), keepdims=False), x), b(ReduceMax((0,), keepdims=False), x)])
    for node in fused_nodes(module):
        compare(node, module, {"N": size})


@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2)])
@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("shape", [(2, 3, 5), (1, 3, 1), (2, 0, 3), (0, 1, 2)])
def test_reductions_over_all_sets_of_axes_equal_their_ops(
    axes: tuple[int, ...], keep: bool, shape: tuple[int, ...]
) -> None:
    kernel_of(ReduceSum(axes, keep), tensor(F32, *(size or symbol("empty") for size in shape)))


@pytest.mark.parametrize("rows", [1, 3, BLOCK, BLOCK + 1, 2 * BLOCK + 7, symbol("N")])
@pytest.mark.parametrize("lanes", [2, 16, 21])
def test_operands_of_short_rows_are_read_once_a_block(rows: Dim, lanes: int) -> None:
    made = kernel_of(Mul(), tensor(F32, 3, 2, rows, lanes), tensor(F32, 2, 1, lanes))
    if rows == 1:
        return
    (vector,) = loops(made, Kind.VECTOR)
    assert [type(s) for s in vector.body] == [Let, Loop]
    (serial,) = loops(made, Kind.SERIAL)
    assert serial.extent == rows or not isinstance(rows, int) or rows > BLOCK
    assert len(loops(made, Kind.PARALLEL)) == 2 + (not isinstance(rows, int) or rows > BLOCK)


def test_longer_rows_are_computed_one_by_one() -> None:
    made = kernel_of(Mul(), tensor(F32, 40, LIMITS.short_axis + 1), tensor(F32, LIMITS.short_axis + 1))
    assert not loops(made, Kind.SERIAL)


def test_neighboring_axes_are_joined() -> None:
    made = kernel_of(Add(), tensor(F32, 2, 3, 4), tensor(F32, 2, 3, 4))
    assert made.kernel.parameters[0].shape == (24,)
    made = kernel_of(Add(), tensor(F32, 2, 3, 4), tensor(F32, 3, 1))
    assert [p.shape for p in made.kernel.parameters] == [(2, 3, 4), (3,), (2, 3, 4)]


def test_casts_to_sixteen_bits_inside_a_region_round() -> None:
    module = Module()
    b, (x,) = new_main_graph(module, [("x", tensor(F32, 64))])
    module.main.set_outputs([b(Sub(), b(Cast(F32), b(Cast(F16), b(Mul(), x, b.const(1.001, F32)))), x)])
    (node,) = fused_nodes(module)
    made = compare(node, module, {})
    assert made.output_count == 1


@pytest.mark.parametrize("dtype", [F32])
@pytest.mark.parametrize("view", [False, True])
def test_a_hook_computes_the_epilogue_tile_by_tile(dtype: DType, view: bool) -> None:
    """Tiles of any size give the whole result; a tile is the contraction's result."""
    module = Module()
    rows, columns = 5, 7
    b, (x, w, residual) = new_main_graph(
        module,
        [("x", tensor(dtype, rows, 3)), ("w", tensor(dtype, 3, columns)), ("r", tensor(dtype, columns))],
    )
    product = b(MatMul(), x, w)
    y = b(Exp(), b(Relu(), b(Add(), product, residual)))
    module.main.set_outputs([y, product] if view else [y])
    (node,) = fused_nodes(module)
    (region,) = node.regions
    anchor = next(n.output for n in region if isinstance(n.op, MatMul))
    made = hook_kernel(region, schedule_of(region, LIMITS), [anchor], (0, 1), module.constants, "hook")
    rng = np.random.default_rng(0)
    tiles = rng.normal(size=(rows, columns)).astype(np.float32)
    bias = rng.normal(size=columns).astype(np.float32)
    numbers = {n: evaluate(d, {}) for n, d in zip(made.kernel.sizes[6:], made.sizes, strict=True)}
    arrays: dict[str, Array] = {}
    for value, buffer in zip(made.parameters, made.kernel.parameters[1:], strict=True):
        shape = [evaluate(dim, numbers) for dim in buffer.shape]
        arrays[buffer.name] = (
            bias.reshape(shape) if value is region.inputs[2] else np.zeros(shape, np.float32)
        )
    for row0, row1 in ((0, 2), (2, 5)):
        for col0, col1 in ((0, 4), (4, 7)):
            tile = np.ascontiguousarray(tiles[row0:row1, col0:col1])
            place = {
                "batch": 0,
                "row0": row0,
                "rows": row1 - row0,
                "col0": col0,
                "cols": col1 - col0,
                "ld": col1 - col0,
            }
            interpret(made.kernel, {**arrays, "tile": tile}, {**numbers, **place})
    results = {v: arrays[b.name] for v, b in zip(made.parameters, made.kernel.parameters[1:], strict=True)}
    for value in region.outputs:
        want = tiles if value is anchor else np.exp(np.maximum(tiles + bias, 0))
        np.testing.assert_allclose(results[value].reshape(rows, columns), want, rtol=1e-6)


def test_a_transposed_operand_does_not_fuse_into_a_reordering_kernel() -> None:
    module = Module()
    b, (x,) = new_main_graph(module, [("x", tensor(F32, 2, 3))])
    module.main.set_outputs([b(Relu(), b(Transpose((1, 0)), x))])
    (node,) = fused_nodes(module)
    assert [n.op.name for n in node.regions[0]] == [Relu.name]
