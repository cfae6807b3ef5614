"""Consequences of equalities of sizes: equality is transitive, and closed under linear combinations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from math import gcd

from graphwright.ir.algebra.atoms import Monomial, Symbol
from graphwright.ir.algebra.constraints import Constraint
from graphwright.ir.algebra.expressions import Dim, Expr, SymbolError, floordiv, names_in, terms_of
from graphwright.ir.algebra.substitution import substitute
from graphwright.records import dataclass


def follows(a: Dim, b: Dim, equalities: Iterable[Constraint]) -> bool:
    """Whether ``a == b`` follows from ``equalities``: by a chain of them, or by Gaussian elimination over the
    integers.

    Expressions that cannot be formed (a division by 0, too many terms) prove nothing.
    """
    given = tuple(equalities)
    classes = _classes(given)
    if a in classes and b in classes[a]:
        return True
    try:
        return reduced_difference(a, b, given) == 0
    except SymbolError:
        return False


def reduced_difference(a: Dim, b: Dim, equalities: tuple[Constraint, ...]) -> Dim:
    """A multiple of ``a - b``, reduced by ``equalities``.

    An equality that can be solved for a symbol substitutes it everywhere, also inside functions. Each other
    equality eliminates one monomial. Raises SymbolError for expressions that cannot be formed.
    """
    return _eliminated(equalities).reduced(a - b)


@lru_cache(maxsize=64)
def _classes(equalities: tuple[Constraint, ...]) -> Mapping[Dim, set[Dim]]:
    """For each side of an equality, the sides that a chain of equalities connects with it."""
    classes: dict[Dim, set[Dim]] = {}
    for each in equalities:
        joined = classes.get(each.left, {each.left}) | classes.get(each.right, {each.right})
        classes |= dict.fromkeys(joined, joined)
    return classes


@dataclass(frozen=True)
class _Eliminated:
    """Solved symbols, and further expressions that equal 0, each with the monomial that it
    eliminates.

    No expression contains a solved symbol, or the monomial of an earlier one.
    """

    solved: Mapping[str, Dim]
    zeros: Sequence[tuple[Monomial, Dim]]

    def reduced(self, dim: Dim) -> Dim:
        """A multiple of ``dim``, reduced by the equalities."""
        return _without(substitute(dim, self.solved), self.zeros)


@lru_cache(maxsize=64)
def _eliminated(equalities: tuple[Constraint, ...]) -> _Eliminated:
    solved: dict[str, Dim] = {}
    mentions = defaultdict[str, set[str]](set)  # the solved symbols whose values mention a symbol
    pending: list[Dim] = [each.left - each.right for each in equalities]
    found = True
    while found:  # solving one equality can make another one solvable
        found, waiting = False, pending
        pending = []
        for each in waiting:
            difference = substitute(each, solved)
            name, value = _solved(difference)
            if name is None:
                pending.append(difference)
                continue
            found = True
            changed = {known: substitute(solved[known], {name: value}) for known in mentions.pop(name, ())}
            solved |= changed | {name: value}
            for known in (*changed, name):
                for mentioned in names_in(solved[known]):
                    mentions[mentioned].add(known)
    zeros: list[tuple[Monomial, Dim]] = []
    for each in pending:
        rest = _without(substitute(each, solved), zeros)
        if isinstance(rest, Expr):
            zeros.append((rest.terms[0][0], rest))
    return _Eliminated(solved, zeros)


def _without(dim: Dim, zeros: Sequence[tuple[Monomial, Dim]]) -> Dim:
    """A multiple of ``dim`` with the monomials of ``zeros`` eliminated."""
    for monomial, zero in zeros:
        have = _factor(dim, monomial)
        if have:
            dim = dim * _factor(zero, monomial) - zero * have
    return dim


def _factor(dim: Dim, monomial: Monomial) -> int:
    return next((factor for each, factor in terms_of(dim) if each == monomial), 0)


def _solved(difference: Dim) -> tuple[str | None, Dim]:
    """A symbol and its value if ``difference`` is 0; None if it cannot be solved for a symbol."""
    common = gcd(*(factor for _, factor in terms_of(difference)))
    difference = floordiv(difference, common or 1)
    for monomial, coefficient in reversed(terms_of(difference)):
        if abs(coefficient) != 1 or len(monomial) != 1 or monomial[0][1] != 1:
            continue
        atom = monomial[0][0]
        rest = difference - Expr(((monomial, coefficient),))
        if isinstance(atom, Symbol) and atom.name not in names_in(rest):
            return atom.name, rest * -coefficient
    return None, 0
