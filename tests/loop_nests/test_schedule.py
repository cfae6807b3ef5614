"""Schedules by shape, within the limits of a target; and the analysis behind them, node by node."""

from __future__ import annotations

from random import Random

import pytest

from graphwright.compiler.pipeline import graph_passes, kernel_passes
from graphwright.ir.build import new_main_graph
from graphwright.ir.builtin.constant import Constant
from graphwright.ir.builtin.fused import Fused, Schedule, Strategy, region_of
from graphwright.ir.graph import Module
from graphwright.ir.loops.nodes import Level
from graphwright.ir.op import Op, Trait
from graphwright.ir.symbols import Dim, symbol
from graphwright.ir.text import parse_module
from graphwright.ir.types import F32, F64, DType, TensorType
from graphwright.ir.verify import verify
from graphwright.loop_nests import hook_kernel
from graphwright.loop_nests.analysis import analyze, extended
from graphwright.loop_nests.limits import Limits
from graphwright.loop_nests.schedule import schedule_of
from graphwright.ops.core.binary import Mul
from graphwright.ops.core.exp import Exp
from graphwright.ops.core.matmul import MatMul
from graphwright.ops.core.reductions import ReduceMax, ReduceSum
from graphwright.passes.manager import PassManager
from graphwright.passes.traversal import nodes_of
from graphwright.records import replace
from graphwright.targets.cpu.limits import LIMITS
from graphwright.targets.cpu.target import TARGETS
from tests.random_graphs.generate import case

N = symbol("N")
ROWS_ONLY: Limits = replace(LIMITS, memory=frozenset({Level.GLOBAL, Level.REGISTER}))


def schedule(op: Op, *shapes: tuple[Dim, ...], dtype: DType = F32, limits: Limits = LIMITS) -> Schedule:
    """The schedule of a region with one node."""
    b, values = new_main_graph(Module(), [(f"x{k}", TensorType(dtype, s)) for k, s in enumerate(shapes)])
    b.graph.set_outputs([b(op, *values)])
    return schedule_of(b.graph, limits)


@pytest.mark.parametrize(
    ("shape", "axes", "strategy", "axis_extents"),
    [
        ((7, 100), (1,), Strategy.ROWS, (7, 100)),
        ((2, 3, 100), (2,), Strategy.ROWS, (6, 100)),
        ((2, 3, 100), (1, 2), Strategy.ROWS, (2, 300)),
        ((2, 3, 100), (0, 1, 2), Strategy.ROWS, (600,)),
        ((N, 100), (1,), Strategy.ROWS, (N, 100)),
        ((7, 8), (1,), Strategy.LANES, (7, 8)),
        ((7, 9), (1,), Strategy.ROWS, (7, 9)),
        ((900, 16), (0,), Strategy.LANES, (900, 16)),
        ((900, 17), (0,), Strategy.COLUMNS, (900, 17)),
        ((32, 1000), (0,), Strategy.LANES, (32, 1000)),
        ((32, 1024), (0,), Strategy.COLUMNS, (32, 1024)),
        ((8, 1024), (0,), Strategy.LANES, (8, 1024)),
        ((0, 100), (1,), Strategy.ROWS, (0, 100)),
    ],
)
def test_strategies_of_reductions(
    shape: tuple[Dim, ...], axes: tuple[int, ...], strategy: Strategy, axis_extents: tuple[Dim, ...]
) -> None:
    made = schedule(ReduceSum(axes=axes), shape)
    assert (made.strategy, made.axes) == (strategy, axis_extents)


def test_rows_of_wide_elements_are_long_earlier() -> None:
    assert schedule(ReduceMax(axes=(1,)), (7, 8), dtype=F64).strategy is Strategy.ROWS
    assert schedule(ReduceMax(axes=(1,)), (7, 4), dtype=F64).strategy is Strategy.LANES


@pytest.mark.parametrize(("columns", "block"), [(17, 17), (1024, 1024), (1025, 576), (3000, 1024), (N, 1024)])
def test_columns_are_cut_into_blocks_of_nearly_the_same_size(columns: Dim, block: int) -> None:
    assert schedule(ReduceSum(axes=(0,)), (900, columns)).block == block


