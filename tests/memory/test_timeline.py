"""The timeline of buffers, compared with the tasks and with areas that are filled cell by cell."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphwright.low_ir.tasks import Block, Operand, Storage, Task, TaskGraph, TaskKind
from graphwright.memory.liveness import live_ranges
from graphwright.memory.timeline import Timeline, timeline

from .programs import PLANNED, Drafter, planned


def drawn(seed: int, threads: int) -> tuple[TaskGraph, Timeline]:
    """A random program on one to three streams, and the timeline of its plan."""
    random = Random(seed)
    program = Drafter(random, random.randrange(1, 4)).program(random.randrange(12))
    plan = planned(program, threads)
    return program, timeline(program, plan["sizes"], plan["offsets"], plan["arena"], threads)


def running_order(program: TaskGraph, block: int = 0) -> Iterator[int]:
    """The tasks in the order in which they run; the tasks of a block follow the task that contains it."""
    for task in range(program.blocks[block].first, program.blocks[block].first + program.blocks[block].count):
        yield task
        for inner in program.tasks[task].blocks:
            yield from running_order(program, inner)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 3))
def test_no_two_buffers_share_a_byte_at_any_task(seed: int, threads: int) -> None:
    _, line = drawn(seed, threads)
    painted = np.zeros((len(line.tasks), line.arena // 64), np.int32)
    for buffer in line.buffers:
        assert buffer.offset % 64 == buffer.bytes % 64 == 0 < buffer.bytes
        cells = slice(buffer.offset // 64, (buffer.offset + buffer.bytes) // 64)
        assert cells.stop <= painted.shape[1]
        painted[buffer.first : buffer.last + 1, cells] += 1
    assert painted.max(initial=0) <= 1


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 3))
def test_the_live_bytes_at_the_peak_fit_into_the_arena(seed: int, threads: int) -> None:
    _, line = drawn(seed, threads)
    assert sum(buffer.bytes for buffer in line.at_peak) == line.live_bytes == max(line.live, default=0)
    assert line.live_bytes <= line.arena
    assert all(buffer.first <= line.peak <= buffer.last for buffer in line.at_peak)
    covered = [0] * len(line.tasks)
    for buffer in line.buffers:
        for task in range(buffer.first, buffer.last + 1):
            covered[task] += buffer.bytes
    assert all(live <= most for live, most in zip(line.live, covered, strict=True))


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**6))
def test_a_buffer_is_live_at_every_task_that_accesses_it(seed: int) -> None:
    program, line = drawn(seed, 2)
    order = list(running_order(program))
    assert len(order) == len(line.tasks) == len(program.tasks)
    spans = {buffer.number: (buffer.first, buffer.last) for buffer in line.buffers}
    for place, number in enumerate(order):
        task = program.tasks[number]
        for buffer in {task.scratch, *(o.buffer for o in task.operands if isinstance(o, Operand))}:
            if buffer >= 0 and program.buffers[buffer].storage in PLANNED and buffer in spans:
                first, last = spans[buffer]
                assert first <= place <= last
    for number, buffer in enumerate(program.buffers):
        has_bytes = program.shape[buffer.size].a > 0
        touched = any(
            number in (t.scratch, *(o.buffer for o in t.operands if isinstance(o, Operand)))
            for t in program.tasks
        )
        assert (number in spans) == (buffer.storage in PLANNED and has_bytes and touched)


def task(*buffers: int, name: str = "", blocks: tuple[int, ...] = ()) -> Task:
    kind = TaskKind.IF if blocks else TaskKind.LAUNCH
    return Task(kind, tuple(Operand(b, 0) for b in buffers), (len(buffers) - 1,), blocks=blocks, name=name)


def test_live_ranges_of_a_chain_with_a_residual() -> None:
    tasks = [task(0), task(0, 1), task(1, 2), task(0, 2, 3)]
    found = live_ranges(range(4), tasks, [Block(0, 4)])
    assert found.order == [0, 1, 2, 3]
    assert found.spans == {0: (0, 3), 1: (1, 2), 2: (2, 3), 3: (3, 3)}
    assert [list(live) for live in found.live] == [[0], [0, 1], [0, 1, 2], [0, 2, 3]]


def test_a_branch_that_is_not_chosen_keeps_nothing_alive() -> None:
    tasks = [task(0), task(0, blocks=(1, 2)), task(1), task(1), task(2)]
    found = live_ranges(range(3), tasks, [Block(0, 3), Block(3, 1), Block(4, 1)])
    assert found.order == [0, 1, 3, 4, 2]
    assert found.spans[1] == (2, 4)
    assert [list(live) for live in found.live] == [[0], [0], [1], [2], [1]]


@pytest.mark.parametrize("threads", [1, 4])
def test_scratch_counts_once_for_each_thread(threads: int) -> None:
    program, line = drawn(3, threads)
    assert any(buffer.is_scratch for buffer in line.buffers)
    for buffer in line.buffers:
        size = program.shape[program.buffers[buffer.number].size].a
        is_scratch = program.buffers[buffer.number].storage is Storage.SCRATCH
        assert buffer.bytes == -(-size // 64) * 64 * (threads if is_scratch else 1)
        assert buffer.is_scratch == is_scratch
