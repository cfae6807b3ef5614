"""Inserts probes into a program: tasks that copy values in the middle of a run to additional outputs.

Kernels, memory plan and order of the tasks stay unchanged, so that an error that is being debugged stays as
well.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from graphwright.ir.types import U8
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
from graphwright.records import dataclass, replace


@dataclass(frozen=True)
class Moment:
    """The time directly after a task, or directly ``before`` it."""

    task: int
    before: bool = False


@dataclass(frozen=True)
class Probe:
    """Reads ``size`` bytes at ``operand`` at a moment. In a block that does not run, the bytes are undefined;
    in a loop, they are those of the last iteration.
    """

    moment: Moment
    operand: Operand
    size: int


def with_probes(graph: TaskGraph, probes: Sequence[Probe]) -> TaskGraph:
    """``graph``, which must have one stream, with an additional output of u8 for each of ``probes``."""
    sizes = [Instruction(Code.CONST, probe.size) for probe in probes]
    zero, first_size = len(graph.shape), len(graph.shape) + 1
    first_buffer, first_output = len(graph.buffers), len(graph.outputs)
    copies: dict[Moment, list[Task]] = defaultdict(list)
    for number, probe in enumerate(probes):
        operands = Operand(first_buffer + number, zero), probe.operand
        copies[probe.moment].append(
            Task(TaskKind.COPY, operands, (0,), args=(first_size + number,), name=_name(number))
        )
    outputs = [Binding(_name(n), U8, (first_size + n,)) for n in range(len(probes))]
    buffers = [
        Buffer(Storage.OUTPUT, first_size + n, first_output + n, name=_name(n)) for n in range(len(probes))
    ]
    tasks, blocks = _with_copies(graph, copies)
    return replace(
        graph,
        shape=(*graph.shape, Instruction(Code.CONST, 0), *sizes),
        outputs=(*graph.outputs, *outputs),
        buffers=(*graph.buffers, *buffers),
        tasks=tasks,
        blocks=blocks,
    )


def _name(number: int) -> str:
    return f"probe {number}"


def _with_copies(
    graph: TaskGraph, copies: Mapping[Moment, Sequence[Task]]
) -> tuple[tuple[Task, ...], tuple[Block, ...]]:
    """The tasks of each block with ``copies`` inserted; each task depends on the one before it."""
    tasks: list[Task] = []
    blocks: list[Block] = []
    for block in graph.blocks:
        first = len(tasks)
        for number in range(block.first, block.first + block.count):
            here = copies.get(Moment(number, before=True), ()), copies.get(Moment(number), ())
            for task in (*here[0], graph.tasks[number], *here[1]):
                tasks.append(replace(task, after=(len(tasks) - 1,) if len(tasks) > first else ()))
        blocks.append(Block(first, len(tasks) - first))
    return tuple(tasks), tuple(blocks)
