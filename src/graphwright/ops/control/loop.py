"""Loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Graph, Node, Value
from graphwright.ir.inference.loop_types import MAX_ROUNDS, DtypesDiffer, joined_dtype, widened
from graphwright.ir.interfaces.padding import Padded, PaddingRule
from graphwright.ir.op import (
    Array,
    Fact,
    Importer,
    Inference,
    InferError,
    OnnxImporter,
    Op,
    is_known,
    op,
)
from graphwright.ir.op.exporter import Exporter
from graphwright.ir.op.region_op import LoopCarried, LoopOp, RunRegion
from graphwright.ir.symbols import Dim, Expr, atoms
from graphwright.ir.types import BOOL, I64, TensorType
from graphwright.ops.core.identity import Identity
from graphwright.ops.core.reshape import Reshape
from graphwright.ops.core.shaping import not_negative
from graphwright.records import replace

UNLIMITED = 2**62
"""A trip count of at least this number means none: exporters write the largest integer."""
MAX_TRIPS = 2**63 - 1
"""The trip count of a loop without one."""
ITERATION = TensorType(I64, ())
CONDITION = TensorType(BOOL, ())


@op("Loop")
class Loop(PaddingRule, LoopOp):
    """Repeats its region while a condition is true, at most as often as a trip count says (ONNX: Loop and
    Scan).

    - Operands: the trip count, if ``counted``; the condition, a bool scalar, if ``conditional``; the initial
      values of ``carries`` loop-carried values; captured values. The trip count is an i64 scalar, or the
      length of an i64 vector. A static count is the attribute ``trips``.
    - Region inputs: the index of the iteration, the loop-carried values, the captured values.
    - Region outputs: the condition of the next iteration, if ``conditional``; the loop-carried values;
      ``scans`` scan outputs.
    - Results: the final loop-carried values; the scan outputs of all iterations, stacked along a new axis 0.
    """

    carries: int
    scans: int = 0
    counted: bool = False
    conditional: bool = False
    trips: Dim | None = None

    def verify(self) -> None:
        if self.counted and self.trips is not None:
            raise InferError("it has two trip counts: an operand and the attribute trips")
        if not self.counted and not self.conditional and self.trips is None:
            raise InferError("it has neither a trip count nor a condition, and would never end")

    def output_count(self) -> int:
        return self.carries + self.scans

    def loop_carried(self) -> LoopCarried:
        return LoopCarried(self.carries, self.counted + self.conditional, 1, int(self.conditional))

    def captured_operands(self, inputs: int) -> int:
        return inputs - self.counted - self.conditional - self.carries

    def region_inputs(self, region: int, inputs: Sequence[Fact | None]) -> Sequence[Fact | None]:
        if self.captured_operands(len(inputs)) < 0:
            raise InferError(f"{len(inputs)} operands are too few for {self.carries} loop-carried values")
        last = inputs[len(inputs) - self.captured_operands(len(inputs)) :]
        return (Fact(ITERATION), *(None,) * self.carries, *last)

    def fold_operands(self, *facts: Fact | None) -> tuple[Op, tuple[int, ...]] | None:
        """A trip count that is known, or is an expression of sizes, becomes ``trips``."""
        trips = self.trips_of(facts) if self.counted else None
        if trips is None or (_is_vector(facts[0]) and not isinstance(trips, int)):
            return None
        if self.conditional and isinstance(trips, int) and trips >= UNLIMITED:
            trips = None
        return replace(self, counted=False, trips=trips), tuple(range(1, len(facts)))

    def never_runs(self, *facts: Fact | None) -> bool:
        """Whether the facts of the operands exclude a first iteration."""
        trips = self.trips_of(facts)
        if isinstance(trips, int) and trips <= 0:
            return True
        start = facts[self.counted] if self.conditional else None
        return start is not None and is_known(start.elements) and start.elements == (0,)

    def trips_of(self, facts: Sequence[Fact | None]) -> Dim | None:
        """The trip count, if it is known or is an expression of sizes; None otherwise."""
        if not self.counted or facts[0] is None:
            return self.trips
        if _is_vector(facts[0]):
            return facts[0].shape[0]
        known = facts[0].elements
        return known[0] if known is not None and len(known) == 1 else None

    def infer_regions(self, at: Inference, outputs: Sequence[Sequence[Fact]]) -> tuple[Fact, ...]:
        """Sizes that change between iterations become new symbols; so does the length of scan outputs if
        there is a condition.
        """
        if len(outputs) != 1:
            raise at.fail(f"it has {len(outputs)} regions; it must have one")
        results, where = list(outputs[0]), self.loop_carried()
        if len(results) != where.result + self.output_count():
            needed = where.result + self.output_count()
            raise at.fail(f"its region has {len(results)} outputs; it must have {needed}")
        self._check_scalars(at, results)
        starts = at.inputs[where.start : where.start + self.carries]
        received = at.received[0][where.receive : where.receive + self.carries]
        given = results[where.result : where.result + self.carries]
        carried = [
            self._final(at, k, *facts) for k, facts in enumerate(zip(starts, received, given, strict=True))
        ]
        trips = None if self.conditional or not self.scans else self.trips_of(at.inputs)
        count = at.symbols.fresh("runs") if trips is None and self.scans else trips
        scanned = [self._stacked(at, fact, count or 0) for fact in results[where.result + self.carries :]]
        return (*carried, *scanned)

    def _check_scalars(self, at: Inference, results: Sequence[Fact]) -> None:
        given = [(at.inputs[0], ITERATION, "trip count")] if self.counted else []
        if self.conditional:
            given += [(at.inputs[self.counted], CONDITION, "condition"), (results[0], CONDITION, "result 0")]
        for fact, wanted, what in given:
            if _is_vector(fact) and wanted is ITERATION:
                continue
            if fact is None or fact.dtype != wanted.dtype or fact.type.shape not in ((), None):
                raise at.fail(f"its {what} is {fact and fact.type}; it must be {wanted}")

    def _final(self, at: Inference, index: int, start: Fact | None, inside: Fact, given: Fact) -> Fact:
        """The fact of a loop-carried value after the last iteration."""
        if start is None:
            raise at.fail(f"loop-carried value {index} has no initial value")
        try:
            dtype = joined_dtype(joined_dtype(inside.dtype, start.dtype), given.dtype)
        except DtypesDiffer as error:
            raise at.fail(f"loop-carried value {index} {error}") from None
        shapes = (start.type.shape, inside.type.shape, given.type.shape)
        if shapes[1] is None:
            return Fact(TensorType(dtype, None))
        if any(shape is None or len(shape) != len(shapes[1]) for shape in shapes):
            raise at.fail(
                f"loop-carried value {index} is {inside.type} inside, but {given.type} after an iteration"
            )
        dims = zip(start.shape, inside.shape, given.shape, strict=True)
        return Fact(TensorType(dtype, tuple(_outside(at, *sizes) for sizes in dims)))

    def _stacked(self, at: Inference, result: Fact, trips: Dim) -> Fact:
        """The fact of a scan output of all iterations."""
        if result.type.shape is None:
            return Fact(TensorType(result.dtype, None))
        known = {a for fact in at.inputs if fact is not None for a in _symbols(fact)}
        sizes = (d if known.issuperset(atoms(d)) else at.symbols.fresh("scan") for d in result.type.shape)
        return Fact(TensorType(result.dtype, (not_negative(at.symbols, trips), *sizes)))

    def padding_leak(self, node: Node, padded: Padded) -> str:
        """Padding does not leak through a loop-carried value whose type is the same in all iterations."""
        where, body = self.loop_carried(), node.regions[0]
        if padded.decides(self) or any(map(padded.axes, node.inputs[: where.start])):
            return "its number of iterations depends on padded sizes"
        for k in range(self.carries):
            start, inside = node.operand(where.start + k), body.inputs[where.receive + k]
            if padded.axes(start) and not start.type == inside.type == body.outputs[where.result + k].type:
                return "a padded value changes its size between iterations"
        return ""

    def repeat(
        self, run: RunRegion, arrays: Sequence[Array | None], types: Sequence[TensorType]
    ) -> tuple[Array, ...]:
        where = self.loop_carried()
        most, condition = self.limits(arrays)
        carried = list(arrays[where.start : where.start + self.carries])
        shared = arrays[where.start + self.carries :]
        rows: list[tuple[Array, ...]] = []
        while condition and len(rows) < most:
            results = run(0, (np.array(len(rows), np.int64), *carried, *shared))
            condition = bool(results[0]) if self.conditional else True
            carried = list(results[where.result : where.result + self.carries])
            rows.append(results[where.result + self.carries :])
        scanned = [np.stack(of_all) for of_all in zip(*rows, strict=True)] if rows else self.no_rows(types)
        return (*carried, *scanned)

    def limits(self, arrays: Sequence[Array | None]) -> tuple[int, bool]:
        trips: Any = _count(arrays[0]) if self.counted else self.trips  # no longer symbolic
        condition = bool(arrays[self.counted]) if self.conditional else True
        return MAX_TRIPS if trips is None else int(trips), condition

    def no_rows(self, types: Sequence[TensorType]) -> list[Array]:
        """Symbolic sizes are 0: no iteration defines them."""
        shapes = [[0 if isinstance(dim, Expr) else dim for dim in type.shape or (0,)] for type in types]
        scans = list(zip(types, shapes, strict=True))[self.carries :]
        return [np.zeros((0, *shape[1:]), type.dtype.numpy) for type, shape in scans]


def _is_vector(fact: Fact | None) -> bool:
    return fact is not None and fact.dtype == I64 and fact.type.rank == 1


def _count(given: Array | None) -> int:
    """The trip count of an operand: a scalar, or the length of a vector."""
    if given is None:
        raise ValueError("the operand of the trip count is missing")
    return given.size if given.ndim else int(given)


def _symbols(fact: Fact) -> set[Any]:
    return {a for dim in (*(fact.type.shape or ()), *(fact.elements or ())) for a in atoms(dim)}


def _outside(at: Inference, start: Dim, inside: Dim, given: Dim) -> Dim:
    """A size after the last iteration: the initial size if iterations do not change it, else a new symbol."""
    unchanged = at.symbols.proves_equal(start, inside) and at.symbols.proves_equal(start, given)
    return start if unchanged else at.symbols.fresh("loop")


def _import(i: OnnxImporter) -> Any:
    """ONNX's Loop. Inside the body, the condition is always true. A condition that the body returns has no
    effect if the node itself has none.
    """
    limit, condition, *starts = [*i.inputs(), None, None][: max(2, len(i.inputs()))]
    graph, captured = _read_body(i, [_initial_value(i, k, value) for k, value in enumerate(starts)])
    count = len(starts)
    scans = len(graph.outputs) - 1 - count
    if scans < 0:
        raise i.fail(f"its body has {len(graph.outputs)} outputs for {count} loop-carried values")
    given = graph.outputs[0].type
    if given.dtype != BOOL or given.shape not in ((), (1,), None):
        raise i.fail(f"output 0 of its body is {given}", "it is the condition, and must be a bool scalar")
    endless = condition is None or (_is_true(i, graph.outputs[0], graph) and _is_constant_true(i, condition))
    _receive_scalar_iteration(i, graph)
    _replace_by_true(i, graph, graph.inputs[1])
    known = None if limit is None else i.constant(0)
    if known is not None and not endless and known.size == 1 and known.item() >= UNLIMITED:
        limit = None
    _set_conditions(i, graph, [] if endless else [graph.outputs[0]])
    if limit is None and endless:
        raise i.fail(
            "it has no trip count, and its condition is always true: it would never end",
            "add a trip count or a condition",
        )
    loop = Loop(count, scans, limit is not None, not endless)
    bounds = [scalar(i, v) for v in (limit, None if endless else condition) if v is not None]
    return i.emit(loop, *bounds, *starts, *captured, regions=[graph])


def _initial_value(i: Importer, index: int, value: Value | None) -> Value:
    if value is None:
        raise i.fail(f"loop-carried value {index} has no initial value", "add the missing input")
    return value


def _read_body(i: OnnxImporter, starts: Sequence[Value]) -> tuple[Graph, list[Value]]:
    """The body, with types of the loop-carried values that hold in every iteration, and its
    captured values.
    """
    iteration = TensorType(I64, (1,)) if i.declared_ranks("body")[:1] == [1] else ITERATION
    types = [value.type for value in starts]
    for _ in range(MAX_ROUNDS):
        graph, captured = i.region("body", (iteration, CONDITION, *types))
        results = graph.outputs[1 : 1 + len(types)]
        if len(results) < len(types):
            raise i.fail(f"its body has {len(graph.outputs)} outputs for {len(types)} loop-carried values")
        wider = widened_types(i, [v.type for v in starts], types, [value.type for value in results])
        if wider == types:
            return graph, captured
        types = wider
    raise i.fail(f"the shapes of its loop-carried values still change after {MAX_ROUNDS} iterations")


def widened_types(
    i: Importer, starts: Sequence[TensorType], received: Sequence[TensorType], given: Sequence[TensorType]
) -> list[TensorType]:
    """Types that hold in every iteration, given the initial types of loop-carried values, the types that the
    body receives, and those that it returns.
    """
    wider: list[TensorType] = []
    for index, types in enumerate(zip(starts, received, given, strict=True)):
        try:
            wider.append(widened(i.builder.module.symbols, *types))
        except DtypesDiffer as error:
            raise i.fail(f"loop-carried value {index} {error}") from None
    return wider


def _is_true(i: Importer, value: Value, graph: Graph) -> bool:
    """Whether a condition that the body returns is always true: the constant, or the condition that it
    receives.
    """
    while value.producer is not None and isinstance(value.producer.op, Identity):
        value = value.producer.operand(0)
    return value is graph.inputs[1] or _is_constant_true(i, value)


def _is_constant_true(i: Importer, value: Value) -> bool:
    fact = i.builder.fact(value)
    return fact is not None and fact.data is not None and fact.data.size == 1 and bool(fact.data.item())


def scalar(i: Importer, value: Value) -> Value:
    """``value`` as a scalar: some exporters write a vector of one element."""
    result: Value = value if value.type.shape == () else i.emit(Reshape(()), value)
    return result


def inside(i: Importer, graph: Graph, *, last: bool = False) -> Builder:
    """A builder at the beginning of a region, or with ``last`` at its end."""
    first = None if last else next(iter(graph), None)
    return Builder(i.builder.module, graph, first, i.builder.sources)


def _receive_scalar_iteration(i: Importer, graph: Graph) -> None:
    """Makes the iteration index a scalar input of the body, if the body declares a vector."""
    declared = graph.inputs[0]
    if declared.type.shape == ():
        return
    iteration = graph.add_input(ITERATION, declared.name)
    graph.replace_all_uses(declared, inside(i, graph)(Reshape((1,)), iteration))
    set_inputs(graph, [iteration, *graph.inputs[1:-1]])


def _replace_by_true(i: Importer, graph: Graph, condition: Value) -> None:
    """Replaces the input ``condition`` of the body by true, and removes it."""
    graph.replace_all_uses(condition, inside(i, graph).const(np.asarray(np.True_)))
    graph.remove_input(condition.index)


def _set_conditions(i: Importer, graph: Graph, conditions: Sequence[Value]) -> None:
    """Replaces output 0 of the body by ``conditions`` (one or none), as scalars."""
    build = inside(i, graph, last=True)
    scalars = [c if c.type.shape in ((), None) else build(Reshape(()), c) for c in conditions]
    names = graph.output_names
    graph.set_outputs([*scalars, *graph.outputs[1:]], [*names[: len(scalars)], *names[1:]])


def set_inputs(graph: Graph, inputs: Sequence[Value]) -> None:
    """Changes the inputs of ``graph`` to ``inputs``, a selection of them in another order."""
    graph.inputs[:] = inputs
    for index, value in enumerate(inputs):
        value.index = index


def _export(e: Exporter, op: Loop, *inputs: Value) -> Any:
    """The length of a vector that is the trip count is exported as Size."""
    where = op.loop_carried()
    limit: Any = None if op.trips is None else e.size(op.trips)
    if op.counted:
        limit = e.emit("Size", inputs[0]) if inputs[0].type.rank == 1 else inputs[0]
    captured = len(inputs) - op.captured_operands(len(inputs))
    carried = inputs[where.start : captured]
    condition: Any = inputs[op.counted] if op.conditional else None
    if condition is None and not carried:  # ONNX requires two operands
        condition = e.const(np.asarray(np.True_))
    return e.emit(
        "Loop",
        limit,
        condition,
        *carried,
        outputs=op.output_count(),
        body=e.body(inputs[captured:], op.conditional),
    )


Loop.onnx = {("Loop", 1): _import}
Loop.to_onnx = _export
