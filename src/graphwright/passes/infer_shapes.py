"""Infers the types of all values from those of the inputs, including regions, and folds operands that
determine shapes into attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from graphwright.errors import Collector, Diagnostic, ModelError
from graphwright.ir.builtin.constant import Constant
from graphwright.ir.builtin.fail import failing_region
from graphwright.ir.builtin.require import Require
from graphwright.ir.free_symbols import symbols_in, symbols_named
from graphwright.ir.graph import Graph, Module, Node, Value
from graphwright.ir.inference.cache import cache_facts, cached_facts, state_of
from graphwright.ir.inference.infer import compatible, constant_fact, infer_node, invalid_types
from graphwright.ir.inference.loop_types import widen_carried_types
from graphwright.ir.op import Fact, InferError, Op, UnknownRank
from graphwright.ir.symbols import Constraint, Dim, Expr, names_in
from graphwright.ir.types import TensorType
from graphwright.passes.base import Known, Pass, Record
from graphwright.passes.failing_branches import refresh_failing
from graphwright.passes.fixed_sizes import apply_substitutions, fixed_size, refined_symbols
from graphwright.records import dataclass, field


@dataclass(frozen=True)
class InferShapes(Pass):
    """Infers every type again, and folds operands with known elements into attributes
    (:meth:`Op.fold_operands`).
    """

    name: str = "infer_shapes"
    ensures: Known = Known.TYPES

    def run(self, module: Module, record: Record) -> bool:
        return infer_module(module, record)


_NONE: frozenset[str] = frozenset()

Visit = Callable[["ShapeInference", Node, Sequence[Fact]], bool]
"""Called with each node and the facts of its outputs; may replace the node. Returns whether it modified
anything.
"""


def infer_module(module: Module, record: Record, visit: Visit | None = None) -> bool:
    """Infers all graphs in order. Returns whether anything was modified. Raises ModelError with every type
    conflict.
    """
    walk = ShapeInference(module, record, visit)
    module.symbols.undecided = False
    for graph in module.graphs.values():
        walk.graph(graph, [Fact(value.type) for value in graph.inputs])
    walk.errors.raise_if_any()
    apply_substitutions(module, walk.substitutions)
    return walk.modified


def known_facts(module: Module) -> Mapping[Value, Fact]:
    """Infers all graphs, and returns the facts of all values, those in regions included."""
    known: dict[Value, Fact] = {}

    def collect(walk: ShapeInference, node: Node, facts: Sequence[Fact]) -> bool:
        for value in (*node.inputs, *node.outputs):
            if value is not None and value in walk.facts:
                known[value] = walk.facts[value]
        return False

    infer_module(module, Record("known_facts"), collect)
    return known


@dataclass
class ShapeInference:
    """One run of inference over a module: the facts of all values seen so far."""

    module: Module
    record: Record
    visit: Visit | None = None
    facts: dict[Value, Fact] = field(default_factory=dict)
    errors: Collector = field(default_factory=lambda: Collector(ModelError))
    modified: bool = False
    substitutions: dict[str, Dim] = field(default_factory=dict)
    """Symbols that have turned out to equal other sizes."""

    def graph(self, graph: Graph, inputs: Sequence[Fact | None]) -> Sequence[Fact]:
        """Infers ``graph`` given facts of its ``inputs``. Returns the facts of its outputs."""
        for value, given in zip(graph.inputs, inputs, strict=False):
            self.learn(value, given or Fact(value.type))
        for node in graph:
            self.node(node)
        self.substitute_fixed(graph)
        return [self.facts.get(value) or Fact(value.type) for value in graph.outputs]

    def substitute_fixed(self, graph: Graph) -> None:
        """Replaces, in the types of ``graph``, sizes of inputs that a constraint or a guard requires to be a
        number by that number.

        Kernels recognize a broadcast axis by its size of 1.
        """
        table = self.module.symbols
        numbers = dict(filter(None, map(fixed_size, (*table.constraints, *table.guards))))
        if not numbers:
            return
        of_inputs = symbols_in(v.type for entry in self.module.graphs.values() for v in entry.inputs)
        numbers = {dim: number for dim, number in numbers.items() if names_in(dim) <= of_inputs}
        for value in (v for node in graph for v in node.outputs):
            shape = value.type.shape
            if shape is None or numbers.keys().isdisjoint(shape):
                continue
            fact = self.fact(value)
            value.type = TensorType(value.type.dtype, tuple(numbers.get(dim, dim) for dim in shape))
            self.facts[value] = fact.with_type(value.type)
            self.modified = True
            self.record.did("types refined")

    def node(self, node: Node) -> None:
        """Infers ``node``, or reuses the facts of an earlier inference from the same operands."""
        if isinstance(node.op, Constant):
            self.learn(node.output, constant_fact(node.op, self.module))
            return
        if isinstance(node.op, Require) and self.discharge(node, node.op):
            return
        found = cached_facts(node, self.facts)
        if found is None:
            self.infer(node)
            return
        for value, fact in zip(node.outputs, found, strict=True):
            self.learn(value, fact)
        self.notify(node)

    def notify(self, node: Node) -> None:
        """Lets the visitor see ``node``, which has been inferred."""
        if self.visit is not None:
            self.modified |= self.visit(self, node, [self.facts[value] for value in node.outputs])

    def infer(self, node: Node) -> None:
        """Infers ``node`` and its regions from the facts of its operands."""
        table = self.module.symbols
        failed: dict[Graph, tuple[Diagnostic, ...]] = {}
        self.modified |= refresh_failing(node)
        try:
            node = self.fold_operands(node)
            found = widen_carried_types(node, self.facts, self.module)
            self.modified |= found is not None
            self.substitutions |= found or {}
            before = state_of(table)
            inferred = infer_node(node, self.facts, self.module, partial(self.region, node, failed))
        except ModelError as error:
            if not failed:
                self.errors.extend(error.diagnostics)
                return
        if failed:
            self.replace_failed(node, failed)
            return
        after = state_of(table)
        fresh = frozenset(list(table.ranges)[before[0] :]) if before != after else _NONE
        for value, fact in zip(node.outputs, inferred, strict=True):
            self.learn(value, fact, fresh)
        self.forget_unused(fresh, node)
        if refresh_failing(node):
            self.modified = True
            self.node(node)
            return
        if before == after:
            cache_facts(node, [None if v is None else self.fact(v) for v in node.inputs], inferred)
        self.notify(node)

    def fact(self, value: Value) -> Fact:
        """The known facts about ``value``."""
        return self.facts.get(value) or Fact(value.type)

    def region(
        self,
        node: Node,
        failed: dict[Graph, tuple[Diagnostic, ...]],
        graph: Graph,
        inputs: Sequence[Fact | None],
    ) -> Sequence[Fact]:
        """Infers a region of ``node``. Errors go to ``failed``; what inference assumes of sizes becomes
        Require nodes at the start of the region.

        Sizes that are only defined inside are exempt: the host runs such nodes, and sees the
        actual sizes.
        """
        table, errors = self.module.symbols, self.errors
        outside = dict(table.constraints)
        known = {n.op.constraint(n.location) for n in graph if isinstance(n.op, Require)}
        table.constraints |= dict.fromkeys(known)
        self.errors = Collector(ModelError)
        outputs = self.graph(graph, inputs)
        if self.errors.diagnostics:
            failed[graph] = tuple(self.errors.diagnostics)
        first = next(iter(graph), None)
        assumed = [c for c in table.constraints if c not in outside and c not in known]
        found = self.sizes_defined_inside(node, graph) if assumed else set()
        for constraint in assumed:
            if not found.isdisjoint(constraint.names) or not self.is_kept(constraint):
                continue
            op = Require(constraint.relation, constraint.left, constraint.right)
            graph.insert(Node(op, (), (), sources=(constraint.node,)), first)
            self.modified = True
        table.constraints, self.errors = outside, errors
        return outputs

    def is_kept(self, constraint: Constraint) -> bool:
        """Whether a region has to check ``constraint``, which inference assumed inside it."""
        return True

    def sizes_defined_inside(self, node: Node, region: Graph) -> set[str]:
        """Data-dependent sizes that a region of ``node`` defines, and sizes that change between iterations of
        a loop.
        """
        given = self.known_of(node)
        found = symbols_in(value.type for value in region.inputs) - given
        for inner in region.walk():
            defined = symbols_in(value.type for value in inner.outputs)
            found |= defined - given - self.known_of(inner) - symbols_named(inner.op) if defined else defined
        return found

    def known_of(self, node: Node) -> set[str]:
        """The symbols in the types and elements of the operands of ``node``."""
        facts = [self.facts.get(v) or Fact(v.type) for v in node.inputs if v is not None]
        return symbols_in(fact.type for fact in facts).union(*(names_in(*(f.elements or ())) for f in facts))

    def discharge(self, node: Node, op: Require) -> bool:
        """Erases a requirement that is proved, or moves one of an entry graph to the symbol table. Returns
        whether it was erased.
        """
        graph, constraint = node.graph, op.constraint(node.location)
        assert graph is not None
        if not isinstance(op.left, Expr) and not isinstance(op.right, Expr):
            if not op.holds(op.left, op.right):
                return False
        elif graph in self.module.graphs.values():
            self.module.symbols.constraints.setdefault(constraint)
        else:
            return False
        graph.erase(node)
        self.modified = True
        return True

    def replace_failed(self, node: Node, failed: dict[Graph, tuple[Diagnostic, ...]]) -> None:
        """Replaces branches that cannot run with these sizes by ones that fail when taken, and infers
        ``node`` again. If no branch can run, that is an error.
        """
        sound = [region for region in node.regions if region not in failed]
        if not sound:
            for diagnostics in failed.values():
                self.errors.extend(diagnostics)
            return
        types = [value.type for value in sound[0].outputs]
        node.regions = tuple(
            failing_region(region, types, failed[region][0]) if region in failed else region
            for region in node.regions
        )
        self.modified = True
        self.record.did("branches that cannot run")
        self.node(node)

    def fold_operands(self, node: Node) -> Node:
        """``node``, or the node that replaces it after :meth:`Op.fold_operands`."""
        if type(node.op).fold_operands is Op.fold_operands:
            return node
        facts = [None if v is None else self.facts.get(v) or Fact(v.type) for v in node.inputs]
        try:
            folded = node.op.fold_operands(*facts)
        except UnknownRank:
            return node
        except InferError as error:
            raise ModelError(invalid_types(error, node.op, node.location)) from error
        if folded is None:
            return node
        op, positions = folded
        if op == node.op and len(positions) == len(node.inputs):
            return node
        graph = node.graph
        assert graph is not None
        types = [value.type for value in node.outputs]
        kept = [node.inputs[position] for position in positions]
        replacement = graph.insert(Node(op, kept, types, node.regions, node.name, node.sources), node)
        for old, new in zip(node.outputs, replacement.outputs, strict=True):
            new.layout, new.device = old.layout, old.device
        graph.replace_node(node, replacement.outputs)
        self.modified = True
        self.record.did("operands folded into attributes")
        return replacement

    def learn(self, value: Value, fact: Fact, fresh: frozenset[str] = frozenset()) -> None:
        """Gives ``value`` the more precise of its type and that of ``fact``, and keeps known elements."""
        known, better = value.type, fact.type
        if better is known or better == known:
            self.facts[value] = fact
            return
        if compatible(known, fact.type, self.module.symbols):
            better = _merged(known, fact.type, fresh, fresh & self.module.symbols.host_sizes)
            self.substitutions |= refined_symbols(known, better)
        if better != known:
            value.type = better
            self.modified = True
            self.record.did("types refined")
        self.facts[value] = fact.with_type(better)

    def forget_unused(self, fresh: frozenset[str], node: Node) -> None:
        """Drops symbols that this inference created but that earlier ones replaced."""
        if not fresh:
            return
        inner = (value for region in node.regions for n in region.walk() for value in n.outputs)
        used = symbols_in(value.type for value in (*node.outputs, *inner))
        table = self.module.symbols
        unused = fresh - used
        for name in unused:
            table.ranges.pop(name, None)
            table.multiples.pop(name, None)
        for constraint in list(table.constraints):
            if not unused.isdisjoint(constraint.names):
                del table.constraints[constraint]


def _merged(
    old: TensorType, new: TensorType, fresh: frozenset[str], host: frozenset[str] = frozenset()
) -> TensorType:
    """The more precise type, dim by dim, of two compatible types."""
    if new.shape is None or old.shape is None:
        return old if new.shape is None else new
    pairs = zip(old.shape, new.shape, strict=True)
    return TensorType(new.dtype, tuple(_better(a, b, fresh, host) for a, b in pairs))


def _better(old: Dim, new: Dim, fresh: frozenset[str], host: frozenset[str]) -> Dim:
    """The preferred one of two equal sizes: a number before an expression, an older symbol before a fresh
    one.

    An assumed number gives way to a size of ``host``, so that the host runs the node.
    """
    if not isinstance(new, Expr) or (isinstance(old, int) and not host.isdisjoint(names_in(new))):
        return new
    if not isinstance(old, Expr) or not fresh.isdisjoint(names_in(new)):
        return old
    return new
