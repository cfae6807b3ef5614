"""Nominal values of symbolic sizes, for cost estimates at compile time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

from graphwright.ir.symbols import Dim, Range, SymbolTable, evaluate, names_in

NOMINAL_SIZES: Final = (64, 256, 1024, 4096, 16384)
"""Guesses, tried in order until there is something to compute."""


def nominal(dim: Dim, symbols: SymbolTable, guesses: Sequence[int] = NOMINAL_SIZES) -> int:
    """The value of ``dim`` with a guess for every symbol: the geometric mean of its range, as sizes vary by
    factors; without an upper bound, the first of ``guesses`` for which the result is positive.
    """
    if isinstance(dim, int):
        return max(dim, 0)
    names = names_in(dim)
    for unknown in guesses:
        guess = evaluate(dim, nominal_sizes(names, symbols, unknown))
        if guess > 0:
            return guess
    return 0


def nominal_sizes(names: Iterable[str], symbols: SymbolTable, unknown: int) -> dict[str, int]:
    """A guess for each symbol, as in :func:`nominal`; ``unknown``: for symbols without an upper bound."""
    return {name: _guess(symbols.ranges.get(name, Range()), unknown) for name in names}


def _guess(span: Range, unknown: int) -> int:
    """A size within ``span``; ``unknown`` if it has no upper bound."""
    return max(span.low, unknown) if span.high is None else math.isqrt(max(span.low, 1) * span.high)
