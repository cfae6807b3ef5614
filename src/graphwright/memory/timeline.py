"""The buffers in an arena with their offsets and lifetimes, for reports."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from graphwright.low_ir.tasks import Operand, Storage, Task, TaskGraph
from graphwright.memory.checker.plan_facts import ALIGNMENT
from graphwright.memory.liveness import live_ranges
from graphwright.records import dataclass


@dataclass(frozen=True)
class PlacedBuffer:
    """A buffer in the arena: ``bytes`` at ``offset``, live from task ``first`` to task ``last``.

    For scratch, ``bytes`` count all threads.
    """

    number: int
    """Its index in the task graph."""
    name: str
    nodes: tuple[str, ...]
    """The source nodes whose tasks write it."""
    is_scratch: bool
    offset: int
    bytes: int
    first: int
    last: int

    @property
    def title(self) -> str:
        """A name for reports: scratch, the name of its value, or the nodes that write it."""
        return "scratch" if self.is_scratch else self.name or f"result of {', '.join(self.nodes)}"


@dataclass(frozen=True)
class Timeline:
    """The arena over the tasks of a run. Tasks are numbered from 0 in sequential order; those of branches and
    loops follow the task that contains them.
    """

    arena: int
    """The size of the arena in bytes."""
    tasks: tuple[str, ...]
    """The source nodes of each task."""
    live: tuple[int, ...]
    """Bytes that are live at each task, without those of branches that exclude the task."""
    buffers: tuple[PlacedBuffer, ...]
    at_peak: tuple[PlacedBuffer, ...]
    """The buffers that are live at the peak, the largest first."""

    @property
    def live_bytes(self) -> int:
        """The most bytes that are live at once: no arena is smaller."""
        return max(self.live, default=0)

    @property
    def peak(self) -> int:
        """The first task at which :attr:`live_bytes` are live."""
        return self.live.index(self.live_bytes) if self.live else 0


def planned_sizes(program: TaskGraph, sizes: Sequence[int], threads: int) -> dict[int, int]:
    """The aligned size of each planned buffer in the arena, by index; scratch counts once per thread."""
    copies = {Storage.ARENA: 1, Storage.SCRATCH: threads}
    return {
        number: copies[buffer.storage] * -(-size // ALIGNMENT) * ALIGNMENT
        for number, (buffer, size) in enumerate(zip(program.buffers, sizes, strict=True))
        if buffer.storage in copies
    }


def timeline(
    program: TaskGraph, sizes: Sequence[int], offsets: Sequence[int], arena: int, threads: int
) -> Timeline:
    """The timeline of a plan with these sizes and offsets of the buffers of ``program``, in bytes."""
    planned = {number: size for number, size in planned_sizes(program, sizes, threads).items() if size}
    found, writers = live_ranges(planned.keys(), program.tasks, program.blocks), _writers(program.tasks)
    buffers = {
        number: _placed(program, number, offsets[number], planned[number], writers, span)
        for number, span in sorted(found.spans.items())
    }
    live = tuple(sum(planned[number] for number in numbers) for numbers in found.live)
    at_peak = found.live[live.index(max(live))] if live else ()
    return Timeline(
        arena,
        tuple(_task_name(program.tasks[task]) for task in found.order),
        live,
        tuple(buffers.values()),
        tuple(sorted((buffers[number] for number in at_peak), key=lambda b: (-b.bytes, b.number))),
    )


def _placed(
    program: TaskGraph,
    number: int,
    offset: int,
    size: int,
    writers: Mapping[int, Sequence[str]],
    span: tuple[int, int],
) -> PlacedBuffer:
    buffer = program.buffers[number]
    is_scratch = buffer.storage is Storage.SCRATCH
    return PlacedBuffer(number, buffer.name, tuple(writers.get(number, ())), is_scratch, offset, size, *span)


def _writers(tasks: Sequence[Task]) -> Mapping[int, Sequence[str]]:
    """For each buffer, the distinct names of the tasks that write it."""
    found: dict[int, dict[str, None]] = defaultdict(dict)
    for task in tasks:
        written = [task.operands[position] for position in task.writes]
        for buffer in {task.scratch, *(o.buffer for o in written if isinstance(o, Operand))}:
            found[buffer].setdefault(_task_name(task))
    return {buffer: tuple(names) for buffer, names in found.items()}


def _task_name(task: Task) -> str:
    return task.name or task.kind.name.lower()
