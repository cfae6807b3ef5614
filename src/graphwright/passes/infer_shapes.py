"""Types of all values from those of the inputs, with regions; operands that steer shapes move into ops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from graphwright.errors import Collector, Diagnostic, ModelError
from graphwright.ir.graph import Graph, Module, Node, Value
from graphwright.ir.infer import compatible, infer_node
from graphwright.ir.op import Fact, InferError, UnknownRank
from graphwright.ir.symbols import Dim, Expr, atoms
from graphwright.ir.types import TensorType
from graphwright.passes.base import Known, Pass, Record


@dataclass(frozen=True)
class InferShapes(Pass):
    """Re-infers every type and absorbs operands whose elements are known (:meth:`Op.absorb`)."""

    name: str = "infer_shapes"
    ensures: Known = Known.TYPES

    def run(self, module: Module, record: Record) -> bool:
        return infer_module(module, record)


Visit = Callable[["Walk", Node, Sequence[Fact]], bool]
"""Called with each node and the facts of its outputs; may replace the node. Whether it modified anything."""


def infer_module(module: Module, record: Record, visit: Visit | None = None) -> bool:
    """Walk all graphs in order; whether anything was modified. A ModelError lists every conflict of types."""
    walk = Walk(module, record, visit)
    for graph in module.graphs.values():
        walk.graph(graph, [Fact(value.type) for value in graph.inputs])
    walk.errors.raise_if_any()
    return walk.modified


@dataclass
class Walk:
    """One inference over a module: facts of all values seen so far."""

    module: Module
    record: Record
    visit: Visit | None = None
    facts: dict[Value, Fact] = field(default_factory=dict)
    errors: Collector = field(default_factory=lambda: Collector(ModelError))
    modified: bool = False

    def graph(self, graph: Graph, inputs: Sequence[Fact | None]) -> Sequence[Fact]:
        """Infer ``graph`` given ``inputs``; facts of its outputs."""
        for value, given in zip(graph.inputs, inputs, strict=False):
            self.learn(value, given or Fact(value.type))
        for node in graph:
            self.node(node)
        return [self.facts.get(value) or Fact(value.type) for value in graph.outputs]

    def node(self, node: Node) -> None:
        table = self.module.symbols
        symbols_before = len(table.ranges)
        try:
            node = self.absorb(node)
            inferred = infer_node(node, self.facts, self.module, self.graph)
        except ModelError as error:
            self.errors.extend(error.diagnostics)
            return
        fresh = frozenset(list(table.ranges)[symbols_before:])
        for value, fact in zip(node.outputs, inferred, strict=True):
            self.learn(value, fact, fresh)
        self.forget_unused(fresh, node)
        if self.visit is not None:
            self.modified |= self.visit(self, node, [self.facts[value] for value in node.outputs])

    def absorb(self, node: Node) -> Node:
        """``node``, or the one that stands in its place after :meth:`Op.absorb`."""
        facts = [None if v is None else self.facts.get(v) or Fact(v.type) for v in node.inputs]
        try:
            moved = node.op.absorb(*facts)
        except UnknownRank:
            return node
        except InferError as error:
            raise ModelError(Diagnostic("type", f"{node.op.name}: {error}", node.place)) from error
        if moved is None:
            return node
        op, positions = moved
        if op == node.op and len(positions) == len(node.inputs):
            return node
        graph = node.graph
        assert graph is not None
        types = [value.type for value in node.outputs]
        kept = [node.inputs[position] for position in positions]
        made = graph.insert(Node(op, kept, types, node.regions, node.name, node.sources), node)
        for old, new in zip(node.outputs, made.outputs, strict=True):
            new.layout, new.device = old.layout, old.device
        graph.replace_node(node, made.outputs)
        self.modified = True
        self.record.did("operands absorbed")
        return made

    def learn(self, value: Value, fact: Fact, fresh: frozenset[str] = frozenset()) -> None:
        """Give ``value`` the better of its type and that of ``fact``; keep the elements."""
        known = value.type
        better = (
            _merged(known, fact.type, fresh)
            if compatible(known, fact.type, self.module.symbols)
            else fact.type
        )
        if better != known:
            value.type = better
            self.modified = True
            self.record.did("types refined")
        self.facts[value] = Fact(better, fact.elements, fact.data)

    def forget_unused(self, fresh: frozenset[str], node: Node) -> None:
        """Drop symbols that this inference made anew where an earlier one's are kept."""
        if not fresh:
            return
        inner = (value for region in node.regions for n in region.walk() for value in n.outputs)
        used = {a.name for v in (*node.outputs, *inner) for dim in v.type.shape or () for a in atoms(dim)}
        table = self.module.symbols
        unused = fresh - used
        for name in unused:
            table.ranges.pop(name, None)
            table.multiples.pop(name, None)
        for constraint in list(table.constraints):
            if unused & {a.name for a in (*atoms(constraint.left), *atoms(constraint.right))}:
                del table.constraints[constraint]


def _merged(old: TensorType, new: TensorType, fresh: frozenset[str]) -> TensorType:
    """The better known of two compatible types."""
    if new.shape is None or old.shape is None:
        return old if new.shape is None else new
    return TensorType(
        new.dtype, tuple(_better(a, b, fresh) for a, b in zip(old.shape, new.shape, strict=True))
    )


def _better(old: Dim, new: Dim, fresh: frozenset[str]) -> Dim:
    """Numbers before expressions, and a symbol made earlier before one made just now."""
    if not isinstance(new, Expr):
        return new
    if not isinstance(old, Expr) or any(atom.name in fresh for atom in atoms(new)):
        return old
    return new
