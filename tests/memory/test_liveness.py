"""Which buffers may not overlap: of programs in one stream by intervals, else by what happens before what."""

from __future__ import annotations

from functools import reduce
from operator import and_, or_
from random import Random

import pytest

from graphwright.low_ir.tasks import Block, Operand, Task, TaskGraph, TaskKind
from graphwright.memory.liveness import accesses, conflicts, happens_before, loop_masks

from .programs import PLANNED, Drafter


def planned(program: TaskGraph) -> list[int]:
    return [n for n, b in enumerate(program.buffers) if b.storage in PLANNED]


def by_definition(program: TaskGraph) -> dict[int, tuple[int, ...]]:
    """Pairs of buffers of which neither is past when the other is used; loops use what they hand on."""
    before, touched = happens_before(program.tasks, program.blocks), accesses(program.tasks)
    users = {n: reduce(or_, (1 << task for task in touched[n]), 0) for n in planned(program)}
    past = {n: reduce(and_, (before[task] for task in touched[n]), -1) for n in users}
    for loop, body in loop_masks(program.tasks, program.blocks).items():
        for n in users:
            if users[n] & (body | 1 << loop) and users[n] & ~body:
                users[n] |= body
                past[n] &= before[loop]
    return {
        n: tuple(m for m in users if m < n and users[m] & ~past[n] and users[n] & ~past[m]) for n in users
    }


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("streams", [1, 3])
def test_conflicts_equal_those_by_definition(seed: int, streams: int) -> None:
    program = Drafter(Random(seed), streams).program(count=seed % 13)
    assert conflicts(planned(program), program.tasks, program.blocks) == by_definition(program)


def chain(length: int) -> tuple[list[Task], list[Block]]:
    """Task k reads buffer k and writes buffer k + 1."""
    tasks = [
        Task(TaskKind.LAUNCH, (Operand(k, 0), Operand(k + 1, 0)), (1,), after=(k - 1,) if k else ())
        for k in range(length)
    ]
    return tasks, [Block(0, length)]


def test_a_chain_has_a_conflict_for_each_link() -> None:
    tasks, blocks = chain(3000)
    found = conflicts(range(3001), tasks, blocks)
    assert found == {0: ()} | {k: (k - 1,) for k in range(1, 3001)}


def test_blocks_may_be_nested_deeper_than_python_calls() -> None:
    depth = 2000
    tasks = [Task(TaskKind.LOOP, (Operand(k, 0),), (0,), blocks=(k + 1,)) for k in range(depth)] + [
        Task(TaskKind.LAUNCH, (Operand(depth, 0),), (0,))
    ]
    found = conflicts(range(depth + 1), tasks, [Block(k, 1) for k in range(depth + 1)])
    assert found[depth] == tuple(range(depth))
