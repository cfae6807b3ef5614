"""Substitution and evaluation of symbols."""

from __future__ import annotations

from collections.abc import Mapping

from graphwright.ir.algebra.atoms import Atom, Symbol
from graphwright.ir.algebra.expressions import FUNCTIONS, Dim, Expr, SymbolError, names_in, of_atom, product


def substitute(dim: Dim, values: Mapping[str, Dim]) -> Dim:
    """``dim`` with the symbols in ``values`` replaced, in canonical form."""
    return _substituted(dim, values, {}) if values else dim


def _substituted(dim: Dim, values: Mapping[str, Dim], cache: dict[Expr, Dim]) -> Dim:
    """As :func:`substitute`; ``cache`` holds the results of inner expressions, which often repeat."""
    if isinstance(dim, int) or dim.names.isdisjoint(values):
        return dim
    if dim in cache:
        return cache[dim]
    total: Dim = 0
    for monomial, coefficient in dim.terms:
        term: Dim = coefficient
        for atom, power in monomial:
            if isinstance(atom, Symbol):
                value = values.get(atom.name)
                factor: Dim = of_atom(atom) if value is None else value
            else:
                factor = FUNCTIONS[atom.name](*(_substituted(each, values, cache) for each in atom.operands))
            term = term * (factor if power == 1 else product([factor] * power))
        total = total + term
    cache[dim] = total
    return total


def evaluate(dim: Dim, values: Mapping[str, int]) -> int:
    """The value of ``dim`` for ``values`` of its symbols. Raises :class:`SymbolError` if one is missing."""
    if isinstance(dim, int):
        return dim
    if dim.names <= values.keys():
        return _evaluated(dim, values, {})
    result = substitute(dim, values)
    if isinstance(result, int):
        return result
    missing = sorted(names_in(result))
    raise SymbolError(f"{dim} has no value: unbound symbols {', '.join(missing)}")


def _evaluated(dim: Dim, values: Mapping[str, int], known: dict[Expr, int]) -> int:
    """The value of ``dim``, whose symbols have ``values``; ``known`` caches inner expressions."""
    if isinstance(dim, int):
        return dim
    if dim not in known:
        total = 0
        for monomial, coefficient in dim.terms:
            for atom, power in monomial:
                coefficient *= _atom_value(atom, values, known) ** power
            total += coefficient
        known[dim] = total
    return known[dim]


def _atom_value(atom: Atom, values: Mapping[str, int], known: dict[Expr, int]) -> int:
    if isinstance(atom, Symbol):
        return values[atom.name]
    value = FUNCTIONS[atom.name](*(_evaluated(each, values, known) for each in atom.operands))
    assert isinstance(value, int)
    return value
