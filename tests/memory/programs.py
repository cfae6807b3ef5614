"""Random programs: tasks over buffers, on several streams, with Ifs and loops inside each other; planned as
the compiler does it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

from graphwright.ir.types import U8
from graphwright.kernels.ref import KernelRef
from graphwright.low_ir.tasks import (
    Binding,
    Block,
    Buffer,
    Code,
    Instruction,
    Operand,
    Storage,
    Task,
    TaskGraph,
    TaskKind,
)
from graphwright.memory.liveness import conflicts
from graphwright.memory.planner import plan_memory
from graphwright.schedule.dependencies import Access, Hazards

PLANNED = (Storage.ARENA, Storage.SCRATCH)
INPUT, OUTPUT, WEIGHT = 0, 1, 2
"""Buffers of the one input, the one output, and a weight."""


class Drafter:
    """Draws blocks of tasks; registers hold numbers alone."""

    def __init__(self, random: Random, streams: int) -> None:
        self.random, self.streams = random, streams
        self.numbers: list[int] = []
        sizes = (self.number(64), self.number(64), self.number(64))
        storages = (Storage.INPUT, Storage.OUTPUT, Storage.WEIGHT)
        self.buffers = [Buffer(s, size) for s, size in zip(storages, sizes, strict=True)]
        self.drafts: list[list[Task]] = []

    def number(self, value: int) -> int:
        if value not in self.numbers:
            self.numbers.append(value)
        return self.numbers.index(value)

    def buffer(self, storage: Storage) -> int:
        self.buffers.append(Buffer(storage, self.number(self.random.choice((0, 1, 64, 100, 700, 5000)))))
        return len(self.buffers) - 1

    def at(self, buffer: int) -> Operand:
        return Operand(buffer, self.number(0))

    def program(self, count: int) -> TaskGraph:
        self.block([INPUT, WEIGHT], count, 2, OUTPUT)
        first, blocks = 0, []
        for draft in self.drafts:
            blocks.append(Block(first, len(draft)))
            first += len(draft)
        tasks = tuple(
            replace(task, after=tuple(blocks[n].first + a for a in task.after))
            for n, draft in enumerate(self.drafts)
            for task in draft
        )
        planned = [n for n, b in enumerate(self.buffers) if b.storage in PLANNED]
        found = conflicts(planned, tasks, blocks)
        port = Binding("x", U8, (self.number(64),))
        return TaskGraph(
            inputs=(port,),
            outputs=(port,),
            shape=tuple(Instruction(Code.CONST, value) for value in self.numbers),
            buffers=tuple(replace(b, conflicts=found.get(n, ())) for n, b in enumerate(self.buffers)),
            tasks=tasks,
            blocks=tuple(blocks),
            kernels=(KernelRef("k"),),
        )

    def block(self, known: list[int], count: int, depth: int, result: int, last: Sequence[Task] = ()) -> int:
        """A block that reads buffers of ``known`` and writes ``result`` at its end, before ``last``."""
        number, tasks, hazards = len(self.drafts), list[Task](), Hazards()
        self.drafts.append(tasks)
        known = list(known)

        def add(task: Task) -> None:
            stream = self.random.randrange(self.streams)
            after = hazards.add(len(tasks), stream, self.accesses(task))
            tasks.append(replace(task, after=after, stream=stream))

        for step in range(count + 1):
            target = result if step == count else self.buffer(Storage.ARENA)
            kind = self.random.random() if depth else 1
            if kind < 0.2:
                add(self.branch(known, depth - 1, target))
            else:
                add(self.launch(known, target))
            if 0.2 <= kind < 0.4:
                add(self.loop(known, depth - 1, target))
            known.append(target)
        for task in last:
            add(task)
        return number

    def launch(self, known: list[int], target: int) -> Task:
        reads = self.random.sample(known, min(len(known), self.random.randrange(1, 4)))
        scratch = self.buffer(Storage.SCRATCH) if self.random.random() < 0.3 else -1
        operands = tuple(map(self.at, (*reads, target)))
        return Task(TaskKind.LAUNCH, operands, (len(reads),), kernel=0, scratch=scratch)

    def branch(self, known: list[int], depth: int, target: int) -> Task:
        blocks = tuple(self.block(known, self.random.randrange(4), depth, target) for _ in range(2))
        return Task(TaskKind.IF, (self.at(self.choice(known, 1)),), blocks=blocks)

    def loop(self, known: list[int], depth: int, carried: int) -> Task:
        """It counts in a buffer of its own, reads and writes ``carried``, and may fill rows of another."""
        number, trips = self.numbered(8), self.random.randrange(4)
        others = [buffer for buffer in known if buffer != carried]
        limit = self.at(self.choice(others, 8)) if self.random.random() < 0.5 else None
        rows: list[Task] = []
        if self.random.random() < 0.5:
            operands = (self.at(self.numbered(64 * trips)), self.at(INPUT), self.at(number))
            rows.append(Task(TaskKind.COPY, operands, (0,), args=(self.number(64),)))
        body = self.block([*known, number, carried], self.random.randrange(4), depth, carried, rows)
        return Task(
            TaskKind.LOOP, (self.at(number), limit, None), (0,), args=(self.number(trips),), blocks=(body,)
        )

    def choice(self, known: Sequence[int], least: int) -> int:
        """A random buffer of ``known`` with at least ``least`` bytes."""
        return self.random.choice([b for b in known if self.numbers[self.buffers[b].size] >= least])

    def numbered(self, size: int) -> int:
        self.buffers.append(Buffer(Storage.ARENA, self.number(size)))
        return len(self.buffers) - 1

    def accesses(self, task: Task) -> list[Access]:
        own = [
            Access(o.buffer, o.offset, n in task.writes)
            for n, o in enumerate(task.operands)
            if isinstance(o, Operand)
        ]
        return own + [
            a for block in task.blocks for inner in self.drafts[block] for a in self.accesses(inner)
        ]


def planned(program: TaskGraph, threads: int) -> dict[str, Any]:
    """The plan that the native runtime would make."""
    registers = [i.a for i in program.shape]
    sizes = [registers[b.size] for b in program.buffers]
    bytes_of = [
        size if b.storage is Storage.ARENA
        else -(-size // 64) * 64 * threads if b.storage is Storage.SCRATCH
        else 0
        for b, size in zip(program.buffers, sizes, strict=True)
    ]  # fmt: skip
    offsets, arena = plan_memory(bytes_of, [b.conflicts for b in program.buffers])
    return {"registers": registers, "sizes": sizes, "offsets": offsets, "arena": arena}
