"""Exact comparisons of expressions of one symbol.

Sums, minima and maxima of multiples of a symbol, a size >= 0, are piecewise linear functions of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache, reduce
from itertools import pairwise
from typing import Final, NamedTuple

from graphwright.ir.algebra.atoms import Atom, Symbol
from graphwright.ir.algebra.expressions import MEMO, Dim, symbol

MOST_PIECES: Final = 64
"""Functions with more pieces are left undecided."""


class _Piece(NamedTuple):
    """``slope * x + offset`` for integers x from ``start`` on, up to the next piece."""

    start: int
    slope: int
    offset: int

    def at(self, x: int) -> int:
        return self.slope * x + self.offset


class _Piecewise(NamedTuple):
    """A function of the symbol ``name``, which is empty for a constant."""

    name: str
    pieces: tuple[_Piece, ...]


def linear_form(dim: Dim) -> Dim:
    """The linear function that ``dim`` equals for all sizes; ``dim`` itself if there is none, or it is not
    found.
    """
    function = _piecewise(dim)
    if function is None or not function.name:
        return dim
    line = function.pieces[-1]._replace(start=0)
    for piece, same, end in _aligned(function, function._replace(pieces=(line,))):
        x = piece.start
        if piece != same and (end != x + 1 or piece.at(x) != line.at(x)):
            return dim
    return symbol(function.name) * line.slope + line.offset


def always_equal(a: Dim, b: Dim) -> bool:
    """Whether ``a == b`` is proved for all sizes."""
    return linear_form(a - b) == 0


def one_together(a: Dim, b: Dim) -> bool:
    """Whether it is proved that ``a`` is 1 for exactly the sizes for which ``b`` is 1."""
    first, second = _piecewise(a), _piecewise(b)
    if first is None or second is None or first.name != second.name:
        return False
    return all(_ones(f, end) == _ones(g, end) for f, g, end in _aligned(first, second))


def _ones(piece: _Piece, end: int | None) -> tuple[int, int | None]:
    """The first and the last x before ``end`` at which ``piece`` is 1; (0, -1) if there is none."""
    if not piece.slope:
        return (piece.start, None if end is None else end - 1) if piece.offset == 1 else (0, -1)
    x, rest = divmod(1 - piece.offset, piece.slope)
    return (x, x) if not rest and piece.start <= x and (end is None or x < end) else (0, -1)


@lru_cache(maxsize=MEMO)
def _piecewise(dim: Dim) -> _Piecewise | None:
    """``dim`` as a function of its only symbol; None if it has several, products, or other functions."""
    if isinstance(dim, int):
        return _Piecewise("", (_Piece(0, 0, dim),))
    if len(dim.names) > 1:
        return None
    total: _Piecewise | None = _Piecewise("", (_Piece(0, 0, 0),))
    for monomial, coefficient in dim.terms:
        factor = _of_atom(monomial[0][0]) if monomial else _Piecewise("", (_Piece(0, 0, 1),))
        if factor is None or total is None or sum(power for _, power in monomial) > 1:
            return None
        scaled = [_Piece(start, coefficient * k, coefficient * c) for start, k, c in factor.pieces]
        total = _combined(total, factor._replace(pieces=tuple(scaled)), _sum)
    return total


def _of_atom(atom: Atom) -> _Piecewise | None:
    if isinstance(atom, Symbol):
        return _Piecewise(atom.name, (_Piece(0, 1, 0),))
    choose = {"min": _least, "max": _greatest}.get(atom.name)
    if choose is None:
        return None
    return reduce(lambda f, g: _combined(f, g, choose), map(_piecewise, atom.operands))


Combine = Callable[[_Piece, _Piece, "int | None"], "list[_Piece]"]
"""The pieces of a combination of two pieces with the same start, up to where both end."""


def _combined(f: _Piecewise | None, g: _Piecewise | None, combine: Combine) -> _Piecewise | None:
    if f is None or g is None:
        return None
    pieces = list[_Piece]()
    for mine, others, end in _aligned(f, g):
        for piece in combine(mine, others, end):
            if not pieces or pieces[-1][1:] != piece[1:]:
                pieces.append(piece)
    return _Piecewise(f.name or g.name, tuple(pieces)) if len(pieces) <= MOST_PIECES else None


def _aligned(f: _Piecewise, g: _Piecewise) -> Iterator[tuple[_Piece, _Piece, int | None]]:
    """The pieces of both functions between all starts, and the next start."""
    starts = sorted({piece.start for function in (f, g) for piece in function.pieces})
    for start, end in pairwise((*starts, None)):
        assert start is not None
        yield _piece_at(f, start), _piece_at(g, start), end


def _piece_at(function: _Piecewise, start: int) -> _Piece:
    piece = next(piece for piece in reversed(function.pieces) if piece.start <= start)
    return piece._replace(start=start)


def _sum(f: _Piece, g: _Piece, end: int | None) -> list[_Piece]:
    return [_Piece(f.start, f.slope + g.slope, f.offset + g.offset)]


def _least(f: _Piece, g: _Piece, end: int | None) -> list[_Piece]:
    if f.slope < g.slope:
        f, g = g, f
    if f.slope == g.slope:
        return [min(f, g)]
    crossing = (g.offset - f.offset) // (f.slope - g.slope) + 1  # the first x with f > g
    if crossing <= f.start:
        return [g]
    return [f] if end is not None and crossing >= end else [f, g._replace(start=crossing)]


def _greatest(f: _Piece, g: _Piece, end: int | None) -> list[_Piece]:
    return [_negated(piece) for piece in _least(_negated(f), _negated(g), end)]


def _negated(piece: _Piece) -> _Piece:
    return _Piece(piece.start, -piece.slope, -piece.offset)
