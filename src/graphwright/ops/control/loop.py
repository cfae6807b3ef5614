"""Loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphwright.ir.graph import Node
from graphwright.ir.inference.loop_types import DtypesDiffer, joined_dtype
from graphwright.ir.interfaces.padding import Padded, PaddingRule
from graphwright.ir.op import (
    Array,
    Fact,
    Inference,
    InferError,
    Op,
    is_known,
    op,
)
from graphwright.ir.op.region_op import LoopCarried, LoopOp, RunRegion
from graphwright.ir.symbols import Dim, Expr, atoms
from graphwright.ir.types import BOOL, I64, TensorType
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
        starts = at.inputs[where.starts]
        received = at.received[0][where.received]
        given = results[where.results]
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
        return Fact(TensorType(result.dtype, (at.symbols.larger(trips, 0), *sizes)))

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
        carried: list[Any] = list(arrays[where.starts])
        shared = arrays[where.start + self.carries :]
        rows: list[tuple[Array, ...]] = []
        while condition and len(rows) < most:
            results = run(0, (np.array(len(rows), np.int64), *carried, *shared))
            condition = bool(results[0]) if self.conditional else True
            carried = list(results[where.results])
            rows.append(results[where.result + self.carries :])
        if not rows:
            return (*carried, *self.no_rows(types))
        return (*carried, *(_stacked_rows(k, of_all) for k, of_all in enumerate(zip(*rows, strict=True))))

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


def _stacked_rows(index: int, rows: Sequence[Array]) -> Array:
    """Scan output ``index`` of all iterations. Raises ValueError if their shapes differ."""
    for iteration, row in enumerate(rows):
        if row.shape != rows[0].shape:
            raise ValueError(
                f"scan output {index} has shape {rows[0].shape} in iteration 0, but {row.shape} in iteration"
                f" {iteration}"
            )
    return np.stack(rows)


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
