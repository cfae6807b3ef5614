"""Ways to put a fault into the compiler for a while: into a pass, a kernel, the tasks or the memory plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pkgutil import resolve_name
from typing import Any
from unittest import mock

import numpy as np

from graphwright.compiler import code_generation, memory_budget, selection
from graphwright.compiler.memory_budget import lower_within_budget
from graphwright.compiler.pipeline import STAGES, passes_of
from graphwright.config import Options
from graphwright.ir.builtin.constant import Constant
from graphwright.ir.graph import Graph, Module, Node, Value
from graphwright.ir.loops.text import parse_kernel, print_kernel
from graphwright.kernels.candidates.generated import GeneratedKernels
from graphwright.kernels.launch import Launch, Run, SelectedNode
from graphwright.kernels.select import select_kernels
from graphwright.low_ir.tasks import Code, Task, TaskGraph
from graphwright.lower.lower import Lowered, lower
from graphwright.memory.storage import Assignment
from graphwright.passes.base import Record
from graphwright.records import replace
from graphwright.runtime.devices.this_cpu import for_this_cpu
from graphwright.targets.registry import target_of

Plant = Callable[[], Any]
"""What gives a context in which the compiler has a fault."""


# -- passes -----------------------------------------------------------------------------------------------


def in_pass(name: str, change: Callable[[Module], None]) -> Plant:
    """The pass ``name`` changes what a module computes: in its first run on a module that contains what
    ``change`` looks for.
    """

    @contextmanager
    def planted() -> Iterator[None]:
        (kind,) = {type(each) for each in _all_passes() if each.name == name}
        original, done = kind.run, list[Module]()

        def run(self: Any, module: Module, record: Record) -> bool:
            modified = original(self, module, record)
            if self.name != name or module in done:
                return bool(modified)
            with suppress(LookupError):  # other models have no such node
                change(module)
                done.append(module)
                return True
            return bool(modified)

        with mock.patch.object(kind, "run", run):
            yield

    return planted


def _all_passes() -> list[Any]:
    target = target_of(for_this_cpu(Options()))
    return [each for stage in STAGES for each in passes_of(stage, target)]


def node_at(module: Module, source: str, op: str = "") -> tuple[Graph, Node]:
    """The last node that came from ``source``, regions included, and its graph; of those of ``op``."""
    found = [
        node
        for node in module.walk()
        if source in node.sources and op in ("", node.op.name) and not isinstance(node.op, Constant)
    ]
    found = [node for node in found if not node.regions] or found
    graph = found[-1].graph
    assert graph is not None
    return graph, found[-1]


def swaps_operands(source: str, op: str = "") -> Callable[[Module], None]:
    """Exchanges the first two operands of a node."""

    def change(module: Module) -> None:
        graph, node = node_at(module, source, op)
        first, second = node.inputs[:2]
        graph.replace_input(node, 0, second)
        graph.replace_input(node, 1, first)

    return change


def drops(source: str, op: str = "") -> Callable[[Module], None]:
    """Lets readers of a node read its first operand."""

    def change(module: Module) -> None:
        graph, node = node_at(module, source, op)
        graph.replace_all_uses(node.outputs[0], node.operand(0))

    return change


def reads_another(source: str, position: int, other: str) -> Callable[[Module], None]:
    """Lets a node read the result of ``other``."""

    def change(module: Module) -> None:
        graph, node = node_at(module, source)
        graph.replace_input(node, position, node_at(module, other)[1].outputs[0])

    return change


def changes_op(source: str, op: str = "", **attributes: Any) -> Callable[[Module], None]:
    """Gives a node's op other attributes."""

    def change(module: Module) -> None:
        _, node = node_at(module, source, op)
        node.op = replace(node.op, **attributes)

    return change


def changes_constant(source: str, position: int, change: Callable[[Any], Any]) -> Callable[[Module], None]:
    """Lets a node read another constant in place of its operand."""

    def changed(module: Module) -> None:
        _, node = node_at(module, source)
        replace_constant(module, node.operand(position), change)

    return changed


def changes_made_constant(source: str, change: Callable[[Any], Any]) -> Callable[[Module], None]:
    """Changes the constant that was folded from the node ``source``."""

    def changed(module: Module) -> None:
        made = [n for n in module.main if isinstance(n.op, Constant) and source in n.sources]
        replace_constant(module, made[-1].output, change)

    return changed


def replace_constant(module: Module, value: Value, change: Callable[[Any], Any]) -> None:
    """Lets readers of the constant ``value`` read its change by ``change``."""
    node = value.producer
    assert node is not None and isinstance(node.op, Constant)
    array = np.array(module.constants[node.op.value])
    node.op = Constant(module.constants.add(np.ascontiguousarray(change(array))), node.op.type)


# -- kernels ----------------------------------------------------------------------------------------------


def in_loops(old: str, new: str) -> Plant:
    """Replaces ``old`` by ``new`` in the loops of generated kernels."""

    @contextmanager
    def planted() -> Iterator[None]:
        original = GeneratedKernels.kernels

        def kernels(self: GeneratedKernels) -> list[Any]:
            return [
                (parse_kernel(print_kernel(kernel).replace(old, new)), comment)
                for kernel, comment in original(self)
            ]

        with mock.patch.object(GeneratedKernels, "kernels", kernels):
            yield

    return planted


