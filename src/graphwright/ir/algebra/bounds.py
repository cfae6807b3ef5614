"""Bounds of sizes by interval arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

from graphwright.ir.algebra.atoms import Atom, Function, Monomial, Symbol
from graphwright.ir.algebra.expressions import Dim, Expr, Terms, names_in, of_atom, product, terms_of, total
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
    direct = _interval(terms, known)
    found = _by_remainder(terms)
    if found is None:
        return direct
    without, least, most = found
    rest = _bounds(without, of_symbol, known)
    low = max(direct.low, rest.low + least if rest.low > LOWEST else LOWEST)
    highs = [direct.high, None if rest.high is None else rest.high + most]
    return Range(low, min((high for high in highs if high is not None), default=None))


def _by_remainder(terms: Terms) -> tuple[Dim, int, int] | None:
    """``terms`` with ``k*x - k*(x mod b)`` for a term ``k*b * floordiv(x, b)`` that shares symbols with other
    terms: their sum without the remainder, and the bounds of what the remainder adds. None if there is none.
    """
    for number, (monomial, factor) in enumerate(terms):
        atom, power = monomial[0] if len(monomial) == 1 else (None, 0)
        if not isinstance(atom, Function) or atom.name != "floordiv" or power > 1:
            continue
        dividend, divisor = atom.operands
        if not isinstance(divisor, int) or divisor < 1 or factor % divisor:
            continue
        others = total(Expr((term,)) for term in (*terms[:number], *terms[number + 1 :]))
        if names_in(others).isdisjoint(names_in(dividend)):
            continue
        multiple = factor // divisor
        ends = (0, -multiple * (divisor - 1))
        return others + dividend * multiple, min(ends), max(ends)
    return None


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
    low: int | None = 0
    high: int | None = 0
    for monomial, coefficient in terms:
        factor = _product_range([ranges[atom] for atom, power in monomial for _ in range(power)])
        least = factor.low if factor.low > LOWEST else None
        ends = (least, factor.high) if coefficient > 0 else (factor.high, least)
        low = None if low is None or ends[0] is None else low + coefficient * ends[0]
        high = None if high is None or ends[1] is None else high + coefficient * ends[1]
    return Range(LOWEST if low is None else low, high)


def _product_range(factors: Sequence[Range]) -> Range:
    """The range of a product, without bounds if a factor may be negative."""
    if len(factors) == 1:
        return factors[0]
    if any(factor.low < 0 for factor in factors):
        return Range(LOWEST, None)
    highs = [factor.high for factor in factors if factor.high is not None]
    return Range(prod(factor.low for factor in factors), prod(highs) if len(highs) == len(factors) else None)


def _atom_bounds(atom: Atom, of_symbol: Callable[[str], Range], known: dict[Atom, Range]) -> Range:
    if isinstance(atom, Symbol):
        return of_symbol(atom.name)
    parts = [_bounds(operand, of_symbol, known) for operand in atom.operands]
    lows, highs = [p.low for p in parts], [p.high for p in parts]
    if atom.name == "min":
        return Range(min(lows), min((h for h in highs if h is not None), default=None))
    if atom.name == "max":
        return Range(max(lows), None if None in highs else max(h for h in highs if h is not None))
    dividend, divisor = parts
    if divisor.low < 1:
        return Range(LOWEST, None)
    if atom.name == "mod":
        return Range(0, None if divisor.high is None else divisor.high - 1)
    return Range(_least_quotient(dividend.low, divisor), _greatest_quotient(dividend.high, divisor))


def _least_quotient(low: int, divisor: Range) -> int:
    if low < 0:
        return low // divisor.low if low > LOWEST else LOWEST
    return low // divisor.high if divisor.high is not None else 0


def _greatest_quotient(high: int | None, divisor: Range) -> int | None:
    if high is None or high >= 0:
        return None if high is None else high // divisor.low
    return high // divisor.high if divisor.high is not None else -1
