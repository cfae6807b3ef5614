"""Rewrites a blocked region as a row-major region, in which each value has the shape that it has in memory.

Elementwise ops do not depend on the layout if all operands have the same one: they can work on [N, C / lanes,
H, W, lanes]. A value without channels gets an additional axis of size 1, to be broadcast over the lanes.
"""

from __future__ import annotations

from graphwright.ir.builtin.constant import is_constant
from graphwright.ir.graph import Graph, Node, Value
from graphwright.ir.op import Op, Trait, reduction_op
from graphwright.ir.types import TensorType


def has_layouts(region: Graph) -> bool:
    """Whether some value of ``region`` is not row-major."""
    results = (value for node in region for value in node.outputs)
    return any(value.layout is not None for value in (*region.inputs, *results))


def physical_region(region: Graph) -> Graph:
    """A copy of ``region`` with the shapes of values in memory. Inputs, outputs and nodes keep their
    order.
    """
    physical = Graph(region.name)
    seen: dict[Value, Value] = {v: physical.add_input(_physical(v), v.name) for v in region.inputs}
    for node in region:
        operands = [None if v is None else seen[v] for v in node.inputs]
        types = [_physical(v) for v in node.outputs]
        copy = physical.append(
            Node(_physical_op(node), operands, types, name=node.name, sources=node.sources)
        )
        seen |= dict(zip(node.outputs, copy.outputs, strict=True))
    physical.set_outputs([seen[v] for v in region.outputs])
    return physical


def _physical(value: Value) -> TensorType:
    if value.layout is not None:
        return TensorType(value.type.dtype, value.layout.physical_shape(value.type.dims))
    if is_constant(value):
        return value.type
    return TensorType(value.type.dtype, (*value.type.dims, 1))


def _physical_op(node: Node) -> Op:
    """The op for physical shapes. A reduction keeps its axes, counted from the front."""
    if Trait.REDUCTION not in node.op.traits:
        return node.op
    reduction = reduction_op(node.op)
    return reduction.with_axes(reduction.resolved(len(node.operand(0).type.dims)))
