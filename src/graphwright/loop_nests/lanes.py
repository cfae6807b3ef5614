"""Reductions with one row per vector lane. The accumulators of all lanes stay in one register.

Used for rows that are shorter than a vector, for columns that are short or fit in one vector: vectorization
along a short row would leave lanes idle and need horizontal sums.
"""

from __future__ import annotations

from collections.abc import Sequence

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
from graphwright.ir.symbols import Dim, ceildiv, floordiv, minimum, mod, symbol
from graphwright.ir.types import DType
from graphwright.loop_nests.builder import RegionKernel
from graphwright.loop_nests.jam import copy_of, unrolled
from graphwright.loop_nests.row import Row
from graphwright.records import replace


class Lanes(Row):
    """A kernel with grid and lanes over the outer axes, and all passes over a row in one vector loop."""

    def build(self) -> RegionKernel:
        self.initial: dict[str, Alloc] = {}
        return super().build()

    def _name_axes(self) -> None:
        self.axis_names = [
            self.names.take("r" if reduced else "i" if k < self._lane else "v")
            for k, reduced in enumerate(self.is_reduced)
        ]
        self.loops.index = [symbol(name) for name in self.axis_names]
        self.block, self.block_name = self.schedule.block, ""
        extent = self.loops.extents[self._lane]
        self.lane_extent: Dim = extent
        if not (isinstance(extent, int) and extent <= self.block):
            self.block_name = self.names.take("b")
            first = self.block * symbol(self.block_name)
            self.lane_extent = minimum(self.block, extent - first)
            self.loops.index[self._lane] = first + symbol(self.axis_names[self._lane])

    @property
    def _lane(self) -> int:
        """The joined axis that is vectorized: the last one that is not reduced."""
        return max(k for k, reduced in enumerate(self.is_reduced) if not reduced)

    def _grid(self, body: Sequence[Statement]) -> list[Statement]:
        lane = self._lane
        outer = [k for k, reduced in enumerate(self.is_reduced) if not reduced and k != lane]
        axes = [(self.axis_names[k], self.loops.extents[k]) for k in outer]
        if self.block_name:
            axes.append((self.block_name, ceildiv(self.loops.extents[lane], self.block)))
        loop = Loop(self.axis_names[lane], Kind.VECTOR, self.lane_extent, tuple(body))
        for name, extent in reversed(axes):
            loop = Loop(name, Kind.PARALLEL, extent, (loop,))
        return [loop]

    def _over_reduced(self, body: Sequence[Statement]) -> list[Statement]:
        *outer, last = [k for k, reduced in enumerate(self.is_reduced) if reduced]
        loop = Loop(self.axis_names[last], Kind.REDUCE, self.loops.extents[last], tuple(body))
        before, inside, after = self._partial_sums(loop)
        for k in reversed(outer):
            inside = [Loop(self.axis_names[k], Kind.REDUCE, self.loops.extents[k], tuple(inside))]
        return [*before, *inside, *after]

    def _partial_sums(self, loop: Loop) -> tuple[list[Statement], list[Statement], list[Statement]]:
        """Split a long reduction loop into several independent partial sums, which hides the latency of
        additions. Returns the statements before the loops, the loops, and the statements after them.
        """
        accumulates = [s for s in loop.body if isinstance(s, Accumulate)]
        if self.schedule.sums == 1 or any(not isinstance(s, Let | Accumulate) for s in loop.body):
            return [], [loop], []
        sums = [{s.buffer.name: s.buffer for s in accumulates}]
        while len(sums) < self.schedule.sums:
            sums.append({s.buffer.name: replace(s.buffer, name=self.names.take("acc")) for s in accumulates})
        before: list[Statement] = [
            replace(self.initial[name], buffer=buffer) for own in sums[1:] for name, buffer in own.items()
        ]
        after: list[Statement] = [
            Accumulate(s.buffer, (), s.combiner, Load(own[s.buffer.name], ()))
            for own in sums[1:]
            for s in accumulates
        ]
        whole = unrolled(loop, sums, self.names.take)
        axis = self.names.take("r")
        done = len(sums) * floordiv(loop.extent, len(sums))
        rest = Loop(
            axis,
            Kind.REDUCE,
            mod(loop.extent, len(sums)),
            copy_of(loop.body, {loop.axis: done + symbol(axis)}, sums[0], self.names.take),
        )
        return before, [whole] if rest.extent == 0 else [whole, rest], after

    def _accumulator(self, node: Node) -> Alloc:
        made = super()._accumulator(node)
        self.initial[made.buffer.name] = made
        return made

    def _row_buffer(self, value: Value, dtype: DType) -> Buffer:
        name = self.names.take("row")
        self.kept[value] = Buffer(name, dtype, self._reduced_extents(), Level.REGISTER)
        return self.kept[value]

    def _is_read_back(self, value: Value) -> bool:
        return False  # the rows of lanes are strided in memory

    def _kept_index(self, value: Value) -> tuple[Index, ...]:
        return self._reduced_index()
