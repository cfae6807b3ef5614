"""Infers the types of a graph that was read as text: only those of inputs are trusted.

The type that a text states for the output of a node, or for the input of a region, determines how many bytes
are allocated. An untrusted text may state a wrong type, so none is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from graphwright.ir.free_symbols import symbols_in
from graphwright.ir.graph import Graph, Module, Node, Value
from graphwright.ir.inference.infer import compatible
from graphwright.ir.op import Fact
from graphwright.ir.symbols import Constraint, Dim, Range, names_in, substitute, symbol
from graphwright.ir.types import TensorType
from graphwright.passes.base import Record
from graphwright.passes.infer_shapes import ShapeInference
from graphwright.records import dataclass, field


def retype(module: Module) -> None:
    """Gives every value of ``module`` the type that follows from the inputs of its graph and
    the attributes.

    Where a stated size is not proved equal to the inferred one, their equality becomes a constraint. The
    symbol of a data-dependent size keeps its name, but takes the range that inference finds. Raises
    ModelError with all types that cannot be right.
    """
    walk = _Retyping(module, Record("retype"))
    for graph in module.graphs.values():
        walk.defined, walk.names = symbols_in(value.type for value in graph.inputs), {}
        walk.graph(graph, [Fact(value.type) for value in graph.inputs])
    walk.errors.raise_if_any()


@dataclass
class _Retyping(ShapeInference):
    """Shape inference that prefers inferred types to stated ones."""

    defined: set[str] = field(default_factory=set)
    """Symbols that inputs of the graph, or nodes so far, define."""
    names: dict[str, Dim] = field(default_factory=dict)
    """For symbols that inference of the current node created: their names in the text."""
    guards: set[Constraint] = field(default_factory=set)
    location: str = ""
    """The node whose outputs are being inferred."""

    def node(self, node: Node) -> None:
        self.location = node.location
        known = self.known_of(node) if node.regions else set[str]()
        for region in node.regions:
            self.forget_foreign(region, known)
        super().node(node)

    def is_kept(self, constraint: Constraint) -> bool:
        """Whether a region needs this constraint as a node: those that ops assume are found again."""
        return constraint in self.guards

    def forget_foreign(self, region: Graph, known: set[str]) -> None:
        """Forgets the types of region inputs that refer to sizes that are defined elsewhere."""
        for value in region.inputs:
            if symbols_in([value.type]) & (self.defined - known):
                value.type = TensorType(value.type.dtype, None)

    def learn(self, value: Value, fact: Fact, fresh: frozenset[str] = frozenset()) -> None:
        """Gives ``value`` the type of ``fact``, with new symbols renamed as in the stated type."""
        stated, fact = value.type, _renamed(fact, self.names)
        if compatible(stated, fact.type, self.module.symbols):
            pairs = list(zip(stated.shape or (), fact.type.shape or (), strict=False))
            names = self.names_of_new(pairs)
            self.rename(names)
            fact = _renamed(fact, names)
            self.demand_equal((old, substitute(new, names)) for old, new in pairs)
        else:
            message = f"%{value.name} is {stated} in the text, but its node returns {fact.type}"
            self.errors.add("type", message, self.location)
        value.type, self.facts[value] = fact.type, fact
        self.defined |= symbols_in([fact.type])

    def names_of_new(self, pairs: Iterable[tuple[Dim, Dim]]) -> dict[str, Dim]:
        """The names in the text of symbols that inference has just created."""
        names: dict[str, Dim] = {}
        for stated, inferred in pairs:
            new = names_in(inferred) - self.defined - names.keys()
            free = names_in(stated) - self.defined - names_in(*names.values())
            if len(new) == len(free) == 1 and new != free:
                taken = {new.pop(): symbol(free.pop())}
                names |= taken if substitute(inferred, taken) == stated else {}
        return names

    def rename(self, names: Mapping[str, Dim]) -> None:
        """Renames symbols; the new names take over what inference knows of the old ones."""
        table = self.module.symbols
        self.names |= names
        for old, new in names.items():
            table.ranges[str(new)] = table.ranges.get(old, Range())
            table.multiples.pop(str(new), None)
            if old in table.multiples:
                table.multiples[str(new)] = table.multiples[old]
        for constraint in [c for c in table.constraints if not c.names.isdisjoint(names)]:
            left, right = substitute(constraint.left, names), substitute(constraint.right, names)
            table.demand(constraint.relation, left, right, constraint.node)

    def forget_unused(self, fresh: frozenset[str], node: Node) -> None:
        super().forget_unused(fresh, node)
        self.names = {}  # a fresh symbol may get the same old name again

    def demand_equal(self, pairs: Iterable[tuple[Dim, Dim]]) -> None:
        """Adds constraints that stated sizes equal the inferred ones, unless that is proved."""
        table = self.module.symbols
        for stated, inferred in pairs:
            if names_in(stated) <= self.defined and not table.proves_equal(stated, inferred):
                guard = Constraint("==", inferred, stated, self.location)
                self.guards.add(guard)
                table.constraints.setdefault(guard)


def _renamed(fact: Fact, names: Mapping[str, Dim]) -> Fact:
    """``fact`` with symbols renamed."""
    if not names:
        return fact

    def dims(known: tuple[Dim, ...] | None) -> tuple[Dim, ...] | None:
        return None if known is None else tuple(substitute(dim, names) for dim in known)

    def type(known: TensorType) -> TensorType:
        return known if known.is_static else TensorType(known.dtype, dims(known.shape))

    items = None if fact.item_types is None else tuple(map(type, fact.item_types))
    partial = fact.partial_elements and tuple(
        None if dim is None else substitute(dim, names) for dim in fact.partial_elements
    )
    return Fact(type(fact.type), dims(fact.elements), fact.data, items, partial)