@pytest.mark.parametrize(
    ("rows", "length", "unroll"),
    [(4, 1024, 2), (4, 1025, 1), (5, 33, 1), (1, 33, 1), (2048, 1024, 2), (2050, 1024, 1), (2 * N, 1024, 2)],
)
def test_iterations_of_two_short_rows_that_caches_hold(rows: Dim, length: int, unroll: int) -> None:
    assert schedule(ReduceSum(axes=(1,)), (rows, length)).unroll == unroll


@pytest.mark.parametrize(
    ("columns", "strategy"), [(1, Strategy.ROWS), (32, Strategy.SHORT_ROWS), (33, Strategy.ROWS)]
)
def test_short_rows_without_reductions(columns: int, strategy: Strategy) -> None:
    assert schedule(Mul(), (40, columns), (columns,)).strategy is strategy


def test_a_target_without_a_cache_folds_columns_in_registers_and_keeps_no_rows() -> None:
    assert schedule(ReduceSum(axes=(0,)), (900, 900), limits=ROWS_ONLY).strategy is Strategy.LANES
    assert schedule(ReduceSum(axes=(1,)), (900, 900)).keeps_rows
    assert not schedule(ReduceSum(axes=(1,)), (900, 900), limits=ROWS_ONLY).keeps_rows


def test_values_walk_the_axes_that_they_vary_along() -> None:
    made = schedule(Mul(), (2, 3, 40), (3, 1))
    assert made == Schedule(Strategy.ROWS, (2, 3, 40), (), ((0, 1, 2), (1,), (0, 1, 2)))


@pytest.mark.parametrize("first", range(0, 120, 20))
def test_extending_an_analysis_equals_analyzing_all_nodes(first: int) -> None:
    """The result after each node is that of an analysis of all nodes; the analysis before it is unchanged."""
    compared = 0
    for seed in range(first, first + 20):
        module = case(Random(seed)).module
        PassManager((*graph_passes(), *kernel_passes(TARGETS["v3"]))).run(module)
        for _, node, _ in nodes_of(module, Fused):
            body = [
                n
                for n in region_of(node)
                if not isinstance(n.op, Constant) and Trait.CONTRACTION not in n.op.traits
            ]
            if not body:
                continue
            grown = analyze(body[:1])
            for position, each in enumerate(body[1:], 2):
                before = vars(grown).copy()
                larger = extended(grown, each)
                assert vars(grown) == before
                grown, whole = larger, analyze(body[:position])
                assert grown.axis_maps == whole.axis_maps and grown.operand_maps == whole.operand_maps
                assert grown.axes.extents == whole.axes.extents
                assert (grown.domain, grown.reduced) == (whole.domain, whole.reduced)
                compared += 1
    assert compared > 10


def test_axes_of_an_epilogue_may_have_the_sizes_of_another_operand() -> None:
    """The sizes are equal only by a guard; axes are identified by position, not by size."""
    module = Module()
    types = (TensorType(F32, (symbol("M"), 2)), TensorType(F32, (N, 3)), TensorType(F32, (3, 2)))
    b, (r, x, w) = new_main_graph(module, [(f"x{k}", type) for k, type in enumerate(types)])
    module.main.set_outputs([b(Exp(), b(Mul(), r, b(MatMul(), x, w)))])
    PassManager((*graph_passes(), *kernel_passes(TARGETS["v3"]))).run(module)
    ((_, node, fused),) = nodes_of(module, Fused)
    assert fused.schedule is not None and fused.schedule.dims == (1, 1)
    anchor = next(n.output for n in region_of(node) if isinstance(n.op, MatMul))
    made = hook_kernel(region_of(node), fused.schedule, [anchor], (0, 1), module.constants, "hook")
    assert [value.name for value in made.parameters][:1] == ["x0"]


def test_a_schedule_is_verified_against_its_region() -> None:
    text = """
    module {
      graph main(%x: f32[4]) {
        %y = Fused[schedule=Schedule(strategy=Strategy.ROWS, axes=(4,), walks=((0,), (1,), ()))](%x): f32[4] {
          region(%x: f32[4]) {
            %y = Neg(%x): f32[4]
            return %y
          }
        }
        return %y
      }
    }"""
    with pytest.raises(Exception, match=r"3 indexing maps \(walks\), but the region has 2 values") as caught:
        verify(parse_module(text))
    assert "the schedule uses axis 1, but has only axes 0 to 0" in str(caught.value)
