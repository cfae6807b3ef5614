"""Bounds of sizes by interval arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from graphwright.ir.algebra.atoms import Atom, Symbol
from graphwright.ir.algebra.expressions import Dim, terms_of
from graphwright.records import dataclass

LOWEST = -(2**63)
"""Means no lower bound."""


@dataclass(frozen=True)
class Range:
    """Integers from ``low`` to ``high``, both included; ``high`` None is unbounded."""

    low: int = 0
    high: int | None = None


def bounds(dim: Dim, of_symbol: Callable[[str], Range]) -> Range:
    """The range of ``dim``, given the ranges of its symbols."""
    return _bounds(dim, of_symbol, {})


def _bounds(dim: Dim, of_symbol: Callable[[str], Range], known: dict[Atom, Range]) -> Range:
    """``bounds``, which adds the ranges of atoms to ``known``: sizes of deep models repeat their parts."""
    low, high = 0, 0
    unbounded_below = unbounded_above = False
    for monomial, coefficient in terms_of(dim):
        for atom, _ in monomial:
            if atom not in known:
                known[atom] = _atom_bounds(atom, of_symbol, known)
        factors = [known[atom] for atom, power in monomial for _ in range(power)]
        if any(b.low < 0 for b in factors):
            unbounded_below = unbounded_above = True
            continue
        bottom = prod(b.low for b in factors)
        top = None if any(b.high is None for b in factors) else prod(b.high or 0 for b in factors)
        if coefficient > 0:
            low += coefficient * bottom
            unbounded_above |= top is None
            high += coefficient * (top or 0)
        else:
            high += coefficient * bottom
            unbounded_below |= top is None
            low += coefficient * (top or 0)
    return Range(LOWEST if unbounded_below else low, None if unbounded_above else high)


def _atom_bounds(atom: Atom, of_symbol: Callable[[str], Range], known: dict[Atom, Range]) -> Range:
    if isinstance(atom, Symbol):
        return of_symbol(atom.name)
    parts = [_bounds(operand, of_symbol, known) for operand in atom.operands]
    lows, highs = [p.low for p in parts], [p.high for p in parts]
    if atom.name == "min":
        return Range(min(lows), min((h for h in highs if h is not None), default=None))
    if atom.name == "max":
        return Range(max(lows), None if None in highs else max(h for h in highs if h is not None))
    divisor = atom.operands[1]
    if not isinstance(divisor, int) or divisor <= 0:
        return Range(LOWEST, None)
    if atom.name == "mod":
        return Range(0, divisor - 1)
    return Range(lows[0] // divisor, None if highs[0] is None else highs[0] // divisor)
