"""The picture of a program's tasks: an edge is a buffer that one task writes and another reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphwright.cost.nominal import NOMINAL_SIZES
from graphwright.kernels.launch import Alternative
from graphwright.low_ir.evaluate import register_values
from graphwright.low_ir.tasks import FunctionOperand, Storage, Task, TaskGraph, TaskKind
from graphwright.records import dataclass, field, replace
from graphwright.view.picture import INPUT, OUTPUT, GraphPicture, Group, PictureEdge, PictureNode
from graphwright.view.scopes import Groups, Path, simplified

TASKS = "tasks"
"""The stage of this picture."""


@dataclass(frozen=True)
class TaskContext:
    """Facts about tasks that their programs do not contain.

    ``sources`` are the source nodes of each node of the last graph; the name of a task is composed of the
    names of such nodes. ``alternatives`` are the candidate kernels by name of the task. ``sizes`` are the
    shapes of inputs for predictions; unknown sizes are estimated. ``measured_ns`` are measured times of the
    tasks of one program, by number. ``scopes``: see :class:`Groups`.
    """

    sources: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    alternatives: Mapping[str, Sequence[Alternative]] = field(default_factory=dict)
    sizes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    measured_ns: Mapping[int, float] = field(default_factory=dict)
    scopes: Mapping[str, Path] = field(default_factory=dict)

    def sources_of(self, name: str) -> tuple[str, ...]:
        """The source nodes of a task; none if its name is not composed of known names."""
        if name in self.sources:
            return self.sources[name]
        joined = [self.sources.get(part, ()) for part in name.split(", ")]
        return tuple(dict.fromkeys(source for sources in joined for source in sources))


def picture_of_tasks(programs: Sequence[TaskGraph], context: TaskContext) -> GraphPicture:
    """The picture of all ``programs`` of a model. If there are several, each one is a group."""
    nodes: list[PictureNode] = []
    edges: list[PictureEdge] = []
    groups = Groups(context.scopes)
    known = context if len(programs) == 1 else replace(context, measured_ns={})
    for number, program in enumerate(programs):
        top = groups.add(Group(f"program {number}"))
        _TaskPictureBuilder(program, known, nodes, edges, groups).block(0, top)
    return simplified(GraphPicture(TASKS, tuple(nodes), tuple(edges), tuple(groups.groups)))


class _TaskPictureBuilder:
    def __init__(
        self,
        program: TaskGraph,
        context: TaskContext,
        nodes: list[PictureNode],
        edges: list[PictureEdge],
        groups: Groups,
    ) -> None:
        self._program, self._context = program, context
        self._nodes, self._edges, self._groups = nodes, edges, groups
        self._registers = register_values(program, context.sizes, NOMINAL_SIZES[0])
        self._writer: dict[int, int] = {}
        """The node that wrote each buffer last."""

    def block(self, number: int, group: int) -> None:
        """Adds the tasks of a block; for the first block also the inputs and outputs of the program."""
        entry, program = number == 0, self._program
        if entry:
            self._bindings(INPUT, (Storage.INPUT, Storage.STATE), group)
        block = program.blocks[number]
        for index in range(block.first, block.first + block.count):
            self._task(index, program.tasks[index], group)
        if entry:
            self._bindings(OUTPUT, (Storage.OUTPUT,), group)

    def _bindings(self, op: str, storages: Sequence[Storage], group: int) -> None:
        for number, buffer in enumerate(self._program.buffers):
            if buffer.storage not in storages:
                continue
            box = self._add(PictureNode(op, buffer.name, group, facts={"buffer": f"b{number}"}))
            if op == INPUT:
                self._writer[number] = box
            else:
                self._read(number, box)

    def _task(self, index: int, task: Task, top: int) -> None:
        sources = self._context.sources_of(task.name)
        scope = self._groups.path(sources)
        group = self._groups.scope(top, scope)
        if task.blocks:
            group = self._groups.add(Group(task.name or f"t{index}", group))
        kernels = self._kernels(task)
        facts = {"task": f"t{index}", "operands": self._operands(task)}
        facts |= {"kernel": ", ".join(kernels)} if kernels else {}
        facts |= self._alternatives(task)
        facts |= {"after": ", ".join(f"t{earlier}" for earlier in task.after)} if task.after else {}
        figures = self._figures(index, task)
        head = self._head(task)
        box = self._add(PictureNode(head, task.name, group, sources, scope, facts, figures, kernels=kernels))
        for position, operand in enumerate(task.operands):
            if operand is None or isinstance(operand, FunctionOperand):
                continue
            # a task may read a buffer that it also writes
            if position not in task.writes or operand.buffer in self._writer:
                self._read(operand.buffer, box)
        for position in task.writes:
            operand = task.operands[position]
            if operand is not None and not isinstance(operand, FunctionOperand):
                self._writer[operand.buffer] = box
        for number, block in enumerate(task.blocks):
            self.block(block, self._groups.add(Group(f"block {number}", group)))

    def _figures(self, index: int, task: Task) -> dict[str, float]:
        """The bytes that a task reads and writes, without weights and scratch memory, and its time if
        known.
        """
        pointers = [o for o in task.operands if o is not None and not isinstance(o, FunctionOperand)]
        buffers = {o.buffer: self._program.buffers[o.buffer] for o in pointers}
        moved = [b.size for b in buffers.values() if b.storage not in (Storage.WEIGHT, Storage.SCRATCH)]
        figures: dict[str, float] = {"bytes": sum(self._registers[size] for size in moved)}
        if task.work >= 0:
            figures["predicted_ns"] = self._registers[task.work]
        if index in self._context.measured_ns:
            figures["measured_ns"] = self._context.measured_ns[index]
        return figures

    def _alternatives(self, task: Task) -> dict[str, str]:
        """The candidate kernels of a task, ordered by predicted time."""
        found = self._context.alternatives.get(task.name, ())
        lines = [f"{each.ns / 1e3:.1f} us  {', '.join(each.kernels)}" for each in found]
        return {"chosen from": "\n".join(lines)} if len(lines) > 1 else {}

    def _head(self, task: Task) -> str:
        """The title of a task: the name of its kernel, of the op that Python runs, or of its kind."""
        if task.kind is TaskKind.LAUNCH:
            return self._program.kernels[task.kernel].symbol
        if task.kind is TaskKind.HOSTCALL:
            return self._program.hosts[task.kernel].op.partition("[")[0]
        return task.kind.name.lower()

    def _kernels(self, task: Task) -> tuple[str, ...]:
        if task.kind is not TaskKind.LAUNCH:
            return ()
        hooks = [o.kernel for o in task.operands if isinstance(o, FunctionOperand)]
        return tuple(self._program.kernels[number].symbol for number in (task.kernel, *hooks))

    def _operands(self, task: Task) -> str:
        return "\n".join(
            ("writes " if position in task.writes else "reads ") + self._buffer(operand.buffer)
            for position, operand in enumerate(task.operands)
            if operand is not None and not isinstance(operand, FunctionOperand)
        )

    def _buffer(self, number: int) -> str:
        buffer = self._program.buffers[number]
        name = f" {buffer.name}" if buffer.name else ""
        return f"b{number} {buffer.storage.name.lower()}{name}"

    def _read(self, buffer: int, reader: int) -> None:
        """Adds an edge from the task that wrote ``buffer``; there is none for weights."""
        writer = self._writer.get(buffer)
        if writer is not None and writer != reader:
            self._edges.append(PictureEdge(writer, reader, buffer, self._buffer(buffer)))

    def _add(self, node: PictureNode) -> int:
        self._nodes.append(node)
        return len(self._nodes) - 1
