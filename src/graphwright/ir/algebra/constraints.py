"""Required or assumed relations between sizes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import islice
from typing import Final

from graphwright.ir.algebra.atoms import Monomial, Symbol
from graphwright.ir.algebra.expressions import Dim, SymbolError, names_in, terms_of
from graphwright.ir.algebra.substitution import evaluate
from graphwright.records import dataclass, field

RELATIONS: Final[Mapping[str, Callable[[int, int], bool]]] = {
    "==": lambda left, right: left == right,
    "<=": lambda left, right: left <= right,
    "!=": lambda left, right: left != right,
}


@dataclass(frozen=True)
class Constraint:
    """A relation ``left == right``, ``left <= right`` or ``left != right`` that ``node`` requires or assumes,
    and that inference could not prove. It is checked when a plan is made.
    """

    relation: str
    left: Dim
    right: Dim
    node: str = field(compare=False)
    """The first node that needs it."""

    @property
    def names(self) -> set[str]:
        """Names of its symbols."""
        return names_in(self.left, self.right)

    @property
    def mirrored(self) -> Constraint:
        """The same relation between exchanged sides."""
        return Constraint(self.relation, self.right, self.left, self.node)

    def broken_by(self, sizes: Mapping[str, int]) -> str | None:
        """How ``sizes`` violate it; None if they do not, or do not determine both sides."""
        try:
            left, right = evaluate(self.left, sizes), evaluate(self.right, sizes)
        except SymbolError:
            return None
        holds = RELATIONS[self.relation](left, right)
        return None if holds else f"these inputs do not fit the model: {self} fails with {left} and {right}"

    def __str__(self) -> str:
        return f"{self.left} {self.relation} {self.right}"


Relations = Mapping[Constraint, None]
"""Constraints in the order in which they were added."""


class LowerBounds:
    """The lower bounds of symbols that constraints require. Constraints that were added since the last query
    are read once, as inference asks for bounds after each.
    """

    def __init__(self) -> None:
        self._read: Relations = {}
        self._last: Constraint | None = None
        self._count = 0
        self._lows: dict[str, int] = {}

    def of(self, constraints: Relations) -> Mapping[str, int]:
        """The greatest lower bound of each symbol that ``constraints`` bound by themselves."""
        if constraints is not self._read or not self._continues(constraints):
            self._read, self._last, self._count, self._lows = constraints, None, 0, {}
        for constraint in islice(constraints, self._count, None):
            self._last, self._count = constraint, self._count + 1
            found = lower_bound(constraint)
            if found is not None:
                name, low = found
                self._lows[name] = max(low, self._lows.get(name, 0))
        return self._lows

    def _continues(self, constraints: Relations) -> bool:
        """Whether ``constraints`` begin with those that were read: their last one is in its place."""
        return not self._count or next(islice(constraints, self._count - 1, None), None) is self._last


@lru_cache(maxsize=1024)
def lower_bound(constraint: Constraint) -> tuple[str, int] | None:
    """A symbol and its lower bound, if that is all that the constraint requires; else None."""
    required = constraint.right - constraint.left
    if constraint.relation != "<=" or len(names_in(required)) != 1 or not _rises(required):
        return None
    (name,) = names_in(required)

    def value(size: int) -> int:
        return evaluate(required, {name: size})

    enough = 1
    while value(enough) < 0:
        enough *= 2
    return name, bisect_left(range(enough), 0, key=value)


def _rises(dim: Dim) -> bool:
    """Whether ``dim`` is a sum of multiples of symbols, and of quotients of such sums: it has no greatest
    value.
    """
    return all(not monomial or (factor > 0 and _rises_with(monomial)) for monomial, factor in terms_of(dim))


def _rises_with(monomial: Monomial) -> bool:
    ((atom, power), *more) = monomial
    if more or power > 1:
        return False
    if isinstance(atom, Symbol):
        return True
    numerator, divisor = atom.operands[0], atom.operands[-1]
    return atom.name == "floordiv" and isinstance(divisor, int) and divisor > 0 and _rises(numerator)