def in_launch(source: str, change: Callable[[Launch], Launch]) -> Plant:
    """Applies ``change`` to the launches of the node ``source``."""

    def changed(step: SelectedNode) -> SelectedNode:
        action = step.action
        if source not in step.node.sources or not isinstance(action, Run):
            return step
        launches = tuple(change(each) if isinstance(each, Launch) else each for each in action.launches)
        return replace(step, action=replace(action, launches=launches))

    @contextmanager
    def planted() -> Iterator[None]:
        def select(*arguments: Any, **named: Any) -> Any:
            chosen = select_kernels(*arguments, **named)
            return replace(chosen, steps=tuple(map(changed, chosen.steps)))

        with mock.patch.object(selection, "select_kernels", select):
            yield

    return planted


def argument(old: Any, new: Any) -> Callable[[Launch], Launch]:
    """Replaces the last argument that is ``old`` by ``new``."""

    def change(launch: Launch) -> Launch:
        if old not in launch.args:
            return launch
        position = len(launch.args) - 1 - launch.args[::-1].index(old)
        return replace(launch, args=(*launch.args[:position], new, *launch.args[position + 1 :]))

    return change


def grid_less(launch: Launch) -> Launch:
    """Leaves out one unit of a launch."""
    return replace(launch, grid=launch.grid - 1)


def without_operand(position: int) -> Callable[[Launch], Launch]:
    """Leaves out an optional operand of a kernel."""
    return lambda launch: replace(
        launch, operands=(*launch.operands[:position], None, *launch.operands[position + 1 :])
    )


def exchanged(first: int, second: int) -> Callable[[Launch], Launch]:
    """Exchanges two operands of a kernel."""

    def change(launch: Launch) -> Launch:
        operands = list(launch.operands)
        operands[first], operands[second] = operands[second], operands[first]
        return replace(launch, operands=tuple(operands))

    return change


# -- tasks and memory -------------------------------------------------------------------------------------


def in_tasks(change: Callable[[TaskGraph], TaskGraph]) -> Plant:
    """Applies ``change`` to the tasks of the program."""

    @contextmanager
    def planted() -> Iterator[None]:
        def lowered(*arguments: Any) -> Lowered:
            made = lower_within_budget(*arguments)
            return replace(made, tasks=change(made.tasks))

        with mock.patch.object(code_generation, "lower_within_budget", lowered):
            yield

    return planted


def changes_task(source: str, change: Callable[[TaskGraph, Task], Task]) -> Callable[[TaskGraph], TaskGraph]:
    """Changes the tasks of the node ``source``."""

    def changed(graph: TaskGraph) -> TaskGraph:
        tasks = [change(graph, t) if source in _names(t) else t for t in graph.tasks]
        return replace(graph, tasks=tuple(tasks))

    return changed


def with_number(old: int, new: int) -> Callable[[TaskGraph, Task], Task]:
    """Replaces arguments of a task that are ``old`` by ``new``."""

    def change(graph: TaskGraph, task: Task) -> Task:
        numbers = [each.a if each.code is Code.CONST else None for each in graph.shape]
        known = new in numbers
        args = [numbers.index(new) if known and numbers[r] == old else r for r in task.args]
        return replace(task, args=tuple(args))

    return change


def _names(task: Task) -> list[str]:
    return task.name.split(" + ")


@dataclass(frozen=True)
class Moved:
    """Replaces a pointer of a task by one of another task."""

    position: int
    source: str
    other: int

    def __call__(self, graph: TaskGraph, task: Task) -> Task:
        there = [t for t in graph.tasks if self.source in _names(t)]
        operands = list(task.operands)
        operands[self.position] = there[0].operands[self.other] if there else operands[self.position]
        return replace(task, operands=tuple(operands))


def without_conflicts(*names: str) -> Callable[[TaskGraph], TaskGraph]:
    """Lets the plan place the named buffers over live ones."""

    def changed(graph: TaskGraph) -> TaskGraph:
        gone = {k for k, buffer in enumerate(graph.buffers) if buffer.name in names}
        buffers = [
            replace(b, conflicts=() if k in gone else tuple(c for c in b.conflicts if c not in gone))
            for k, b in enumerate(graph.buffers)
        ]
        return replace(graph, buffers=tuple(buffers))

    return changed


def exchanged_blocks(graph: TaskGraph) -> TaskGraph:
    """Exchanges the branches."""
    return replace(graph, tasks=tuple(replace(t, blocks=t.blocks[::-1]) for t in graph.tasks))


def in_order(first: str, second: str) -> Plant:
    """Runs the step of ``second`` before that of ``first``, whose result it reads."""

    @contextmanager
    def planted() -> Iterator[None]:
        def order(steps: Sequence[SelectedNode], assignment: Assignment) -> Sequence[SelectedNode]:
            made = list(steps)
            places = [
                n for name in (first, second) for n, step in enumerate(made) if name in step.node.sources
            ]
            if len(places) == 2:
                k, m = places
                made[k], made[m] = made[m], made[k]
            return made

        with mock.patch.object(memory_budget, "lower", partial(lower, order=order)):
            yield

    return planted


def patched(target: str, make: Callable[[Any], Any]) -> Plant:
    """Replaces the object at ``target`` by ``make`` of it."""

    @contextmanager
    def planted() -> Iterator[None]:
        owner, _, name = target.rpartition(".")
        original = getattr(resolve_name(owner), name)
        with mock.patch(target, make(original)):
            yield

    return planted
