"""What working on blocks saves, what transfers cost, and what sizes that are not known count as."""

from __future__ import annotations

import numpy as np
import pytest

from graphwright.cost.images import reblock_work
from graphwright.cost.machine import MACHINES
from graphwright.cost.nominal import nominal
from graphwright.ir.build import Builder
from graphwright.ir.graph import Graph, Module
from graphwright.ir.symbols import Range, SymbolTable, floordiv, maximum, symbol
from graphwright.ir.types import F32, tensor
from graphwright.layout.choose import LayoutChoice
from graphwright.layout.costs import LayoutCosts
from graphwright.layout.forms import form_of
from graphwright.ops.nn.average_pool import AveragePool
from graphwright.ops.nn.conv import Conv
from graphwright.ops.nn.max_pool import MaxPool
from graphwright.ops.nn.spatial import Pool

TABLE = SymbolTable()
"""Of sizes without ranges."""


def test_a_size_that_is_not_known_counts_as_a_batch_or_a_small_image() -> None:
    n, h = symbol("n"), symbol("h")
    assert [nominal(dim, TABLE) for dim in (7, n, n * 3, n * h)] == [7, 64, 192, 4096]


def test_a_size_of_a_range_counts_as_its_geometric_mean() -> None:
    table = SymbolTable({"n": Range(1, 16), "h_32": Range(1, 64), "w": Range(100), "k": Range(0, 9)})
    n, h, w, k = map(symbol, ("n", "h_32", "w", "k"))
    assert [nominal(dim, table) for dim in (n, 32 * h, w, k, n * h)] == [4, 256, 100, 3, 32]


def test_sizes_that_would_be_zero_are_estimated_larger() -> None:
    frames = maximum(0, floordiv(symbol("samples") + 64, 128) - 1)
    assert nominal(frames, TABLE) == 1
    assert nominal(frames * symbol("batch"), TABLE) == 256
    assert nominal(maximum(0, symbol("n") - 10_000), TABLE) == 16384 - 10_000
    assert nominal(0, TABLE) == 0


def saved(pixels: int) -> float:
    """The time that blocks save a convolution, per pixel."""
    module = Module()
    graph = module.add_graph(Graph("main"))
    x = graph.add_input(tensor(F32, 1, 64, pixels), "x")
    b = Builder(module, graph)
    y = b(Conv((1,), (0, 0), (1,)), x, b.const(np.ones((64, 64, 1), np.float32)))
    assert y.producer is not None
    form = form_of(y.producer, LayoutCosts(16, MACHINES["v4"]))
    assert isinstance(form, LayoutChoice)
    return form.saves / pixels


def test_an_image_whose_channels_are_counted_at_run_time_stays_row_major() -> None:
    """Its 64 channels follow from a constraint only, as where a batch of 1 was reshaped into channels."""
    module = Module()
    graph = module.add_graph(Graph("main"))
    x = graph.add_input(tensor(F32, 1, 64 * module.symbols.fresh("n"), 32), "x")
    b = Builder(module, graph)
    y = b(Conv((1,), (0, 0), (1,)), x, b.const(np.ones((64, 64, 1), np.float32)))
    assert y.producer is not None
    form = form_of(y.producer, LayoutCosts(16, MACHINES["v4"]))
    assert isinstance(form, str) and "cannot be blocked" in form


def test_a_convolution_of_few_pixels_wastes_lanes_in_planes() -> None:
    assert saved(4) > 2 * saved(16) > 0
    assert saved(16 * 3 + 1) > 1.1 * saved(16 * 4)
    assert saved(3136) == pytest.approx(saved(6272), rel=0.02)


def pooled(op: Pool, channels: int, size: int) -> tuple[float, int]:
    """The time that a blocked layout saves for an op, and the time for converting its operand and its
    result.
    """
    module = Module()
    graph = module.add_graph(Graph("main"))
    x = graph.add_input(tensor(F32, 1, channels, size, size), "x")
    y = Builder(module, graph)(op, x)
    assert y.producer is not None
    costs = LayoutCosts(16, MACHINES["v4"])
    form = form_of(y.producer, costs)
    assert isinstance(form, LayoutChoice)
    return form.saves, costs.transfer_ns(x) + costs.transfer_ns(y)


@pytest.mark.parametrize(
    "op",
    [
        MaxPool((3, 3), (1, 1), (1, 1, 1, 1)),
        AveragePool((3, 3), (2, 2), (1, 1, 1, 1), include_pads=True),
        AveragePool((3, 3), (1, 1), (1, 1, 1, 1)),
    ],
    ids=str,
)
def test_blocked_pooling_saves_more_than_its_conversions_cost(op: Pool) -> None:
    saves, transfers = pooled(op, 64, 56)
    assert saves > transfers
    saves, transfers = pooled(op, 3, 56)  # 13 of 16 lanes would be wasted
    assert saves < transfers


def test_windows_of_two_columns_do_not() -> None:
    saves, transfers = pooled(MaxPool((2, 2), (2, 2), (0, 0, 0, 0)), 64, 112)
    assert 0 < saves < transfers


def test_planes_are_transposed_in_squares() -> None:
    assert reblock_work(16, 3, 49).cycles == reblock_work(16, 3, 64).cycles == 3 * (20 + 4 * 64)
    assert reblock_work(8, 3, 49).cycles == 3 * (20 + 7 * 16)
    assert reblock_work(16, 3, 49).moved == 2 * 4 * 16 * 3 * 49
