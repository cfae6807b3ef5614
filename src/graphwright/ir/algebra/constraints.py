"""Required or assumed relations between sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final

from graphwright.ir.algebra.atoms import Symbol
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


@lru_cache(maxsize=1024)
def lower_bound(constraint: Constraint) -> tuple[str, int] | None:
    """A symbol and its lower bound, if that is all that the constraint requires; else None."""
    terms = terms_of(constraint.right - constraint.left)
    (monomial, factor), constant = terms[0] if terms else ((), 0), sum(c for m, c in terms if not m)
    if constraint.relation != "<=" or factor < 1 or len(monomial) != 1 or len(terms) > 1 + bool(constant):
        return None
    ((atom, power),) = monomial
    return (atom.name, -(constant // factor)) if isinstance(atom, Symbol) and power == 1 else None
