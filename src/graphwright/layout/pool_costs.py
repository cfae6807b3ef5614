"""Predicted times of pooling in row-major and in blocked layouts."""

from __future__ import annotations

from graphwright.cost.images import blocked_pool_work, is_pairwise_pool, planar_pool_work
from graphwright.ir.graph import Node, Value
from graphwright.ir.interfaces.blocked_form import Blocked
from graphwright.ir.symbols import product
from graphwright.layout.costs import LayoutCosts, Operands, saved_ns
from graphwright.ops.nn.average_pool import AveragePool
from graphwright.ops.nn.spatial import Pool


@saved_ns.register(Pool)
def _saved_by_pool(op: Pool, node: Node, form: Blocked, operands: Operands, costs: LayoutCosts) -> float:
    x, y = operands[0], node.output
    assert x is not None
    return _planar_pool_ns(op, x, y, costs) - _blocked_pool_ns(op, x, y, costs) - costs.padding_ns(y)


def _planar_pool_ns(op: Pool, x: Value, y: Value, costs: LayoutCosts) -> int:
    """Row-major pooling: first over the rows of the windows, then over their columns. Vectors are along rows,
    and the last one of a row is rarely full.
    """
    kh, kw = (1, *op.kernel)[-2:]
    before, after = (-(-costs.nominal(v.type.dims[-1]) // costs.lanes) for v in (x, y))
    rows = costs.nominal(product(y.type.dims[:-1]))
    moved = costs.nominal(x.type.bytes) + costs.nominal(y.type.bytes)
    window = op.windows.on_two_axes
    pairs = is_pairwise_pool(kw, window.strides[1], window.dilations[1], window.pads[1])
    average = isinstance(op, AveragePool)
    return costs.ns(planar_pool_work(costs.lanes, rows, kh * before + kw * after, moved, average, pairs))


def _blocked_pool_ns(op: Pool, x: Value, y: Value, costs: LayoutCosts) -> int:
    """Blocked pooling, one vector of channels per pixel, without padding lanes."""
    kh, kw = (1, *op.kernel)[-2:]
    before, after = (costs.nominal(v.type.dims[-1]) for v in (x, y))
    rows = costs.nominal(product(y.type.dims[:-1])) // costs.lanes
    moved = costs.nominal(x.type.bytes) + costs.nominal(y.type.bytes)
    average = isinstance(op, AveragePool)
    vectors = kh * before + (kw + average) * after
    return costs.ns(blocked_pool_work(costs.lanes, rows, vectors, moved, average))
