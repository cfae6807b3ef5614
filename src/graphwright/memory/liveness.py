"""Liveness of buffers from the happens-before relation of tasks, and the conflicts between buffers."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from functools import reduce
from operator import and_, or_

from graphwright.low_ir.tasks import Block, Operand, Task, TaskKind
from graphwright.records import dataclass


def happens_before(tasks: Sequence[Task], blocks: Sequence[Block]) -> list[int]:
    """For each task, the set (as a bit mask) of the tasks that have ended, or will never run, when it
    starts.
    """
    before = [0] * len(tasks)
    _visit(tasks, blocks, 0, 0, before)
    return before


def _visit(tasks: Sequence[Task], blocks: Sequence[Block], number: int, outer: int, before: list[int]) -> int:
    """Fills ``before`` for one block, entered when ``outer`` has ended; returns the mask of all its tasks."""
    block, everything = blocks[number], 0
    done: dict[int, int] = {}
    for index in range(block.first, block.first + block.count):
        task = tasks[index]
        before[index] = outer
        for earlier in task.after:
            before[index] |= done[earlier]
        inner = 1 << index
        for branch in task.blocks:  # only one branch runs, so each counts as past for the next
            inner |= _visit(tasks, blocks, branch, before[index] | inner, before)
        done[index] = before[index] | inner
        everything |= inner
    return everything


def accesses(tasks: Sequence[Task]) -> dict[int, list[int]]:
    """For each buffer, the tasks that access it, in ascending order. An If accesses only its condition."""
    touched: dict[int, list[int]] = defaultdict(list)
    for index, task in enumerate(tasks):
        buffers = {operand.buffer for operand in task.operands if isinstance(operand, Operand)}
        if task.scratch >= 0:
            buffers.add(task.scratch)
        for buffer in buffers:
            touched[buffer].append(index)
    return touched


def loop_masks(tasks: Sequence[Task], blocks: Sequence[Block]) -> dict[int, int]:
    """For each loop, the mask of the tasks in its body; inner loops follow those that contain them."""
    masks: dict[int, int] = {}
    for index, task in enumerate(tasks):
        if task.kind is TaskKind.LOOP:
            masks[index] = _mask_of(tasks, blocks, task.blocks[0])
    return masks


def _mask_of(tasks: Sequence[Task], blocks: Sequence[Block], number: int) -> int:
    block = blocks[number]
    own = range(block.first, block.first + block.count)
    inner = (_mask_of(tasks, blocks, each) for task in own for each in tasks[task].blocks)
    return reduce(or_, inner, ((1 << block.count) - 1) << block.first)


def conflicts(
    planned: Sequence[int], tasks: Sequence[Task], blocks: Sequence[Block]
) -> dict[int, tuple[int, ...]]:
    """For each planned buffer, the buffers of lower index that may be live at the same time.

    Two buffers do not conflict if every access to one happens before every access to the other. A buffer is
    live through all iterations of a loop if the loop itself accesses it, or if it is accessed inside and
    outside of the loop: a later iteration may need it.
    """
    if _is_sequential(tasks, blocks):
        return _overlaps(planned, _intervals(tasks, blocks))
    before, touched = happens_before(tasks, blocks), accesses(tasks)
    users = {buffer: reduce(or_, (1 << task for task in touched[buffer]), 0) for buffer in planned}
    past = {buffer: reduce(and_, (before[task] for task in touched[buffer]), -1) for buffer in planned}
    for loop, body in loop_masks(tasks, blocks).items():
        for buffer in planned:
            if users[buffer] & (body | 1 << loop) and users[buffer] & ~body:
                users[buffer] |= body
                past[buffer] &= before[loop]
    return {
        buffer: tuple(
            other
            for other in planned[:position]
            if users[other] & ~past[buffer] and users[buffer] & ~past[other]
        )
        for position, buffer in enumerate(planned)
    }


def _is_sequential(tasks: Sequence[Task], blocks: Sequence[Block]) -> bool:
    """Whether only one task runs at a time: each depends on the task before it in its block, as in one
    stream.
    """
    return all(
        index - 1 in tasks[index].after
        for block in blocks
        for index in range(block.first + 1, block.first + block.count)
    )


def _intervals(tasks: Sequence[Task], blocks: Sequence[Block]) -> dict[int, tuple[int, int]]:
    """The positions of the first and last access to each buffer, in sequential order.

    Branches that exclude each other are numbered as if they ran one after the other. Buffers that only they
    access then do not conflict.
    """
    order = _Order(tasks, blocks)
    intervals: dict[int, tuple[int, int]] = {}
    for buffer, found in accesses(tasks).items():
        positions = [order.positions[task] for task in found]
        intervals[buffer] = order.widened(min(positions), max(positions))
    return intervals


class _Order:
    """The sequential order of tasks; those of inner blocks follow the task that contains them."""

    def __init__(self, tasks: Sequence[Task], blocks: Sequence[Block]) -> None:
        self.positions = [0] * len(tasks)
        self._loops: list[int] = []
        """For each position, the position of the innermost loop around it, which may be the task itself; or
        -1.
        """
        self._outer: dict[int, int] = {}
        self._last: dict[int, int] = {}
        """For the position of each loop, the position of the loop around it, and of the last task in its
        body.
        """
        loop = -1
        pending = _tasks_reversed(blocks, 0)
        while pending:
            task = pending.pop()
            if task < 0:  # the end of a loop's body
                self._last[loop] = len(self._loops) - 1
                loop = self._outer[loop]
                continue
            position = self.positions[task] = len(self._loops)
            if tasks[task].kind is TaskKind.LOOP:
                self._outer[position], loop = loop, position
                pending.append(~task)
            self._loops.append(loop)
            for block in reversed(tasks[task].blocks):
                pending += _tasks_reversed(blocks, block)

    def widened(self, begin: int, end: int) -> tuple[int, int]:
        """The interval from ``begin`` to ``end``, extended to whole loops that contain only one of
        the two.
        """
        for position in (begin, end):
            loop = self._loops[position]
            while loop >= 0 and not (begin > loop and end <= self._last[loop]):
                begin, end = min(begin, loop), max(end, self._last[loop])
                loop = self._outer[loop]
        return begin, end


def _tasks_reversed(blocks: Sequence[Block], number: int) -> list[int]:
    block = blocks[number]
    return list(reversed(range(block.first, block.first + block.count)))


def _overlaps(planned: Sequence[int], intervals: Mapping[int, tuple[int, int]]) -> dict[int, tuple[int, ...]]:
    """For each of ``planned``, in ascending order, the earlier buffers whose intervals overlap its own.

    A sweep over the starts of intervals: its time is proportional to the number of overlaps.
    """
    found: dict[int, list[int]] = {buffer: [] for buffer in planned}
    live: list[tuple[int, int]] = []  # (end, buffer), a heap
    for begin, end, buffer in sorted((*intervals[b], b) for b in planned if b in intervals):
        while live and live[0][0] < begin:
            heapq.heappop(live)
        for _, other in live:
            found[max(buffer, other)].append(min(buffer, other))
        heapq.heappush(live, (end, buffer))
    return {buffer: tuple(sorted(others)) for buffer, others in found.items()}


@dataclass(frozen=True)
class LiveRanges:
    """The lifetimes of buffers if tasks run sequentially."""

    order: Sequence[int]
    """The tasks in sequential order; those of inner blocks follow the task that contains them."""
    spans: Mapping[int, tuple[int, int]]
    """For each buffer, its first and last position in that order."""
    live: Sequence[Sequence[int]]
    """The live buffers at each position, without those that only other branches need."""


def live_ranges(planned: Collection[int], tasks: Sequence[Task], blocks: Sequence[Block]) -> LiveRanges:
    """The lifetimes of the ``planned`` buffers that tasks access."""
    order, excluded = _in_order(tasks, blocks, 0)
    position_of = {task: position for position, task in enumerate(order)}
    touched = {buffer: found for buffer, found in accesses(tasks).items() if buffer in planned}
    for loop, body in loop_masks(tasks, blocks).items():
        inside = {task for task in order if body >> task & 1}
        for found in touched.values():
            if not {loop, *inside}.isdisjoint(found) and not inside.issuperset(found):  # see conflicts
                found += inside.difference(found)
    positions = {buffer: [position_of[task] for task in found] for buffer, found in touched.items()}
    spans = {buffer: (min(found), max(found)) for buffer, found in positions.items()}
    begins: dict[int, list[int]] = defaultdict(list)
    for buffer, (first, _) in sorted(spans.items()):
        begins[first].append(buffer)
    live: list[int] = []
    found_live: list[Sequence[int]] = []
    for position, now in enumerate(order):
        live = [buffer for buffer in live if spans[buffer][1] >= position] + begins[position]
        apart = excluded.get(now, 0)
        found_live.append(
            [b for b in live if not apart or _is_live(position, touched[b], position_of, apart)]
        )
    return LiveRanges(order, spans, found_live)


def _is_live(position: int, touched: Sequence[int], position_of: Mapping[int, int], apart: int) -> bool:
    """Whether a buffer is live at ``position`` if the tasks in the mask ``apart`` do not run."""
    here = [position_of[task] for task in touched if not apart >> task & 1]
    return bool(here) and min(here) <= position <= max(here)


def live_bytes(sizes: Mapping[int, int], tasks: Sequence[Task], blocks: Sequence[Block]) -> int:
    """The largest sum of ``sizes`` (by planned buffer) live at one task: a lower bound for the arena."""
    found = live_ranges(sizes.keys(), tasks, blocks).live
    return max((sum(sizes[buffer] for buffer in live) for live in found), default=0)


def _in_order(
    tasks: Sequence[Task], blocks: Sequence[Block], number: int
) -> tuple[list[int], dict[int, int]]:
    """The tasks of a block in sequential order, and for each task the mask of the tasks in other branches."""
    order: list[int] = []
    excluded: dict[int, int] = {}
    block = blocks[number]
    for index in range(block.first, block.first + block.count):
        order.append(index)
        branches = [_in_order(tasks, blocks, branch) for branch in tasks[index].blocks]
        masks = [reduce(or_, (1 << task for task in inner), 0) for inner, _ in branches]
        for k, (inner, inner_excluded) in enumerate(branches):
            others = reduce(or_, (mask for j, mask in enumerate(masks) if j != k), 0)
            excluded |= {task: inner_excluded.get(task, 0) | others for task in inner}
            order += inner
    return order, excluded
