"""Shows host programs for ``inspect``: the Python nodes with reasons, and the subgraphs that are called."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from graphwright.executable.nodes import BindSize, CallHost, CallProgram, HostProgram, programs_of
from graphwright.executable.specs import TensorSpec
from graphwright.low_ir.tasks import TaskKind
from graphwright.support.message_text import counted
from graphwright.tools.console import say, table

MOST_NAMES = 4
"""The most names of values that are shown; the others are counted."""


def show_host_program(program: HostProgram) -> None:
    """Shows a row for each step, in execution order."""
    say(f"host program: {host_program_text(program)}")
    table([*_rows(program, 0)], ["step", "what", "reads", "writes"])


def host_program_text(program: HostProgram) -> str:
    """``2 subgraphs, 1 node run in Python``, and loops in native code if there are any."""
    loops = sum(host.repeats for host in program.hosts())
    nodes = len(program.hosts()) - loops
    texts = [counted(len(program.calls()), "subgraph")]
    if nodes:
        texts.append(f"{counted(nodes, 'node')} run in Python")
    if loops:
        texts.append(f"{counted(loops, 'loop')} in native code")
    return ", ".join(texts)


def _rows(program: HostProgram, depth: int) -> Iterator[list[str]]:
    for step in program.steps:
        reads = [program.values[number] for number in step.inputs if number is not None]
        makes = _names([program.values[number] for number in step.outputs])
        if isinstance(step, CallProgram):
            sizes = [f"size {name}" for name in step.sizes]
            yield [f"{'  ' * depth}subgraph {step.number}", _call_text(step), _names(reads, sizes), makes]
        elif isinstance(step, BindSize):
            yield [f"{'  ' * depth}{step.node}", "binds a data-dependent dimension", _names(reads), makes]
        else:
            yield [f"{'  ' * depth}{step.node}", _host_text(step), _names(reads), makes]
            for number, body in enumerate(step.bodies):
                yield [f"{'  ' * depth}  body {number}", "", "", ""]
                yield from _rows(body, depth + 2)


def _call_text(call: CallProgram) -> str:
    programs = list(programs_of(call.callee))
    if not programs:
        return "compiled at the first run, when the ranks of its inputs are known"
    texts = []
    for target in (target for program in programs for target in program.targets.values()):
        hosts = sum(task.kind is TaskKind.HOSTCALL for task in target.task_graph.tasks)
        python = f", {hosts} of them in Python" if hosts else ""
        texts.append(f"{counted(len(target.task_graph.tasks), 'task')}{python}")
    return "; ".join(texts)


def _host_text(host: CallHost) -> str:
    how = "in native code, called from Python" if host.repeats else "in Python"
    return f"{host.op.partition('[')[0]} {how}: {host.reason}"


def _names(specs: Sequence[TensorSpec], more: Sequence[str] = ()) -> str:
    names = [*(spec.name or "?" for spec in specs), *more]
    rest = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {rest} more" if rest > 0 else "")
