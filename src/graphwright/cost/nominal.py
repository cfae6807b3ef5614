"""What a size that is not known yet counts as, where costs are weighed at compile time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from graphwright.ir.symbols import Dim, Range, SymbolTable, evaluate, names_in

NOMINAL_SIZES: Final = (64, 256, 1024, 4096, 16384)
"""Guesses: the first of them with which there is something to compute."""


def nominal(dim: Dim, symbols: SymbolTable, guesses: Sequence[int] = NOMINAL_SIZES) -> int:
    """``dim`` with a guess for every size that is not known: the geometric mean of a range, for sizes differ
    by factors; of no range the first of ``guesses`` with which there is something to compute.
    """
    if isinstance(dim, int):
        return max(dim, 0)
    spans = {name: symbols.ranges.get(name, Range()) for name in names_in(dim)}
    for unknown in guesses:
        guess = evaluate(dim, {name: _guess(span, unknown) for name, span in spans.items()})
        if guess > 0:
            return guess
    return 0


def _guess(span: Range, unknown: int) -> int:
    """A size within ``span``; ``unknown`` where that has no end."""
    return max(span.low, unknown) if span.high is None else math.isqrt(max(span.low, 1) * span.high)
