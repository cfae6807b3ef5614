"""Loop analysis: maps a set of nodes to common axes, or reports why they do not form one loop nest."""

from __future__ import annotations

from collections.abc import Sequence

from graphwright.ir.graph import Node
from graphwright.ir.interfaces.moved_axes import Concatenates, MovesAxes
from graphwright.ir.op import Trait, reduction_op
from graphwright.ir.refusal import Code
from graphwright.loop_nests.axes import Axis, NotOneNest
from graphwright.loop_nests.concats import add_concat
from graphwright.loop_nests.moves import add_move, add_view
from graphwright.loop_nests.nest import Nest
from graphwright.loop_nests.rolls import keep_rolls, unify_rolls


def analyze(nodes: Sequence[Node]) -> Nest:
    """Maps ``nodes``, which are in graph order, to common axes. Raises NotOneNest."""
    nest = Nest()
    for node in nodes:
        _add(nest, node)
    _finish(nest)
    return nest


def extended(nest: Nest, node: Node) -> Nest:
    """The analysis of the nodes of ``nest`` and one more node. Raises NotOneNest."""
    larger = nest.copy()
    _add(larger, node)
    _finish(larger)
    return larger


def _add(nest: Nest, node: Node) -> None:
    if Trait.REDUCTION in node.op.traits:
        nest.reductions[node] = _reduce(nest, node)
    elif Trait.VIEW in node.op.traits:
        _view(nest, node)
    elif isinstance(node.op, MovesAxes):
        add_move(nest, node)
    elif isinstance(node.op, Concatenates):
        add_concat(nest, node)
    else:
        _elementwise(nest, node)


def _finish(nest: Nest) -> None:
    _resolve_all(nest)
    _set_domain(nest)


def _elementwise(nest: Nest, node: Node) -> None:
    shape = node.output.type.dims
    axis_map: list[tuple[Axis, ...]] = [() for _ in shape]
    operands = [value for value in node.inputs if value is not None]
    for value in operands:
        known = nest.axis_maps.get(value) or nest.operand_maps.get(value) or ()
        for dim, axes in enumerate(known, start=len(shape) - len(known)):
            if axes:
                axis_map[dim] = nest.axes.unify(axis_map[dim], axes) if axis_map[dim] else axes
    for dim, size in enumerate(shape):
        if not axis_map[dim] and size != 1:
            axis_map[dim] = (nest.axes.new(size),)
    fresh = [value for value in operands if value not in nest.axis_maps and value not in nest.operand_maps]
    for value in operands:
        if value not in nest.axis_maps and value not in nest.operand_maps:
            dims = value.type.dims
            aligned = enumerate(dims, start=len(shape) - len(dims))
            nest.operand_maps[value] = tuple(() if size == 1 else axis_map[d] for d, size in aligned)
        nest.mark_loaded(value)
    nest.axis_maps[node.output] = tuple(axis_map)
    if nest.rolls:
        unify_rolls(nest, node, fresh)


def _view(nest: Nest, node: Node) -> None:
    flat = [axis for dim in nest.axis_map_of(node.operand(0)) for axis in dim]
    nest.axis_maps[node.output] = nest.axes.regroup(tuple(flat), node.output.type.dims)
    add_view(nest, node)


def _reduce(nest: Nest, node: Node) -> tuple[Axis, ...]:
    axis_map = nest.axis_map_of(node.operand(0))
    nest.mark_loaded(node.operand(0))
    reduction = reduction_op(node.op)
    reduced = set(reduction.resolved(len(axis_map)))
    if reduction.keepdims:
        nest.axis_maps[node.output] = tuple(() if d in reduced else dim for d, dim in enumerate(axis_map))
    else:
        nest.axis_maps[node.output] = tuple(dim for d, dim in enumerate(axis_map) if d not in reduced)
    axes = tuple(axis for d, dim in enumerate(axis_map) if d in reduced for axis in dim)
    if nest.rolls:
        keep_rolls(nest, node, axes)
    return axes


def _resolve_all(nest: Nest) -> None:
    if not nest.axes.are_refined:
        return
    resolve = nest.axes.resolve
    nest.axis_maps = {value: tuple(map(resolve, dims)) for value, dims in nest.axis_maps.items()}
    nest.operand_maps = {value: tuple(map(resolve, dims)) for value, dims in nest.operand_maps.items()}
    nest.reductions = {node: resolve(axes) for node, axes in nest.reductions.items()}


def _set_domain(nest: Nest) -> None:
    reductions = [axes for axes in nest.reductions.values() if axes]
    if len({frozenset(axes) for axes in reductions}) > 1:
        raise NotOneNest(Code.REDUCED_AXES, "the nodes reduce over different axes")
    nest.reduced = reductions[0] if reductions else ()
    whole = (axis_map for value, axis_map in nest.axis_maps.items() if value not in nest.partial)
    written = dict.fromkeys(map(nest.axes_of, whole))  # most values have the same axes
    read = dict.fromkeys(nest.axes_of(nest.axis_map_of(value)) for value in nest.loaded)
    part = map(nest.axes_of, map(nest.axis_maps.__getitem__, nest.partial))
    nest.domain = max((*written, *read) or tuple(part), key=len, default=())
    if any(len(set(axes)) < len(axes) for axes in (*written, *read)):
        raise NotOneNest(Code.TWO_ORDERS, "one value is read in two different axis orders")
    full, rows = frozenset(nest.domain), frozenset(nest.domain) - frozenset(nest.reduced)
    if any(axes not in (full, rows) for axes in map(frozenset, written)):
        why = "a smaller value would be recomputed for each element of a larger one"
        raise NotOneNest(Code.RECOMPUTED_VALUE, why)
    if not all(map(full.issuperset, read)):
        raise NotOneNest(Code.UNKNOWN_AXES, "an operand has axes that are not loops of the region")
