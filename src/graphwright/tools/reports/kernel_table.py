"""``explain --kernels``: the candidates of each task, the chosen one, and the reasons against the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from graphwright.compiler.remark_text import decode_remarks
from graphwright.cost.nominal import NOMINAL_SIZES
from graphwright.executable.target_code import TargetCode
from graphwright.kernels.kernel_choice import KernelChoice, NotTaken, WhyNot
from graphwright.low_ir.evaluate import register_values
from graphwright.low_ir.tasks import FunctionOperand, Task, TaskGraph, TaskKind
from graphwright.package.package import Package
from graphwright.records import dataclass
from graphwright.support.escaping import terminal
from graphwright.support.source_names import sources_text
from graphwright.support.units import duration_text
from graphwright.tools.console import note, paragraph, say

MOST_TASKS: Final = 12
"""The most different tasks that are shown, which are those with the longest predicted time."""
MOST_OTHERS: Final = 2
"""The most candidates of a task that are shown in addition to the chosen one."""
MOST_NAMES: Final = 3
_NAME: Final = 40
_HEAD: Final = (
    "predicted time of a task on one core, its kernel and nodes; "
    "then the candidates that were not chosen, and why"
)


@dataclass(frozen=True)
class ExplainedTask:
    """A task of program ``program`` for ``isa``, and the choices for the nodes that it computes. ``number``
    is -1 if the tasks are unknown.
    """

    program: int
    isa: str
    number: int
    name: str
    kernels: tuple[str, ...]
    predicted_ns: int | None
    choices: tuple[KernelChoice, ...]

    @property
    def others(self) -> list[NotTaken]:
        """The candidates that were not chosen, legal ones first."""
        found = dict.fromkeys(other for choice in self.choices for other in choice.others)
        return sorted(found, key=lambda other: (other.ns is None, other.ns or 0))


def explained_tasks(package: Package) -> list[ExplainedTask]:
    """The tasks of the main entry, in order; dynamic dimensions are estimated. For an untrusted package, the
    nodes for which kernels were chosen. Raises PackageError.
    """
    known: dict[str, KernelChoice] = {}
    for choice in decode_remarks(package.main.remarks).kernels:
        known.setdefault(choice.location, choice)
    if not package.trusted:
        return [
            ExplainedTask(0, "", -1, each.location, each.taken, each.ns, (each,)) for each in known.values()
        ]
    return [
        each
        for number, program in enumerate(package.main.programs())
        for target in program.targets.values()
        for each in _tasks(number, target, known)
    ]


def _tasks(number: int, target: TargetCode, known: Mapping[str, KernelChoice]) -> Iterator[ExplainedTask]:
    graph = target.task_graph
    registers = register_values(graph, {}, NOMINAL_SIZES[0])
    for index, task in enumerate(graph.tasks):
        locations = (task.name, *task.name.split(", "))
        choices = tuple(known[location] for location in dict.fromkeys(locations) if location in known)
        ns = registers[task.work] if task.work >= 0 else None
        yield ExplainedTask(number, target.name, index, task.name, _kernels(graph, task), ns, choices)


def _kernels(graph: TaskGraph, task: Task) -> tuple[str, ...]:
    if task.kind is TaskKind.HOSTCALL:
        return (f"host: {graph.hosts[task.kernel].op.partition('[')[0]}",)
    if task.kind is not TaskKind.LAUNCH:
        return (task.kind.name.lower(),)
    hooks = [operand.kernel for operand in task.operands if isinstance(operand, FunctionOperand)]
    return tuple(graph.kernels[kernel].symbol for kernel in (task.kernel, *hooks))


def kernel_facts(package: Package) -> dict[str, Any]:
    """All tasks, and the meanings of the codes. Raises PackageError."""
    return {
        "codes": {code.value: code.means for code in WhyNot},
        "tasks": [
            {
                "program": task.program,
                "isa": task.isa,
                "task": task.number if task.number >= 0 else None,
                "nodes": task.name,
                "kernels": list(task.kernels),
                "predicted_ns": task.predicted_ns,
                "not_taken": [
                    {
                        "kernel": o.name,
                        "code": o.code.value,
                        "why": o.why or o.code.means,
                        "predicted_ns": o.ns,
                    }
                    for o in task.others
                ],
            }
            for task in explained_tasks(package)
        ],
    }


def show_kernels(package: Package) -> None:
    """Shows the tasks with the longest predicted time, each with its candidates; equal tasks are shown
    once.
    """
    equal: dict[tuple[object, ...], list[ExplainedTask]] = {}
    for task in explained_tasks(package):
        key = task.isa, task.kernels, task.predicted_ns, tuple(task.others)
        equal.setdefault(key, []).append(task)
    groups = sorted(equal.values(), key=lambda tasks: -len(tasks) * (tasks[0].predicted_ns or 0))
    if groups:
        say(paragraph(_HEAD))
    for tasks in groups[:MOST_TASKS]:
        say("\n".join(map(paragraph, _lines(tasks))))
    if left := sum(map(len, groups[MOST_TASKS:])):
        note(f"{left} shorter tasks are not shown: --json lists all")


def _lines(tasks: Sequence[ExplainedTask]) -> Iterator[str]:
    """The lines for tasks that differ only in their nodes."""
    first, count = tasks[0], f"{len(tasks)} x " if len(tasks) > 1 else ""
    start = f"{_time(first.predicted_ns)}  {count}{' with '.join(first.kernels)}: "
    names = ", ".join(sources_text(task.name, _NAME) for task in tasks[:MOST_NAMES])
    yield f"{start}{names}{', ...' if len(tasks) > MOST_NAMES else ''}"
    others = first.others
    for other in others[:MOST_OTHERS]:
        why = f": {other.why}" if other.why else ""
        yield f"{_time(other.ns)}    not {terminal(other.name)} [{other.code.value}]{why}"
    if not others:
        yield f"{'':>9}    the only candidate"
    elif len(others) > MOST_OTHERS:
        yield f"{'':>9}    and {len(others) - MOST_OTHERS} more"


def _time(ns: int | None) -> str:
    return f"{'-' if ns is None else duration_text(ns):>9}"
