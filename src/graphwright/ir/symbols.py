"""Sizes that are not known yet: the names of the algebra, and what a module knows of its symbols."""

from __future__ import annotations

import re

from graphwright.ir.algebra.bounds import Range, bounds
from graphwright.ir.algebra.constraints import RELATIONS, Constraint, lower_bound
from graphwright.ir.algebra.equalities import follows
from graphwright.ir.algebra.expressions import (
    MAX_TERMS,
    Atom,
    Dim,
    Expr,
    Function,
    Symbol,
    SymbolError,
    atoms,
    ceildiv,
    floordiv,
    maximum,
    minimum,
    mod,
    names_in,
    numbers,
    product,
    symbol,
)
from graphwright.ir.algebra.parse import parse_constraint, parse_dim
from graphwright.ir.algebra.substitution import evaluate, substitute
from graphwright.records import dataclass, field, replace

__all__ = [
    "MAX_TERMS",
    "RELATIONS",
    "Atom",
    "Constraint",
    "Dim",
    "Expr",
    "Function",
    "Range",
    "Symbol",
    "SymbolError",
    "SymbolTable",
    "atoms",
    "ceildiv",
    "evaluate",
    "floordiv",
    "maximum",
    "minimum",
    "mod",
    "names_in",
    "numbers",
    "parse_constraint",
    "parse_dim",
    "product",
    "substitute",
    "symbol",
]


@dataclass
class SymbolTable:
    """What a module knows of its symbols: ranges, divisibility, and the constraints that its shapes rest on.

    ``constraints`` are demands: sizes that break one do not fit the model. ``guards`` are assumptions of this
    form of the module: sizes that break one fit the model, which is compiled again for them.
    """

    ranges: dict[str, Range] = field(default_factory=dict)
    multiples: dict[str, int] = field(default_factory=dict)
    constraints: dict[Constraint, None] = field(default_factory=dict)
    guards: dict[Constraint, None] = field(default_factory=dict)
    assumable: frozenset[str] | None = frozenset()
    """Symbols of which inference may assume what it cannot prove; None is all of them."""
    is_general: bool = True
    """Whether inference only finds what it leaves open: nothing is assumed, demanded or left to the host in
    place of an assumption."""
    undecided: bool = False
    """Whether inference left a size open, or a rank, that an assumption would have decided."""
    host_sizes: set[str] = field(default_factory=set)
    """Symbols of sizes that the host finds by running the node: no program may rest on what is likely."""
    demands_all: bool = False
    """Whether there is no other form of the module for sizes that break a guard, so that what is assumed has
    to be demanded."""

    def assume_nothing(self) -> None:
        """Let the module be general again, for inference to find what it leaves open."""
        self.guards, self.assumable, self.undecided, self.demands_all = {}, frozenset(), False, False
        self.is_general = True

    def assume_of(self, names: frozenset[str] | None) -> None:
        """Let inference assume what is likely of ``names``, or of all symbols; what it may not assume of
        others it demands, or leaves to the host.
        """
        self.assumable, self.is_general = names, False

    def copy(self) -> SymbolTable:
        """A table of its own with the same content."""
        return replace(
            self,
            ranges=dict(self.ranges),
            multiples=dict(self.multiples),
            constraints=dict(self.constraints),
            guards=dict(self.guards),
            host_sizes=set(self.host_sizes),
        )

    def fresh(self, hint: str = "s") -> Expr:
        """A symbol not used before, with the default range."""
        stem = re.sub(r"[^A-Za-z0-9_]", "_", hint) or "s"
        stem = stem if not stem[0].isdigit() else f"s{stem}"
        name, count = stem, 0
        while name in self.ranges:
            count += 1
            name = f"{stem}_{count}"
        self.ranges[name] = Range()
        return symbol(name)

    def fresh_for_host(self, hint: str) -> Expr:
        """A symbol not used before, for a size that the host decides."""
        made = self.fresh(hint)
        self.host_sizes |= names_in(made)
        return made

    def range_of(self, dim: Dim) -> Range:
        """Bounds of ``dim``, from the ranges of symbols and the demands on each."""
        return bounds(dim, self._symbol_range)

    def _symbol_range(self, name: str) -> Range:
        known = self.ranges.get(name, Range())
        lows = filter(None, map(lower_bound, self.constraints)) if self.constraints else ()
        demanded = max((low for bounded, low in lows if bounded == name), default=0)
        return Range(demanded, known.high) if demanded > known.low else known

    def proves_equal(self, a: Dim, b: Dim) -> bool:
        """Whether ``a == b`` for all sizes, or follows from the equalities that are demanded or assumed."""
        if a == b:
            return True
        equalities = [c for c in (*self.constraints, *self.guards) if c.relation == "=="]
        return bool(equalities) and follows(a, b, equalities)

    def refutes_equal(self, a: Dim, b: Dim) -> bool:
        """Whether ``a == b`` for no sizes within the ranges."""
        difference = self.range_of(a - b)
        return difference.low > 0 or (difference.high is not None and difference.high < 0)

    def proves_at_least(self, dim: Dim, bound: int) -> bool:
        """Whether ``dim >= bound`` for all sizes within the ranges."""
        return self.range_of(dim).low >= bound

    def demand(self, relation: str, left: Dim, right: Dim, node: str) -> None:
        """Record a constraint that could not be proved; the plan of each concrete shape checks it."""
        self.constraints.setdefault(Constraint(relation, left, right, node))

    def assume(self, relation: str, left: Dim, right: Dim, node: str) -> bool:
        """Record a guard if its symbols are assumable; whether they are."""
        guard = Constraint(relation, left, right, node)
        if self.assumable is not None and not guard.names <= self.assumable:
            self.undecided = True
            return False
        (self.constraints if self.demands_all else self.guards).setdefault(guard)
        return True
