"""Gives symbols their numbers: the module for one set of input shapes. Inference has to follow."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from graphwright.errors import Collector, FeedError
from graphwright.ir.graph import Graph, Module
from graphwright.ir.op import Op
from graphwright.ir.symbols import Constraint, Expr, Range, substitute
from graphwright.ir.types import TensorType


def bind_sizes(module: Module, sizes: Mapping[str, int]) -> None:
    """Replace the symbols named in ``sizes`` everywhere in ``module``. A FeedError lists every range that they leave.

    Constraints that become numbers are dropped: inference finds them again, where they hold, for the numbers.
    """
    _check_ranges(module, sizes)
    _bind_constraints(module, sizes)
    for graph in module.graphs.values():
        _bind_graph(graph, sizes)
    for name in sizes:
        module.symbols.ranges.pop(name, None)
        module.symbols.multiples.pop(name, None)


def _check_ranges(module: Module, sizes: Mapping[str, int]) -> None:
    faults = Collector(FeedError)
    for name, size in sizes.items():
        span, multiple = module.symbols.ranges.get(name, Range()), module.symbols.multiples.get(name, 1)
        if size < span.low or (span.high is not None and size > span.high):
            faults.add("range", f"{name} is {size}, outside of {span.low} to {span.high}")
        if size % multiple:
            faults.add("range", f"{name} is {size}, no multiple of {multiple}")
    faults.raise_if_any()


def _bind_constraints(module: Module, sizes: Mapping[str, int]) -> None:
    bound = [
        Constraint(c.relation, substitute(c.left, sizes), substitute(c.right, sizes), c.node)
        for c in module.symbols.constraints
    ]
    module.symbols.constraints = {c: None for c in bound if isinstance(c.left, Expr) or isinstance(c.right, Expr)}


def _bind_graph(graph: Graph, sizes: Mapping[str, int]) -> None:
    for value in graph.inputs:
        value.type = _bound_type(value.type, sizes)
    for node in graph:
        node.op = _bound_op(node.op, sizes)
        for value in node.outputs:
            value.type = _bound_type(value.type, sizes)
        for region in node.regions:
            _bind_graph(region, sizes)


def _bound_type(type: TensorType, sizes: Mapping[str, int]) -> TensorType:
    if type.shape is None or type.is_static:
        return type
    return TensorType(type.dtype, tuple(substitute(dim, sizes) for dim in type.shape))


def _bound_op(op: Op, sizes: Mapping[str, int]) -> Op:
    changes = {name: _bound(value, sizes) for name, value in op.attributes().items()}
    changed = {name: value for name, value in changes.items() if value != getattr(op, name)}
    return dataclasses.replace(op, **changed) if changed else op  # type: ignore[type-var]  # ops are dataclasses


def _bound(value: Any, sizes: Mapping[str, int]) -> Any:
    if isinstance(value, Expr):
        return substitute(value, sizes)
    if isinstance(value, TensorType):
        return _bound_type(value, sizes)
    return tuple(_bound(item, sizes) for item in value) if isinstance(value, tuple) else value
