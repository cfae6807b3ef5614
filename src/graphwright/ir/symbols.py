"""Symbolic sizes: the algebra of sizes, and the symbol table of a module."""

from __future__ import annotations

import re

from graphwright.ir.algebra.atoms import Atom, Function, Symbol
from graphwright.ir.algebra.bounds import Range, bounds
from graphwright.ir.algebra.constraints import RELATIONS, Constraint, LowerBounds, Relations
from graphwright.ir.algebra.equalities import follows, reduced_difference
from graphwright.ir.algebra.expressions import (
    MAX_TERMS,
    Dim,
    Expr,
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
    terms_of,
    total,
)
from graphwright.ir.algebra.parse import parse_constraint, parse_dim
from graphwright.ir.algebra.piecewise import always_equal, linear_form, one_together
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
    "linear_form",
    "maximum",
    "minimum",
    "mod",
    "names_in",
    "numbers",
    "one_together",
    "parse_constraint",
    "parse_dim",
    "product",
    "substitute",
    "symbol",
    "terms_of",
    "total",
]


@dataclass
class SymbolTable:
    """The symbols of a module: ranges, divisibility, constraints and guards.

    A size that violates one of ``constraints`` does not fit the model. ``guards`` are assumptions of this
    version of the module: a size that violates one fits the model, which is compiled again for it.
    """

    ranges: dict[str, Range] = field(default_factory=dict)
    multiples: dict[str, int] = field(default_factory=dict)
    constraints: dict[Constraint, None] = field(default_factory=dict)
    guards: dict[Constraint, None] = field(default_factory=dict)
    assumable: frozenset[str] | None = frozenset()
    """Symbols about which inference may make unproved assumptions; None means all."""
    is_general: bool = True
    """Whether the module is the general version: inference leaves open whatever it cannot prove, and makes no
    assumptions.
    """
    undecided: bool = False
    """Whether the last inference left a size or rank open that an assumption would have decided."""
    refused: frozenset[Constraint] = frozenset()
    """Assumptions that inference must not make, because an earlier inference found them in conflict."""
    conflicts: set[Constraint] = field(default_factory=set)
    """Assumptions that contradict each other or a constraint."""
    host_sizes: set[str] = field(default_factory=set)
    """Symbols of sizes that the host finds by running a node: programs must not assume
    anything about them.
    """
    demands_all: bool = False
    """Whether there is no other version of the module for sizes that violate a guard, so that assumptions
    become constraints.
    """
    _constraint_lows: LowerBounds = field(default_factory=LowerBounds, compare=False, repr=False)
    _guard_lows: LowerBounds = field(default_factory=LowerBounds, compare=False, repr=False)

    def assume_nothing(self) -> None:
        """Makes the module general again: drops all assumptions, and makes no new ones."""
        self.guards, self.assumable, self.undecided, self.demands_all = {}, frozenset(), False, False
        self.is_general = True
        self.refused, self.conflicts = frozenset(), set()

    def assume_of(self, names: frozenset[str] | None, refused: frozenset[Constraint] = frozenset()) -> None:
        """Allows inference to make likely assumptions about ``names`` (None: all symbols), except those that
        are ``refused``. About other symbols it adds constraints, or leaves the decision to the host.
        """
        self.assumable, self.is_general = names, False
        self.refused, self.conflicts = refused, set()

    def copy(self) -> SymbolTable:
        """An independent copy."""
        return replace(
            self,
            ranges=dict(self.ranges),
            multiples=dict(self.multiples),
            constraints=dict(self.constraints),
            guards=dict(self.guards),
            host_sizes=set(self.host_sizes),
            conflicts=set(self.conflicts),
            _constraint_lows=LowerBounds(),
            _guard_lows=LowerBounds(),
        )

    def fresh(self, hint: str = "s") -> Expr:
        """A new symbol, with the default range."""
        stem = re.sub(r"[^A-Za-z0-9_]", "_", hint) or "s"
        stem = stem if not stem[0].isdigit() else f"s{stem}"
        name, count = stem, 0
        while name in self.ranges:
            count += 1
            name = f"{stem}_{count}"
        self.ranges[name] = Range()
        return symbol(name)

    def fresh_sizes(self, name: str, rank: int) -> tuple[Expr, ...]:
        """New symbols for the ``rank`` sizes of the value ``name``."""
        return tuple(self.fresh(f"{name}_{axis}") for axis in range(rank))

    def fresh_for_host(self, hint: str) -> Expr:
        """A new symbol, for a size that the host determines."""
        dim = self.fresh(hint)
        self.host_sizes |= names_in(dim)
        return dim

    def range_of(self, dim: Dim) -> Range:
        """Bounds of ``dim``, from the ranges of its symbols, and constraints and guards on them."""
        return bounds(dim, self._symbol_range)

    def _symbol_range(self, name: str) -> Range:
        known = self.ranges.get(name, Range())
        demanded = max(lows.of(given).get(name, 0) for lows, given in self._demanded())
        return Range(demanded, known.high) if demanded > known.low else known

    def _demanded(self) -> tuple[tuple[LowerBounds, Relations], ...]:
        """The lower bounds that constraints and guards require."""
        return (self._constraint_lows, self.constraints), (self._guard_lows, self.guards)

    def proves_equal(self, a: Dim, b: Dim) -> bool:
        """Whether ``a == b`` for all sizes, or as a consequence of required or assumed equalities."""
        if isinstance(a, int) and isinstance(b, int):
            return a == b
        if always_equal(a, b):
            return True
        return bool(equalities := self._equalities()) and follows(a, b, equalities)

    def refutes_equal(self, a: Dim, b: Dim) -> bool:
        """Whether ``a == b`` for no sizes within the ranges."""
        difference = self.range_of(a - b)
        return difference.low > 0 or (difference.high is not None and difference.high < 0)

    def refutes(self, relation: Constraint) -> bool:
        """Whether ``relation`` is an equality that holds for no sizes within the ranges."""
        return relation.relation == "==" and self.refutes_equal(relation.left, relation.right)

    def proves_at_least(self, dim: Dim, bound: int) -> bool:
        """Whether ``dim >= bound`` for all sizes within the ranges."""
        return self.range_of(dim).low >= bound

    def smaller(self, a: Dim, b: Dim) -> Dim:
        """``min(a, b)``: one of them if it is proved to be the smaller one."""
        if self.proves_at_least(b - a, 0):
            return a
        return b if self.proves_at_least(a - b, 0) else minimum(a, b)

    def larger(self, a: Dim, b: Dim) -> Dim:
        """``max(a, b)``: one of them if it is proved to be the larger one."""
        if self.proves_at_least(a - b, 0):
            return a
        return b if self.proves_at_least(b - a, 0) else maximum(a, b)

    def demand(self, relation: str, left: Dim, right: Dim, node: str) -> None:
        """Adds a constraint that could not be proved. It is checked when a plan is made for
        concrete shapes.
        """
        constraint = Constraint(relation, left, right, node)
        if self.guards and constraint not in self.constraints and self._is_contradicted(constraint):
            self.conflicts |= self._guards_about(constraint)
        self.constraints.setdefault(constraint)

    def assume(self, relation: str, left: Dim, right: Dim, node: str) -> bool:
        """Adds a guard if its symbols are assumable and it contradicts no known relation. Returns whether it
        was added.
        """
        guard = Constraint(relation, left, right, node)
        known = self.constraints if self.demands_all else self.guards
        if guard in known:
            return True
        is_assumable = self.assumable is None or guard.names <= self.assumable
        is_refused = guard in self.refused or (relation == "==" and guard.mirrored in self.refused)
        if is_assumable and not is_refused and not self._is_contradicted(guard):
            known[guard] = None
            return True
        if is_assumable and not is_refused and (others := self._guards_about(guard)):
            self.conflicts |= {guard, *others}
        self.undecided = True
        return False

    def _guards_about(self, relation: Constraint) -> set[Constraint]:
        """The guards that share a symbol with ``relation``."""
        return {guard for guard in self.guards if not guard.names.isdisjoint(relation.names)}

    def _is_contradicted(self, relation: Constraint) -> bool:
        """Whether ``relation`` is an equality, and it or a known one is refuted for all sizes for which the
        others hold.
        """
        if relation.relation != "==":
            return False
        known = self._equalities()
        related = (each for each in known if not each.names.isdisjoint(relation.names))
        try:
            differences = [
                reduced_difference(e.left, e.right, (*known, relation)) for e in (relation, *related)
            ]
        except SymbolError:
            return False
        return any(self.refutes_equal(difference, 0) for difference in differences)

    def _equalities(self) -> tuple[Constraint, ...]:
        return tuple(c for c in (*self.constraints, *self.guards) if c.relation == "==")
