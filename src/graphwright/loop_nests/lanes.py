"""Reductions with one row per vector lane. The accumulators of all lanes stay in one register.

Used for rows that are shorter than a vector, and for columns that are short or fit in one vector. There,
vectorization along the row would leave lanes idle and need horizontal sums.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import compress

from graphwright.ir.builtin.fused import Schedule
from graphwright.ir.graph import Node, Value
from graphwright.ir.loops.nodes import (
    Accumulate,
    Alloc,
    Buffer,
    Index,
    Kind,
    Let,
    Level,
    Load,
    Loop,
    Statement,
)
from graphwright.ir.symbols import Dim, ceildiv, floordiv, mod, symbol
from graphwright.ir.types import DType
from graphwright.loop_nests.block_sums import longest, sum_in_blocks
from graphwright.loop_nests.row import Row
from graphwright.loop_nests.row_axes import RowAxes
from graphwright.loop_nests.unroll import copy_of, unrolled
from graphwright.records import replace


class LaneAxes(RowAxes):
    """The axes of a kernel whose lanes run along an outer axis: one vector loop contains all passes."""

    def __init__(self, schedule: Schedule, extents: list[Dim], take: Callable[[str], str]) -> None:
        super().__init__(schedule, extents, take)
        self.initial: dict[str, Alloc] = {}
        """The accumulators by name, with their initial values."""

    def lane_axis(self) -> int:
        """The joined axis that is vectorized: the last one that is not reduced."""
        return max(k for k, reduced in enumerate(self.is_reduced) if not reduced)

    def blocked_axis(self) -> int:
        """The axis of the vector loop."""
        return self.lane

    def grid(self, body: Sequence[Statement]) -> list[Statement]:
        """Wraps ``body`` in the vector loop and the parallel loops."""
        outer = [k for k, reduced in enumerate(self.is_reduced) if not reduced and k != self.lane]
        axes = [(self.names[k], self.extents[k]) for k in outer]
        if self.block_name:
            axes.append((self.block_name, ceildiv(self.extents[self.lane], self.schedule.block)))
        loop = self.over_lanes(body)
        for name, extent in reversed(axes):
            loop = Loop(name, Kind.PARALLEL, extent, (loop,))
        return [loop]

    def one_pass(self, body: Sequence[Statement], invariants: Iterable[Let]) -> list[Statement]:
        """Wraps ``body`` in the loops over the reduced axes."""
        reduced = list(compress(self.all, self.is_reduced))
        *outer, last = reduced
        loop = Loop(self.names[last], Kind.REDUCE, self.extents[last], tuple(body))
        before, inside, after = self._partial_sums(loop)
        long = reduced[longest(self.reduced_extents())]
        if long == last:
            inside[0] = sum_in_blocks(inside[0], self.take)
        for k in reversed(outer):
            whole = Loop(self.names[k], Kind.REDUCE, self.extents[k], tuple(inside))
            inside = [sum_in_blocks(whole, self.take) if k == long else whole]
        return [*before, *inside, *after]

    def _partial_sums(self, loop: Loop) -> tuple[list[Statement], list[Loop], list[Statement]]:
        """Splits a long reduction loop into several independent partial sums, which hides the latency of
        additions. Returns the statements before the loops, the loops, and the statements after them.
        """
        accumulates = [s for s in loop.body if isinstance(s, Accumulate)]
        if self.schedule.sums == 1 or any(not isinstance(s, Let | Accumulate) for s in loop.body):
            return [], [loop], []
        sums = [{s.buffer.name: s.buffer for s in accumulates}]
        while len(sums) < self.schedule.sums:
            sums.append({s.buffer.name: replace(s.buffer, name=self.take("acc")) for s in accumulates})
        before: list[Statement] = [
            replace(self.initial[name], buffer=buffer) for own in sums[1:] for name, buffer in own.items()
        ]
        after: list[Statement] = [
            Accumulate(s.buffer, (), s.combiner, Load(own[s.buffer.name], ()))
            for own in sums[1:]
            for s in accumulates
        ]
        whole = unrolled(loop, sums, self.take)
        axis = self.take("r")
        done = len(sums) * floordiv(loop.extent, len(sums))
        rest = Loop(
            axis,
            Kind.REDUCE,
            mod(loop.extent, len(sums)),
            copy_of(loop.body, {loop.axis: done + symbol(axis)}, sums[0], self.take),
        )
        return before, [whole] if rest.extent == 0 else [whole, rest], after


class Lanes(Row):
    """A kernel with grid and lanes over the outer axes, and all passes over a row in one vector loop."""

    def make_axes(self, extents: list[Dim]) -> LaneAxes:
        """The loops of the kernel."""
        self.lanes = LaneAxes(self.schedule, extents, self.names.take)
        return self.lanes

    def _accumulator(self, node: Node) -> Alloc:
        accumulator = super()._accumulator(node)
        self.lanes.initial[accumulator.buffer.name] = accumulator
        return accumulator

    def _row_buffer(self, value: Value, dtype: DType) -> Buffer:
        name = self.names.take("row")
        self.kept[value] = Buffer(name, dtype, self.axes.reduced_extents(), Level.REGISTER)
        return self.kept[value]

    def _is_read_back(self, value: Value) -> bool:
        return False  # the rows of lanes are strided in memory

    def _kept_index(self, value: Value) -> tuple[Index, ...]:
        return self.axes.reduced_index()
