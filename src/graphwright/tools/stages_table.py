"""How ``inspect`` shows models that are cut: what the host runs and why, and the parts between."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from graphwright.lower.tasks import TaskKind
from graphwright.package.package import TensorSpec
from graphwright.package.stages import FrontStep, HostStep, PartStep, Stages
from graphwright.tools.console import say, table

MOST_NAMES = 4
"""Names of values that are shown; the others are counted."""


def show_stages(stages: Stages) -> None:
    """A row for each step, in the order in which they run."""
    say(f"host program: {stages_text(stages)}")
    table([*_rows(stages, 0)], ["step", "what", "reads", "writes"])


def stages_text(stages: Stages) -> str:
    """``2 parts, 1 node run by Python``, and loops in native code if there are any."""
    loops = sum(host.repeats for host in stages.hosts())
    nodes = len(stages.hosts()) - loops
    texts = [counted(len(stages.parts()), "subgraph")]
    if nodes:
        texts.append(f"{counted(nodes, 'node')} run in Python")
    if loops:
        texts.append(f"{counted(loops, 'loop')} in native code")
    return ", ".join(texts)


def counted(number: int, what: str) -> str:
    """``1 part``, ``2 parts``"""
    return f"{number} {what}{'' if number == 1 else 's'}"


def _rows(stages: Stages, depth: int) -> Iterator[list[str]]:
    for step in stages.steps:
        reads = [stages.values[number] for number in step.inputs if number is not None]
        makes = _names([stages.values[number] for number in step.outputs])
        if isinstance(step, PartStep):
            sizes = [f"size {name}" for name in step.sizes]
            yield [f"{'  ' * depth}subgraph {step.number}", _part_text(step), _names(reads, sizes), makes]
        elif isinstance(step, FrontStep):
            yield [f"{'  ' * depth}{step.place}", "binds a size that depends on data", _names(reads), makes]
        else:
            yield [f"{'  ' * depth}{step.place}", _host_text(step), _names(reads), makes]
            for number, body in enumerate(step.bodies):
                yield [f"{'  ' * depth}  body {number}", "", "", ""]
                yield from _rows(body, depth + 2)


def _part_text(part: PartStep) -> str:
    if part.is_open:
        return "compiled at the first run, when the ranks of its inputs are known"
    texts = []
    for target in part.program.targets.values():
        hosts = sum(task.kind is TaskKind.HOSTCALL for task in target.program.tasks)
        python = f", {hosts} of them in Python" if hosts else ""
        texts.append(f"{counted(len(target.program.tasks), 'task')}{python}")
    return "; ".join(texts)


def _host_text(host: HostStep) -> str:
    how = "in native code, called from Python" if host.repeats else "in Python"
    return f"{host.op.partition('[')[0]} {how}: {host.reason}"


def _names(specs: Sequence[TensorSpec], more: Sequence[str] = ()) -> str:
    names = [*(spec.name or "?" for spec in specs), *more]
    rest = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {rest} more" if rest > 0 else "")
