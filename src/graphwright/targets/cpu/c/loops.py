"""Emits loops of the loop IR: scalar loops, and vector loops with whole steps and a masked tail."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

from graphwright.ir.loops.nodes import Kind, Loop, Statement, Store
from graphwright.ir.symbols import mod
from graphwright.ir.types import BOOL, F32
from graphwright.records import dataclass, replace
from graphwright.targets.cpu.c.accumulate import Accumulations, Partial
from graphwright.targets.cpu.c.analysis import lanes_of, rows_inside, stores_may_wait, unrolling
from graphwright.targets.cpu.c.distribution import BLOCK, DistributedLoop, distributed
from graphwright.targets.cpu.c.dtypes import lane_dtype
from graphwright.targets.cpu.c.prefetch import LINE, Prefetch
from graphwright.targets.cpu.c.scope import Lanes, Value, c_name


@dataclass(frozen=True)
class VectorSteps:
    """Steps of ``count`` lanes of a vector loop. ``axis`` is the C variable of their position, ``end`` the C
    expression that it must not exceed; ``partials`` are sums that the steps keep in registers.
    """

    loop: Loop
    axis: str
    end: str
    count: int
    partials: Mapping[int, Partial]


class Loops(Accumulations):
    """Emits loops as lines of C; a subclass emits the statements in them."""

    ahead: tuple[Loop, tuple[Prefetch, ...]] | None = None
    """The vector loop that prefetches later rows, and its prefetches."""
    late_stores: list[tuple[str, str]] | None = None
    """While unrolled steps are emitted: declarations of the stored vectors, and their stores, which are
    delayed until after all steps.
    """

    @abstractmethod
    def body(self, statements: Iterable[Statement]) -> None:
        """Emits ``statements`` in order."""

    def scalar_loop(self, loop: Loop, first: str = "0", last: str | None = None) -> None:
        """Emits a scalar loop from ``first`` up to ``last``."""
        axis = c_name(loop.axis)
        end = self.factor(loop.extent) if last is None else last
        if self.is_row_of_vectors(loop) and (parts := distributed(loop.body)):
            with self.block(""):
                self.line(f"int64_t {axis} = {first};")
                self.distributed_steps(loop, parts, axis, f"{end} - {axis}", 1)
            return
        if self.is_interleaved(loop):
            self.interleaved(loop, axis, first, end)
            return
        increment = f"++{axis}" if loop.step == 1 else f"{axis} += {loop.step}"
        with self.block(f"for (int64_t {axis} = {first}; {axis} < {end}; {increment})"):
            self.scope.names[loop.axis] = axis
            self.body(loop.body)

    def copies(self, loop: Loop) -> int:
        """The number of copies of the body per step of ``loop``."""
        return unrolling(loop, self.private_names(loop), self.prelude.isa.chains)

    def is_row_of_vectors(self, loop: Loop) -> bool:
        """Whether each iteration of ``loop`` computes one whole vector."""
        lanes = self.lanes
        return lanes is not None and lanes.tail is None and loop.kind is Kind.SERIAL and loop.step == 1

    def is_interleaved(self, loop: Loop) -> bool:
        """Whether ``loop`` is inside a full vector step, and faster if some of its iterations are
        interleaved.
        """
        if self.lanes is None or not self.is_row_of_vectors(loop):
            return False
        return unrolling(loop, self.private_names(loop), 2) == 2 and stores_may_wait(loop, self.lanes.axis)

    def interleaved(self, loop: Loop, axis: str, first: str, end: str) -> None:
        """Emits a loop with several iterations per step, whose stores are delayed until after all of them;
        the rest takes two per step, and then one.
        """
        with self.block(""):
            self.line(f"int64_t {axis} = {first};")
            for count in sorted({self.copies(loop), 2}, reverse=True):
                with self.block(f"for (; {axis} + {count} <= {end}; {axis} += {count})"), self.late():
                    for position in (axis, *(f"({axis} + {k})" for k in range(1, count))):
                        self.iteration(loop, position)
            with self.block(f"if ({axis} < {end})"):
                self.scope.names[loop.axis] = axis
                self.body(loop.body)

    def iteration(self, loop: Loop, position: str) -> None:
        """Emits the body of ``loop`` for the iteration ``position``, as a block."""
        with self.block(""):
            self.scope.names[loop.axis] = position
            self.body(loop.body)

    @contextmanager
    def late(self) -> Iterator[None]:
        """Delays stores until the end of the block."""
        start = len(self.lines)
        self.late_stores = []
        yield
        waiting, self.late_stores = self.late_stores, None
        for _, store in waiting:
            self.line(store)
        indent = "    " * self.depth
        self.lines[start:start] = [indent + declaration for declaration, _ in waiting]

    def late_if_possible(self, loop: Loop, copies: int) -> AbstractContextManager[None]:
        """Delays the stores of ``copies`` steps of a vector loop, if there are several and they may wait."""
        return self.late() if copies > 1 and stores_may_wait(loop, loop.axis) else nullcontext()

    def vector_loop(self, loop: Loop, first: str = "0", last: str | None = None) -> None:
        """Emits steps of whole vectors, then one step with the lanes beyond the end masked off."""
        count = lanes_of(loop, self.prelude.isa.vector_bytes)
        axis, end = c_name(loop.axis), self.factor(loop.extent) if last is None else last
        known = loop.extent if last is None and isinstance(loop.extent, int) else None
        if known == 0:
            return
        unroll = self.copies(loop)
        while known is not None and unroll > 1 and known < count * unroll:
            unroll //= 2
        with self.block(""):
            partials = self.open_partials(loop, count, unroll)
            steps = VectorSteps(loop, axis, end, count, partials)
            self.line(f"int64_t {axis} = {first};")
            if known is None and (rows := rows_inside(loop)) is not None:
                self.one_row(steps, rows)
            unrolled = [n for n in sorted({unroll, 1}, reverse=True) if known is None or known >= count * n]
            self.whole_steps(steps, unrolled)
            whole = last is None and mod(loop.extent, count) == 0
            if not whole:
                self.tail_step(steps, known)
            self.close_partials(count, partials)

    def one_row(self, steps: VectorSteps, rows: Loop) -> None:
        """Emits a variant for the case that the inner loop ``rows`` has one iteration, which would otherwise
        load its constants again for each vector: two vectors at a time.
        """
        flat = replace(steps.loop, body=(*steps.loop.body[:-1], *rows.body))
        # conversions to bytes have long latencies
        stores_bytes = any(isinstance(s, Store) and s.buffer.dtype.bytes == 1 for s in flat.body)
        copies = max(self.copies(flat), 2 if stores_bytes else 1)
        if copies == 1:
            return
        with self.block(f"if ({self.factor(rows.extent)} == 1)"):
            self.line(f"const int64_t {c_name(rows.axis)} = 0;")
            self.scope.names[rows.axis] = c_name(rows.axis)
            self.whole_steps(replace(steps, loop=flat, partials={}), (copies,))

    def whole_steps(self, steps: VectorSteps, unrolled: Sequence[int]) -> None:
        """Emits all whole vectors: in blocks if the body is distributed, else in steps of ``unrolled``
        copies.
        """
        loop, axis, count = steps.loop, steps.axis, steps.count
        if not steps.partials and unrolled and (parts := distributed(loop.body)):
            self.lanes = Lanes(loop.axis, count)
            self.distributed_steps(loop, parts, axis, f"({steps.end} - {axis}) / {count}", count)
            self.lanes = None
            return
        for copies in unrolled:
            self.full_steps(steps, copies)

    def full_steps(self, steps: VectorSteps, copies: int) -> None:
        """Emits the loop over steps of ``copies`` whole vectors."""
        axis, width = steps.axis, steps.count * copies
        positions = [f"({axis} + {copy * steps.count})" if copy else axis for copy in range(copies)]
        head = f"for (; {axis} + {width} <= {steps.end}; {axis} += {width})"
        with self.block(head), self.late_if_possible(steps.loop, copies):
            self.prefetch(steps.loop, positions, steps.count)
            for copy, position in enumerate(positions):
                with self.block("") if copies > 1 else nullcontext():
                    self.one_step(steps, position, copy)

    def prefetch(self, loop: Loop, steps: Sequence[str], count: int) -> None:
        """Emits prefetches of later rows, one per cache line, if ``loop`` is to do so."""
        if self.ahead is None or self.ahead[0] is not loop:
            return
        for each in self.ahead[1]:
            for copy, step in enumerate(steps):
                if copy * count * each.buffer.dtype.bytes % LINE == 0:
                    self.scope.names[loop.axis] = step
                    at = self.access(each.buffer, each.index)
                    self.line(f"__builtin_prefetch({at.pointer}, {int(each.is_written)});")

    def distributed_steps(
        self, loop: Loop, parts: Sequence[DistributedLoop], axis: str, steps: str, width: int
    ) -> None:
        """Emits ``steps`` whole vectors, ``width`` apart, in blocks: each of ``parts`` is a loop over a
        block.
        """
        count, step = self.fresh("count"), self.fresh("k")
        kept = {name: self.fresh(name) for part in parts for name in part.keeps}
        at_most = self.prelude.dim(f"dim_min({steps}, {BLOCK})")
        advance = count if width == 1 else f"{width} * {count}"
        with self.block(f"for (int64_t {count}; ({count} = {at_most}) > 0; {axis} += {advance})"):
            for array in kept.values():
                self.line(f"{self.prelude.vector(F32, self.count)} {array}[{BLOCK}];")
            self.line(f"int64_t {step};")
            for part in parts:
                self.line(f"{step} = 0;")
                for copies in sorted({self.copies(loop), 1}, reverse=True):
                    head = f"for (; {step} + {copies} <= {count}; {step} += {copies})"
                    numbers = [f"{step} + {copy}" if copy else step for copy in range(copies)]
                    offsets = numbers if width == 1 else [f"{width} * ({number})" for number in numbers]
                    starts = [f"{axis} + {offset}" for offset in offsets]
                    with self.block(head), self.late_if_possible(loop, copies):
                        self.part_steps(loop, part, starts, kept, numbers)

    def part_steps(
        self,
        loop: Loop,
        part: DistributedLoop,
        starts: Sequence[str],
        arrays: Mapping[str, str],
        numbers: Sequence[str],
    ) -> None:
        """Emits the vectors of ``part`` that begin at ``starts``. ``arrays`` have the values that are passed
        between loops, at the indices ``numbers``.
        """
        positions = [self.fresh(loop.axis) for _ in starts]
        for position, start in zip(positions, starts, strict=True):
            self.line(f"const int64_t {position} = {start};")
        for position, number in zip(positions, numbers, strict=True):
            self.scope.names[loop.axis] = position
            self.part_step(part, {name: f"{array}[{number}]" for name, array in arrays.items()})

    def part_step(self, part: DistributedLoop, kept: Mapping[str, str]) -> None:
        """Emits one vector of ``part``; ``kept``: the addresses of values that are passed between loops."""
        with self.block(""):
            for name in part.reads:
                self.scope.values[name] = Value(kept[name], F32, vector=True)
            self.body(part.statements)
            for name in part.keeps:
                self.line(f"{kept[name]} = {self.vectorized(self.scope.values[name])};")

    def tail_step(self, steps: VectorSteps, known: int | None) -> None:
        """Emits the last, partial step."""
        axis, end, count, tail = steps.axis, steps.end, steps.count, self.fresh("tail")
        live = f"{end} - {axis}" if known is None else str(known % count)
        guard = f"if ({axis} < {end})" if known is None else ""
        with self.block(guard):
            first = self.prelude.call("first", lane_dtype(BOOL), count, live)
            self.line(f"const {self.prelude.mask(count)} {tail} = {first};")
            self.one_step(steps, axis, tail=tail)

    def one_step(self, steps: VectorSteps, position: str, copy: int = 0, tail: str | None = None) -> None:
        """Emits the body for the vector at ``position``, in the current scope; ``copy`` is the index of the
        unrolled step, ``tail`` the mask of a partial one.
        """
        outer, self.lanes = self.lanes, Lanes(steps.loop.axis, steps.count, tail)
        self.scope.names[steps.loop.axis] = position
        for key, partial in steps.partials.items():
            self.scope.partials[key] = partial.names[min(copy, len(partial.names) - 1)]
        self.body(steps.loop.body)
        self.lanes = outer
