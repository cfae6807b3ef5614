"""Bounds of sizes by interval arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

from graphwright.ir.algebra.atoms import Atom, Monomial, Symbol
from graphwright.ir.algebra.expressions import Dim, Terms, of_atom, product, terms_of, total
from graphwright.records import dataclass

LOWEST = -(2**63)
"""Means no lower bound."""

MAX_EXCESS_TERMS = 256
"""The excess of an atom is its difference from its lower bound. Bounds are tighter if a polynomial is written
in excesses; this is not done if it would have more terms than this.
"""


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
    terms = terms_of(dim)
    for monomial, _ in terms:
        for atom, _ in monomial:
            if atom not in known:
                known[atom] = _atom_bounds(atom, of_symbol, known)
    degree = max((_degree(monomial) for monomial, _ in terms), default=0)
    if degree > 1 and 1 < len(terms) << degree <= MAX_EXCESS_TERMS:
        return _interval(*_over_excesses(terms, known))
    return _interval(terms, known)


def _over_excesses(terms: Terms, ranges: Mapping[Atom, Range]) -> tuple[Terms, Mapping[Atom, Range]]:
    """``terms`` as a polynomial of the excess of each atom over its least value, with the ranges of these.
    Interval arithmetic then finds that ``a*b - a`` is not negative for ``b >= 1``.
    """
    excesses, shifted = dict[Atom, Range](), dict[Atom, Dim]()
    for atom in {atom for monomial, _ in terms for atom, _ in monomial}:
        low, high = ranges[atom].low, ranges[atom].high
        if low == LOWEST:
            excesses[atom], shifted[atom] = ranges[atom], of_atom(atom)
            continue
        excess = Symbol(f"{atom} - {low}")
        excesses[excess] = Range(0, None if high is None else high - low)
        shifted[atom] = of_atom(excess) + low
    parts = [
        product((factor, *(shifted[atom] for atom, power in monomial for _ in range(power))))
        for monomial, factor in terms
    ]
    return terms_of(total(parts)), excesses


def _degree(monomial: Monomial) -> int:
    return sum(power for _, power in monomial)


def _interval(terms: Terms, ranges: Mapping[Atom, Range]) -> Range:
    """The range of the sum of ``terms`` by interval arithmetic."""
    low, high = 0, 0
    unbounded_below = unbounded_above = False
    for monomial, coefficient in terms:
        factors = [ranges[atom] for atom, power in monomial for _ in range(power)]
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
