"""Loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.exporter import Exporter
from graphwright.ir.graph import Graph, Node, Value
from graphwright.ir.loop_types import MAX_ROUNDS, DtypesDiffer, joined_dtype, widened
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
from graphwright.ir.padding import Padded, PaddingRule
from graphwright.ir.region_op import LoopCarried, LoopOp, RunRegion
from graphwright.ir.symbols import Dim, Expr, atoms
from graphwright.ir.types import BOOL, I64, TensorType
from graphwright.ops.core.identity import Identity
from graphwright.ops.core.reshape import Reshape
from graphwright.ops.core.shaping import not_negative
from graphwright.records import replace

NEVER_REACHED = 2**62
"""A trip count from here on stands for none: exporters write the largest integer."""
ENDLESS = 2**63 - 1
"""Runs of a loop without a trip count, at most."""
ITERATION = TensorType(I64, ())
CONDITION = TensorType(BOOL, ())


@op("Loop")
class Loop(PaddingRule, LoopOp):
    """Runs its region while a condition holds and as often as a trip count says, each time on what it gave.

    Operands: the trip count, an i64 scalar or a vector of so many elements (if ``counted``; ``trips`` is one
    that is known), the condition, a bool scalar (if ``conditional``), start values of what it ``carries``
    from run to run, and what all runs receive. Region inputs: the number of the run from 0 on, the carried
    values, what all receive. Region outputs: whether to go on (if ``conditional``), the carried values, and
    ``scans``. Outputs: the last carried values; each scan output of all runs, stacked along a new axis 0.
    """

    carries: int
    scans: int = 0
    counted: bool = False
    conditional: bool = False
    trips: Dim | None = None

    def verify(self) -> None:
        if self.counted and self.trips is not None:
            raise InferError("it has two trip counts")
        if not self.counted and not self.conditional and self.trips is None:
            raise InferError("it has neither a trip count nor a condition: it would never end")

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
        """A trip count that is known, or follows from sizes, becomes ``trips``."""
        trips = self.trips_of(facts) if self.counted else None
        if trips is None or (_is_vector(facts[0]) and not isinstance(trips, int)):
            return None
        if self.conditional and isinstance(trips, int) and trips >= NEVER_REACHED:
            trips = None
        return replace(self, counted=False, trips=trips), tuple(range(1, len(facts)))

    def never_runs(self, *facts: Fact | None) -> bool:
        """Whether the facts of the operands rule out a first run."""
        trips = self.trips_of(facts)
        if isinstance(trips, int) and trips <= 0:
            return True
        start = facts[self.counted] if self.conditional else None
        return start is not None and is_known(start.elements) and start.elements == (0,)

    def trips_of(self, facts: Sequence[Fact | None]) -> Dim | None:
        """The trip count where it is known or follows from sizes."""
        if not self.counted or facts[0] is None:
            return self.trips
        if _is_vector(facts[0]):
            return facts[0].shape[0]
        known = facts[0].elements
        return known[0] if known is not None and len(known) == 1 else None

    def infer_regions(self, at: Inference, outputs: Sequence[Sequence[Fact]]) -> tuple[Fact, ...]:
        """Sizes that runs change are new symbols; the number of scanned runs is known without a condition."""
        if len(outputs) != 1:
            raise at.fail(f"{len(outputs)} regions: one is needed")
        results, where = list(outputs[0]), self.loop_carried()
        if len(results) != where.result + self.output_count():
            needed = where.result + self.output_count()
            raise at.fail(f"its region has {len(results)} outputs; {needed} are needed")
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
                raise at.fail(f"its {what} is {fact and fact.type}, not {wanted}")

    def _final(self, at: Inference, index: int, start: Fact | None, inside: Fact, given: Fact) -> Fact:
        """What is known of a carried value after the last run."""
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
        """What is known of a scan output."""
        if result.type.shape is None:
            return Fact(TensorType(result.dtype, None))
        known = {a for fact in at.inputs if fact is not None for a in _symbols(fact)}
        sizes = (d if known.issuperset(atoms(d)) else at.symbols.fresh("scan") for d in result.type.shape)
        return Fact(TensorType(result.dtype, (not_negative(at.symbols, trips), *sizes)))

    def padding_leak(self, node: Node, padded: Padded) -> str:
        """What is true of a carried value stays so from run to run where its type does."""
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
        most, goes_on = self.limits(arrays)
        carried = list(arrays[where.start : where.start + self.carries])
        shared = arrays[where.start + self.carries :]
        rows: list[tuple[Array, ...]] = []
        while goes_on and len(rows) < most:
            results = run(0, (np.array(len(rows), np.int64), *carried, *shared))
            goes_on = bool(results[0]) if self.conditional else True
            carried = list(results[where.result : where.result + self.carries])
            rows.append(results[where.result + self.carries :])
        scanned = [np.stack(of_all) for of_all in zip(*rows, strict=True)] if rows else self.no_rows(types)
        return (*carried, *scanned)

    def limits(self, arrays: Sequence[Array | None]) -> tuple[int, bool]:
        trips: Any = _count(arrays[0]) if self.counted else self.trips  # a number by now
        goes_on = bool(arrays[self.counted]) if self.conditional else True
        return ENDLESS if trips is None else int(trips), goes_on

    def no_rows(self, types: Sequence[TensorType]) -> list[Array]:
        """Sizes that are not known are 0."""
        shapes = [[0 if isinstance(dim, Expr) else dim for dim in type.shape or (0,)] for type in types]
        scans = list(zip(types, shapes, strict=True))[self.carries :]
        return [np.zeros((0, *shape[1:]), type.dtype.numpy) for type, shape in scans]


def _is_vector(fact: Fact | None) -> bool:
    return fact is not None and fact.dtype == I64 and fact.type.rank == 1


def _count(given: Array | None) -> int:
    """The trip count that an operand stands for."""
    if given is None:
        raise ValueError("the trip count is absent")
    return given.size if given.ndim else int(given)


def _symbols(fact: Fact) -> set[Any]:
    return {a for dim in (*(fact.type.shape or ()), *(fact.elements or ())) for a in atoms(dim)}


def _outside(at: Inference, start: Dim, inside: Dim, given: Dim) -> Dim:
    """A size after the last run: as at the start if runs leave it alone."""
    stays = at.symbols.proves_equal(start, inside) and at.symbols.proves_equal(start, given)
    return start if stays else at.symbols.fresh("loop")


# -- from ONNX ----------------------------------------------------------------------------------------------


def _import(i: OnnxImporter) -> Any:
    """ONNX leaves the condition that a body gives without meaning where the node has none; inside the body it
    is always true.
    """
    limit, condition, *starts = [*i.inputs(), None, None][: max(2, len(i.inputs()))]
    graph, captured = _read_body(i, [_present(i, k, value) for k, value in enumerate(starts)])
    count = len(starts)
    scans = len(graph.outputs) - 1 - count
    if scans < 0:
        raise i.fail(f"its body has {len(graph.outputs)} outputs for {count} loop-carried values")
    given = graph.outputs[0].type
    if given.dtype != BOOL or given.shape not in ((), (1,), None):
        raise i.fail(f"its body gives {given} for the condition", "it is the first output, a bool")
    endless = condition is None or (_is_true(i, graph.outputs[0], graph) and _is_constant_true(i, condition))
    _receive_number(i, graph)
    _always(i, graph, graph.inputs[1])
    known = None if limit is None else i.constant(0)
    if known is not None and not endless and known.size == 1 and known.item() >= NEVER_REACHED:
        limit = None
    _set_results(i, graph, [] if endless else [graph.outputs[0]])
    if limit is None and endless:
        raise i.fail("it has no trip count, and its condition stays true", "it would never end")
    loop = Loop(count, scans, limit is not None, not endless)
    steering = [scalar(i, v) for v in (limit, None if endless else condition) if v is not None]
    made = i.emit(loop, *steering, *starts, *captured, regions=[graph])
    return made


def _present(i: Importer, index: int, value: Value | None) -> Value:
    if value is None:
        raise i.fail(
            f"loop-carried value {index} has no initial value",
            "give each loop-carried value an initial value",
        )
    return value


def _read_body(i: OnnxImporter, starts: Sequence[Value]) -> tuple[Graph, list[Value]]:
    """The body, for types of the carried values that hold in every run."""
    number = TensorType(I64, (1,)) if i.declared_ranks("body")[:1] == [1] else ITERATION
    types = [value.type for value in starts]
    for _ in range(MAX_ROUNDS):
        graph, captured = i.region("body", (number, CONDITION, *types))
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
    """Types for carried values that start as ``starts``, received as ``received`` and given as ``given``."""
    wider: list[TensorType] = []
    for index, types in enumerate(zip(starts, received, given, strict=True)):
        try:
            wider.append(widened(i.builder.module.symbols, *types))
        except DtypesDiffer as error:
            raise i.fail(f"loop-carried value {index} {error}") from None
    return wider


def _is_true(i: Importer, value: Value, graph: Graph) -> bool:
    """Whether a condition that the body gives is always true: what it received, or a constant."""
    while value.producer is not None and isinstance(value.producer.op, Identity):
        value = value.producer.operand(0)
    return value is graph.inputs[1] or _is_constant_true(i, value)


def _is_constant_true(i: Importer, value: Value) -> bool:
    fact = i.builder.fact(value)
    return fact is not None and fact.data is not None and fact.data.size == 1 and bool(fact.data.item())


def scalar(i: Importer, value: Value) -> Value:
    """``value`` without axes: exporters also write lists of one element."""
    made: Value = value if value.type.shape == () else i.emit(Reshape(()), value)
    return made


def inside(i: Importer, graph: Graph, *, last: bool = False) -> Builder:
    """A builder at the beginning of a region, or at its end."""
    first = None if last else next(iter(graph), None)
    return Builder(i.builder.module, graph, first, i.builder.sources)


def _receive_number(i: Importer, graph: Graph) -> None:
    """Let the body receive the number of the run as a scalar, whatever it declares."""
    declared = graph.inputs[0]
    if declared.type.shape == ():
        return
    number = graph.add_input(ITERATION, declared.name)
    graph.replace_all_uses(declared, inside(i, graph)(Reshape((1,)), number))
    arrange(graph, [number, *graph.inputs[1:-1]])


def _always(i: Importer, graph: Graph, condition: Value) -> None:
    """Inside the body the condition holds."""
    graph.replace_all_uses(condition, inside(i, graph).const(np.array(True)))
    graph.remove_input(condition.index)


def _set_results(i: Importer, graph: Graph, conditions: Sequence[Value]) -> None:
    """Let the body give ``conditions``, as scalars, before its other results."""
    build = inside(i, graph, last=True)
    scalars = [c if c.type.shape == () else build(Reshape(()), c) for c in conditions]
    names = graph.output_names
    graph.set_outputs([*scalars, *graph.outputs[1:]], [*names[: len(scalars)], *names[1:]])


def arrange(graph: Graph, inputs: Sequence[Value]) -> None:
    """Let ``graph`` have ``inputs``, which are its own, in this order."""
    graph.inputs[:] = inputs
    for index, value in enumerate(inputs):
        value.index = index


def _export(e: Exporter, op: Loop, *inputs: Value) -> Any:
    """A trip count that is a vector stands for its number of elements."""
    where = op.loop_carried()
    limit: Any = None if op.trips is None else e.size(op.trips)
    if op.counted:
        limit = e.emit("Size", inputs[0]) if inputs[0].type.rank == 1 else inputs[0]
    captured = len(inputs) - op.captured_operands(len(inputs))
    carried = inputs[where.start : captured]
    condition: Any = inputs[op.counted] if op.conditional else None
    if condition is None and not carried:  # ONNX wants two operands
        condition = e.const(np.array(True))
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
