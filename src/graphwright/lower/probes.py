"""Tasks that read values in the middle of a run: copies to outputs of their own, and nothing else changes.

The memory plan, the kernels and the order of the tasks stay as they are, and with them what they do wrong.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from graphwright.ir.types import U8
from graphwright.lower.tasks import (
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
from graphwright.records import dataclass, replace

BEFORE_ALL: Final = -1
"""Stands for the place in front of the first task."""


@dataclass(frozen=True)
class Probe:
    """``size`` bytes at ``operand``, as they are behind the task of that number of the entry block."""

    task: int
    operand: Operand
    size: int


def with_probes(graph: TaskGraph, probes: Sequence[Probe]) -> TaskGraph:
    """``graph``, whose tasks are of one stream, with an output of bytes for each of ``probes``."""
    sizes = [Instruction(Code.CONST, probe.size) for probe in probes]
    zero, first_size = len(graph.shape), len(graph.shape) + 1
    shape = (*graph.shape, Instruction(Code.CONST, 0), *sizes)
    first_buffer, first_output = len(graph.buffers), len(graph.outputs)
    behind: dict[int, list[Task]] = defaultdict(list)
    for number, probe in enumerate(probes):
        operands = Operand(first_buffer + number, zero), probe.operand
        behind[probe.task].append(
            Task(TaskKind.COPY, operands, (0,), args=(first_size + number,), name=_name(number))
        )
    outputs = [Binding(_name(n), U8, (first_size + n,)) for n in range(len(probes))]
    buffers = [
        Buffer(Storage.OUTPUT, first_size + n, first_output + n, name=_name(n)) for n in range(len(probes))
    ]
    return replace(
        graph,
        shape=shape,
        outputs=(*graph.outputs, *outputs),
        buffers=(*graph.buffers, *buffers),
        tasks=(*_entry(graph, behind), *_inner(graph, len(probes))),
        blocks=_blocks(graph.blocks, len(probes)),
    )


def _name(number: int) -> str:
    return f"probe {number}"


def _entry(graph: TaskGraph, behind: dict[int, list[Task]]) -> list[Task]:
    """The tasks of the entry block with copies between them: each waits for the one before it."""
    made: list[Task] = []
    for number in range(BEFORE_ALL, graph.blocks[0].count):
        here = behind.get(number, ())
        for task in here if number == BEFORE_ALL else (graph.tasks[number], *here):
            made.append(replace(task, after=(len(made) - 1,) if made else ()))
    return made


def _inner(graph: TaskGraph, added: int) -> list[Task]:
    """The tasks of branches and loops, which stand behind those of the entry block."""
    tasks = graph.tasks[graph.blocks[0].count :]
    return [replace(task, after=tuple(number + added for number in task.after)) for task in tasks]


def _blocks(blocks: Sequence[Block], added: int) -> tuple[Block, ...]:
    entry, *others = blocks
    moved = [replace(block, first=block.first + added) for block in others]
    return (replace(entry, count=entry.count + added), *moved)
