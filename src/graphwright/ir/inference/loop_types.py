"""Infers types of loop-carried values that are valid in every iteration.

The types of the body are inferred repeatedly, each time from the join of the previous input and output types,
up to a least fixpoint (Kildall, 1973).

A size that changes between iterations becomes a new symbol, and a rank that changes becomes unknown
(widening), so the iteration terminates: a body with n sizes needs at most n + 1 rounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from graphwright.errors import Diagnostic, ModelError
from graphwright.ir.clone import with_own_symbols
from graphwright.ir.free_symbols import symbols_in
from graphwright.ir.graph import Graph, Module, Node, Value
from graphwright.ir.inference.infer import infer_node, infer_outputs, input_facts
from graphwright.ir.op import Fact
from graphwright.ir.op.region_op import LoopOp
from graphwright.ir.symbols import Dim, Expr, SymbolTable, names_in
from graphwright.ir.types import DType, TensorType
from graphwright.records import dataclass

MAX_ROUNDS = 64
"""Rounds within which the types of one loop must reach a fixpoint."""
MAX_NODES = 500_000
"""Limit on inferred nodes: nested loops multiply them."""

Facts = dict[Value, Fact]


class DtypesDiffer(Exception):
    """Two dtypes have no common type."""


def widened(symbols: SymbolTable, start: TensorType, received: TensorType, given: TensorType) -> TensorType:
    """``received`` widened to include ``given``: sizes that change become new symbols, ranks that change
    become unknown. ``start`` is the type in the first iteration.

    A type also joins with the optional of it. Raises DtypesDiffer.
    """
    dtype = joined_dtype(received.dtype, given.dtype)
    if start.shape is None or received.shape is None or given.shape is None:
        return TensorType(dtype, None)
    if not len(start.shape) == len(received.shape) == len(given.shape):
        return TensorType(dtype, None)
    dims = (
        own if own != first or symbols.proves_equal(own, new) else symbols.fresh("loop")
        for first, own, new in zip(start.shape, received.shape, given.shape, strict=True)
    )
    return TensorType(dtype, tuple(dims))


def joined_dtype(a: DType, b: DType) -> DType:
    """The common dtype; see :func:`widened`."""
    if a == b or (a.kind == "optional" and a.element == b):
        return a
    if b.kind == "optional" and b.element == a:
        return b
    raise DtypesDiffer(f"is {a}, but {b} after an iteration")


def widen_carried_types(node: Node, facts: Facts, module: Module) -> dict[str, Dim] | None:
    """Gives loop-carried inputs of the region of a loop types that hold in every iteration. Returns the sizes
    that symbols of the former types have turned out to be, None if no type changed.

    ``facts``: what is known where ``node`` is. Symbols that region inputs already have for changing sizes are
    kept. Raises ModelError if types conflict or reach no fixpoint.
    """
    if not isinstance(node.op, LoopOp):
        return None
    where = node.op.loop_carried()
    region = node.regions[0]
    inputs = input_facts(node, facts)
    received = region.inputs[where.received]
    if len(received) < where.count or len(inputs) < where.start + where.count:
        return None  # inference reports it
    types, _ = _Trial(with_own_symbols(module)).loop_carried(node, node.op, inputs)
    outer = symbols_in(fact.type for fact in inputs if fact is not None)
    changed: dict[Value, TensorType] = {}
    for value, start, type in zip(received, inputs[where.start :], types, strict=False):
        assert start is not None  # the trial inference verified it
        wanted = _with_symbols(type, start.type, value.type, module.symbols, outer)
        if wanted != value.type:
            changed[value] = wanted
    found = [_found_sizes(value.type, wanted, outer) for value, wanted in changed.items()]
    for value, wanted in changed.items():
        value.type = wanted
    if None in found:
        _forget(region)
    return {name: dim for sizes in found if sizes for name, dim in sizes.items()} if changed else None


def _found_sizes(known: TensorType, wanted: TensorType, outer: set[str]) -> dict[str, Dim] | None:
    """The symbols of the loop in ``known`` that are other sizes in ``wanted``, with these sizes; None if the
    types differ in other ways.
    """
    if known.shape is None or wanted.shape is None or len(known.shape) != len(wanted.shape):
        return None
    sizes = {str(old): new for old, new in zip(known.shape, wanted.shape, strict=True) if old != new}
    return sizes if all(map(str.isidentifier, sizes)) and outer.isdisjoint(sizes) else None


def _with_symbols(
    type: TensorType, start: TensorType, known: TensorType, table: SymbolTable, outer: set[str]
) -> TensorType:
    """``type`` with the symbols of ``known``, or new ones, for sizes that differ from those of ``start``."""
    if type.shape is None:
        return type
    before = known.shape if known.shape is not None and len(known.shape) == len(type.shape) else None
    dims: list[Dim] = []
    for axis, (dim, first) in enumerate(zip(type.shape, start.dims, strict=True)):
        own = before[axis] if before is not None else None
        if dim == first:
            dims.append(dim)
        elif isinstance(own, Expr) and str(own).isidentifier() and outer.isdisjoint(names_in(own)):
            dims.append(own)
        else:
            dims.append(table.fresh("loop"))
    return TensorType(type.dtype, tuple(dims))


def _forget(region: Graph) -> None:
    """Drops types that were inferred from other input types; inference finds them again."""
    for node in region.walk():
        for value in node.outputs if node.inputs else ():
            value.type = TensorType(value.type.dtype, None)


@dataclass
class _Trial:
    """Trial inference of loop bodies, which changes no types."""

    module: Module
    nodes: int = 0

    def loop_carried(
        self, node: Node, op: LoopOp, inputs: Sequence[Fact | None]
    ) -> tuple[list[TensorType], list[Fact]]:
        """Types of the carried values that hold in every iteration, and the facts that the body returns for
        them.

        Returning the facts avoids another inference of the body, which would multiply with each enclosing
        loop.
        """
        where = op.loop_carried()
        starts = inputs[where.starts]
        types = [self._start(node, k, fact) for k, fact in enumerate(starts)]
        for _ in range(MAX_ROUNDS):
            results = self.region(node.regions[0], _received(op, inputs, types))
            given = results[where.results]
            wider = list(self._widened(node, starts, types, given))
            if wider == types:
                return types, results
            types = wider
        raise _no_fixpoint(node, f"still change after {MAX_ROUNDS} iterations")

    def _start(self, node: Node, index: int, fact: Fact | None) -> TensorType:
        if fact is None:
            message = f"{node.op.name}: loop-carried value {index} has no initial value"
            raise ModelError(Diagnostic("type", message, node.location))
        return fact.type

    def _widened(
        self,
        node: Node,
        starts: Sequence[Fact | None],
        types: Sequence[TensorType],
        given: Sequence[Fact],
    ) -> Iterator[TensorType]:
        for index, (start, type, fact) in enumerate(zip(starts, types, given, strict=True)):
            assert start is not None  # its type is known
            try:
                yield widened(self.module.symbols, start.type, type, fact.type)
            except DtypesDiffer as error:
                message = f"{node.op.name}: loop-carried value {index} {error}"
                raise ModelError(Diagnostic("type", message, node.location)) from None

    def region(self, graph: Graph, inputs: Sequence[Fact | None]) -> list[Fact]:
        """Facts of the outputs of ``graph``."""
        facts = {value: fact for value, fact in zip(graph.inputs, inputs, strict=False) if fact is not None}
        for node in graph:
            self.nodes += 1
            if self.nodes > MAX_NODES:
                raise _no_fixpoint(node, f"are not known after {MAX_NODES} steps")
            facts.update(zip(node.outputs, self.node(node, facts), strict=True))
        return [facts.get(value) or Fact(value.type) for value in graph.outputs]

    def node(self, node: Node, facts: Facts) -> Sequence[Fact]:
        op = node.op
        if not isinstance(op, LoopOp):
            branches = _Branches(self)
            return infer_node(
                node, facts, self.module, branches.region if len(node.regions) > 1 else self.region
            )
        inputs = input_facts(node, facts)
        types, results = self.loop_carried(node, op, inputs)
        received = _received(op, inputs, types)
        known = [value.type for value in node.outputs]
        inside = [fact or Fact(v.type) for fact, v in zip(received, node.regions[0].inputs, strict=False)]
        return infer_outputs(op, inputs, self.module.symbols, node.location, known, [results], [inside])


def _received(op: LoopOp, inputs: Sequence[Fact | None], types: Sequence[TensorType]) -> list[Fact | None]:
    """The facts of the region inputs if the loop-carried values have ``types``."""
    where, received = op.loop_carried(), list(op.region_inputs(0, inputs))
    received[where.received] = map(Fact, types)
    return received


@dataclass
class _Branches:
    """Regions of a node, some of which may be invalid for these sizes: those get the facts of a valid one."""

    trial: _Trial
    last: list[Fact] | None = None

    def region(self, graph: Graph, inputs: Sequence[Fact | None]) -> list[Fact]:
        try:
            self.last = self.trial.region(graph, inputs)
        except ModelError:
            if self.last is None:
                return [Fact(TensorType(value.type.dtype, None)) for value in graph.outputs]
        return self.last or []


def _no_fixpoint(node: Node, what: str) -> ModelError:
    message = f"{node.op.name}: the shapes of its loop-carried values {what}"
    hint = "keep the shapes constant between iterations, or give the inputs fixed sizes"
    return ModelError(Diagnostic("loop-shapes", message, node.location, hint))
