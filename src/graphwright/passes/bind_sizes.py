"""Gives symbols their numbers: the module for some input shapes. Inference has to follow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from graphwright.errors import Collector, Diagnostic, FeedError
from graphwright.ir.graph import Graph, Module
from graphwright.ir.symbols import Constraint, Dim, Expr, Range, substitute, symbol
from graphwright.ir.types import TensorType

Shapes = Mapping[str, Sequence[int | str | None]]
"""By input: numbers, names that make a size symbolic (shared by name), or None for what the model says."""


def shape_inputs(module: Module, shapes: Shapes) -> None:
    """Give inputs of the entry ``shapes``. A FeedError lists unknown names, wrong ranks and fixed sizes that
    differ.
    """
    faults = Collector(FeedError)
    inputs = {value.name: value for value in module.main.inputs}
    sizes: dict[str, Dim] = {}
    for name, wanted in shapes.items():
        if name not in inputs:
            faults.add(
                "input-name", f"there is no input {name!r}", hint=f"the inputs are {', '.join(inputs)}"
            )
            continue
        known = inputs[name].type.shape
        if known is None:
            inputs[name].type = TensorType(inputs[name].type.dtype, tuple(map(_dim, wanted)))
            continue
        if len(known) != len(wanted):
            faults.add("input-rank", f"{len(wanted)} sizes for {inputs[name]!r}")
            continue
        for axis, (dim, size) in enumerate(zip(known, wanted, strict=True)):
            fault = _bind_dim(module, dim, size, sizes)
            if fault:
                faults.add("input-size", f"axis {axis} of input {name!r} {fault}")
    faults.raise_if_any()
    bind_sizes(module, sizes)


def _dim(size: int | str | None) -> Dim:
    if size is None:
        raise FeedError(Diagnostic("input-rank", "an input of unknown rank needs every size"))
    return size if isinstance(size, int) else symbol(size)


def _bind_dim(module: Module, dim: Dim, size: int | str | None, sizes: dict[str, Dim]) -> str:
    """Note in ``sizes`` what makes ``dim`` the ``size``; the fault where nothing does."""
    if size is None or dim == size:
        return ""
    if not isinstance(dim, Expr) or not str(dim).isidentifier():
        return f"is {dim}, not {size}"
    if isinstance(size, int) and size < 0:
        return f"cannot be {size}"
    made: Dim = size if isinstance(size, int) else symbol(size)
    if sizes.setdefault(str(dim), made) != made:
        return f"is {dim}, which another axis makes {sizes[str(dim)]}"
    if isinstance(size, str):
        module.symbols.ranges.setdefault(size, module.symbols.ranges.get(str(dim), Range()))
    return ""


def bind_sizes(module: Module, sizes: Mapping[str, Dim]) -> None:
    """Replace the symbols named in ``sizes`` everywhere in ``module``. A FeedError lists every range that
    they leave.

    Constraints that become numbers are dropped: inference finds them again, where they hold, for the numbers.
    """
    _check_ranges(module, sizes)
    _bind_constraints(module, sizes)
    for graph in module.graphs.values():
        _bind_graph(graph, sizes)
    for name, size in sizes.items():
        if str(size) != name:
            module.symbols.ranges.pop(name, None)
            module.symbols.multiples.pop(name, None)


def _check_ranges(module: Module, sizes: Mapping[str, Dim]) -> None:
    faults = Collector(FeedError)
    for name, size in sizes.items():
        if isinstance(size, Expr):
            continue
        span, multiple = module.symbols.ranges.get(name, Range()), module.symbols.multiples.get(name, 1)
        if size < span.low or (span.high is not None and size > span.high):
            faults.add("range", f"{name} is {size}, outside of {span.low} to {span.high}")
        if size % multiple:
            faults.add("range", f"{name} is {size}, no multiple of {multiple}")
    faults.raise_if_any()


def _bind_constraints(module: Module, sizes: Mapping[str, Dim]) -> None:
    bound = [
        Constraint(c.relation, substitute(c.left, sizes), substitute(c.right, sizes), c.node)
        for c in module.symbols.constraints
    ]
    module.symbols.constraints = {
        c: None for c in bound if isinstance(c.left, Expr) or isinstance(c.right, Expr)
    }


def _bind_graph(graph: Graph, sizes: Mapping[str, Dim]) -> None:
    for value in graph.inputs:
        value.type = _bound_type(value.type, sizes)
    for node in graph:
        node.op = node.op.with_attributes(partial(_bound, sizes))
        for value in node.outputs:
            value.type = _bound_type(value.type, sizes)
        for region in node.regions:
            _bind_graph(region, sizes)


def _bound_type(type: TensorType, sizes: Mapping[str, Dim]) -> TensorType:
    if type.shape is None or type.is_static:
        return type
    return TensorType(type.dtype, tuple(substitute(dim, sizes) for dim in type.shape))


def _bound(sizes: Mapping[str, Dim], value: Any) -> Any:
    if isinstance(value, Expr):
        return substitute(value, sizes)
    if isinstance(value, TensorType):
        return _bound_type(value, sizes)
    return tuple(_bound(sizes, item) for item in value) if isinstance(value, tuple) else value
