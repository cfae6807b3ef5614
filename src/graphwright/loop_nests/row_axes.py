"""The loops of row kernels: a grid over the outer axes, and the loops of one pass over a row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import compress

from graphwright.ir.builtin.fused import Schedule, Strategy
from graphwright.ir.loops.nodes import Index, Kind, Let, Loop, Statement
from graphwright.ir.symbols import Dim, ceildiv, minimum, symbol
from graphwright.loop_nests.block_sums import longest, sum_in_blocks
from graphwright.loop_nests.unroll import unroll_rows


class RowAxes:
    """The axes of a row kernel. The columns of a reduction over outer axes, and short rows, are processed in
    blocks: the grid then counts blocks of that axis.
    """

    def __init__(self, schedule: Schedule, extents: list[Dim], take: Callable[[str], str]) -> None:
        """``take`` makes a name unique."""
        self.schedule, self.extents, self.take = schedule, extents, take
        self.is_reduced = [k in schedule.reduced for k in range(len(extents))]
        self.are_short = schedule.strategy is Strategy.SHORT_ROWS
        self.lane = self.lane_axis()
        self.names = [
            take("r" if reduced else "i" if k < self.lane else "v")
            for k, reduced in enumerate(self.is_reduced)
        ]
        self.index: list[Dim] = [symbol(name) for name in self.names]
        """The index of each axis in the whole result."""
        self.blocked = self.blocked_axis()
        self.block_name = ""
        self.inner_extents = list(extents)
        extent = extents[self.blocked] if self.blocked >= 0 else 0
        if not (isinstance(extent, int) and extent <= schedule.block):
            self.block_name = take("b")
            first = schedule.block * symbol(self.block_name)
            self.inner_extents[self.blocked] = minimum(schedule.block, extent - first)
            self.index[self.blocked] = first + symbol(self.names[self.blocked])
        self.lane_extent: Dim = self.inner_extents[self.lane] if self.inner_extents else 1

    def lane_axis(self) -> int:
        """The axis of the vector loop."""
        return len(self.extents) - 1

    def blocked_axis(self) -> int:
        """The axis that is processed in blocks; -1 for none."""
        if self.schedule.strategy is Strategy.COLUMNS:
            return self.lane
        return self.lane - 1 if self.are_short else -1

    @property
    def all(self) -> tuple[int, ...]:
        """The numbers of all axes."""
        return tuple(range(len(self.extents)))

    def reduced_extents(self) -> tuple[Dim, ...]:
        """The extents of the reduced axes."""
        return tuple(compress(self.extents, self.is_reduced))

    def reduced_index(self) -> tuple[Index, ...]:
        """The indices of the reduced axes."""
        return tuple(map(symbol, compress(self.names, self.is_reduced)))

    def grid(self, body: Sequence[Statement]) -> list[Statement]:
        """Wraps ``body`` in the parallel loops."""
        last = len(self.extents) - 1
        kept = [
            k for k, reduced in enumerate(self.is_reduced) if not reduced and k not in (last, self.blocked)
        ]
        axes = [(self.names[k], self.extents[k]) for k in kept]
        if self.block_name:
            axes.append((self.block_name, ceildiv(self.extents[self.blocked], self.schedule.block)))
        loops = [Loop(name, Kind.PARALLEL, extent, ()) for name, extent in axes]
        statements = list(body)
        for loop in reversed(loops):
            rows = Loop(loop.axis, loop.kind, loop.extent, tuple(statements))
            unrolls = self.schedule.unroll > 1 and loop is loops[-1]
            statements = [unroll_rows(rows, self.schedule.unroll, self.take) if unrolls else rows]
        return statements

    def over_lanes(self, body: Sequence[Statement]) -> Loop:
        """Wraps ``body`` in the vector loop."""
        return Loop(self.names[self.lane], Kind.VECTOR, self.lane_extent, tuple(body))

    def one_pass(self, body: Sequence[Statement], invariants: Iterable[Let]) -> list[Statement]:
        """Wraps ``body`` in the loops of one pass: the reduced axes and the vector axis. ``invariants`` are
        the variables that all short rows share.
        """
        statements = list(body)
        last = len(self.extents) - 1
        if self.are_short:
            extent = self.inner_extents[self.blocked]
            rows = Loop(self.names[self.blocked], Kind.SERIAL, extent, tuple(body))
            statements = [*invariants, rows]
        if last >= 0 and not self.is_reduced[last]:
            statements = [self.over_lanes(statements)]
        reduced = list(compress(self.all, self.is_reduced))
        for k in reversed(reduced):
            kind = Kind.VECTOR if k == last else Kind.REDUCE
            loop = Loop(self.names[k], kind, self.extents[k], tuple(statements))
            is_long = not self.is_reduced[last] and k == reduced[longest(self.reduced_extents())]
            statements = [sum_in_blocks(loop, self.take, self.over_lanes) if is_long else loop]
        return statements
