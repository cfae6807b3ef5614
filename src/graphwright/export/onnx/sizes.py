"""Computes sizes that are not known before a run, by nodes that read the shapes of values."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from graphwright.export.onnx.scope import Scope
from graphwright.ir.algebra.atoms import Atom, Function, Symbol
from graphwright.ir.op import Array
from graphwright.ir.op.exporter import CannotExport
from graphwright.ir.symbols import Dim, Expr, symbol

Constants = Callable[[Array], str]
"""Adds a constant to the scope and returns its name."""


def size_vector(scope: Scope, const: Constants, dims: Sequence[Dim]) -> str:
    """The name of an i64 vector with the elements ``dims``. Raises CannotExport."""
    if all(isinstance(dim, int) for dim in dims):
        return const(np.array(dims, np.int64))
    parts = [size_of(scope, const, dim) for dim in dims]
    return parts[0] if len(parts) == 1 else _node(scope, "Concat", *parts, axis=0)


def size_of(scope: Scope, const: Constants, dim: Dim) -> str:
    """The name of a vector whose one element is ``dim``. Raises CannotExport if no value has a size to
    compute it from.
    """
    if isinstance(dim, int):
        return const(np.array([dim], np.int64))
    known = scope.known_size(dim)
    if known is None:
        known = scope.sizes[dim] = _computed(scope, const, dim)
    return known


def _computed(scope: Scope, const: Constants, dim: Expr) -> str:
    known = scope.axis_with_size(dim)
    if known is not None:
        name, axis = known
        return _node(scope, "Shape", name, start=axis, end=axis + 1)
    total = None
    for monomial, factor in dim.terms:
        factors = [_atom(scope, const, atom) for atom, power in monomial for _ in range(power)]
        if factor != 1 or not factors:
            factors.append(const(np.array([factor], np.int64)))
        term = _chain(scope, "Mul", factors)
        total = term if total is None else _node(scope, "Add", total, term)
    assert total is not None
    return total


def _atom(scope: Scope, const: Constants, atom: Atom) -> str:
    if isinstance(atom, Symbol):
        return _symbol(scope, const, atom.name)
    assert isinstance(atom, Function)
    operands = [size_of(scope, const, operand) for operand in atom.operands]
    match atom.name:
        case "min" | "max":
            return _chain(scope, atom.name.capitalize(), operands)
        case "mod":
            return _node(scope, "Mod", *operands)
        case "floordiv":
            rest = _node(scope, "Mod", *operands)
            return _node(scope, "Div", _node(scope, "Sub", operands[0], rest), operands[1])
    raise CannotExport(f"ONNX has no {atom.name} of sizes")


def _symbol(scope: Scope, const: Constants, name: str) -> str:
    expression = symbol(name)
    if scope.axis_with_size(expression) is not None or scope.known_size(expression) is not None:
        return size_of(scope, const, expression)
    found = scope.multiple_of(name)
    if found is not None:
        dim, scale = found
        divided = _node(scope, "Div", size_of(scope, const, dim), const(np.array([scale], np.int64)))
        return scope.sizes.setdefault(expression, divided)
    demanded = scope.demand(name)
    if demanded is None:
        raise CannotExport(f"no value has the size {name}")
    return demanded


def _chain(scope: Scope, op_type: str, operands: Sequence[str]) -> str:
    total = operands[0]
    for each in operands[1:]:
        total = _node(scope, op_type, total, each)
    return total


def _node(scope: Scope, op_type: str, *inputs: str, **attributes: object) -> str:
    name = scope.names.take(f"size_{op_type.lower()}")
    scope.append(op_type, inputs, [name], attributes=attributes)
    return name
