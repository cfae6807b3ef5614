"""C expressions of type double for the bounds of addresses, simplified as they are built, since most terms
are known not to be negative.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from graphwright.ir.symbols import Atom, Dim, Expr, Symbol

HELPERS = """
static inline __attribute__((unused)) double gw_most(double a, double b) { return a > b || a != a ? a : b; }
static inline __attribute__((unused)) double gw_least(double a, double b) { return a < b || a != a ? a : b; }
static inline __attribute__((unused)) double gw_floor(double a, double b) { return __builtin_floor(a / b); }
"""
"""Functions that the expressions call; they propagate NaN."""


class Double(NamedTuple):
    """A C expression, in parentheses if it has operators."""

    text: str
    at_least_0: bool = False
    """Whether it is known not to be negative (it may be NaN)."""


class Range(NamedTuple):
    """The least and the greatest value of an expression."""

    low: Double
    high: Double


Names = Mapping[str, Double]
"""The C variables of symbols."""

ZERO = Double("0.0", at_least_0=True)
ONE = Double("1.0", at_least_0=True)


def literal(value: int) -> Double:
    return Double(f"{value}.0", at_least_0=True) if value >= 0 else Double(f"({value}.0)")


def plus(*terms: Double) -> Double:
    rest = [term for term in terms if term != ZERO]
    if len(rest) < 2:
        return rest[0] if rest else ZERO
    return Double(f"({' + '.join(t.text for t in rest)})", all(t.at_least_0 for t in rest))


def times(*factors: Double) -> Double:
    if ZERO in factors:
        return ZERO
    rest = [factor for factor in factors if factor != ONE]
    if len(rest) < 2:
        return rest[0] if rest else ONE
    return Double(f"({' * '.join(f.text for f in rest)})", all(f.at_least_0 for f in rest))


def least(a: Double, b: Double) -> Double:
    if a == b or (a == ZERO and b.at_least_0):
        return a
    if b == ZERO and a.at_least_0:
        return b
    return Double(f"gw_least({a.text}, {b.text})", a.at_least_0 and b.at_least_0)


def most(a: Double, b: Double) -> Double:
    if a == b or (b == ZERO and a.at_least_0):
        return a
    if a == ZERO and b.at_least_0:
        return b
    return Double(f"gw_most({a.text}, {b.text})", a.at_least_0 or b.at_least_0)


def scaled(range_: Range, factor: Double) -> Range:
    """The range of a product."""
    low, high = times(range_.low, factor), times(range_.high, factor)
    if factor.at_least_0:
        return Range(low, high)
    return Range(least(low, high), most(low, high))


def number(dim: Dim, names: Names) -> Double:
    """The value of ``dim``."""
    return polynomial(dim, lambda atom: atom_value(atom, names))


def polynomial(dim: Dim, value_of: Callable[[Atom], Double]) -> Double:
    """The value of ``dim``, given the values of its atoms."""
    if not isinstance(dim, Expr):
        return literal(dim)
    terms = (
        times(literal(coefficient), *(value_of(atom) for atom, power in monomial for _ in range(power)))
        for monomial, coefficient in dim.terms
    )
    return plus(*terms)


def atom_value(atom: Atom, names: Names) -> Double:
    """The value of a symbol or of a function of sizes."""
    if isinstance(atom, Symbol):
        return names[atom.name]
    return combined(atom.name, [number(operand, names) for operand in atom.operands])


def combined(function: str, operands: Sequence[Double]) -> Double:
    """The value of floordiv, mod, min or max."""
    first, *rest = (operand.text for operand in operands)
    for operand in rest:
        match function:
            case "min":
                first = f"gw_least({first}, {operand})"
            case "max":
                first = f"gw_most({first}, {operand})"
            case "floordiv":
                first = f"gw_floor({first}, {operand})"
            case _:
                first = f"({first} - {operand} * gw_floor({first}, {operand}))"
    return Double(first, function != "mod" and all(operand.at_least_0 for operand in operands))
