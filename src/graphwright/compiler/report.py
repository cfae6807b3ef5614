"""The compile report in plain text: saved in the package and returned by ``Model.report()``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from graphwright.cost.choices import Choice, choices_in
from graphwright.executable.nodes import BindSize, CallProgram, HostProgram, Program
from graphwright.kernels.launch import Alternative, Copy, Launch, Run, SelectedNode
from graphwright.kernels.select import host_steps
from graphwright.kernels.steps import all_steps
from graphwright.passes.base import Reason, Record
from graphwright.records import replace
from graphwright.support.escaping import terminal
from graphwright.support.message_text import counted
from graphwright.support.source_names import sources_text

MAX_REASONS = 200
_NAME = 80
"""The most characters of the names of a node."""
_REASON = 400
"""The most reasons that are listed; the rest are counted."""


def compile_report(records: Sequence[Record], steps: Sequence[SelectedNode]) -> str:
    """The report of one program: passes and their changes, kernels, nodes that run in Python, and what was
    not optimized and why.
    """
    sections = (
        _passes(records),
        _kernels(steps),
        _choices(steps),
        _measured(records),
        _hosts(steps),
        _reasons(records),
    )
    return "\n".join(line for section in sections for line in section) + "\n"


def host_program_report(program: HostProgram, reports: Mapping[int, str]) -> str:
    """The report of a host program: the nodes that the host runs, why, and the reports of subgraphs by
    number.
    """
    lines = ["host program", *_steps(program, 1)]
    for number, report in reports.items():
        lines += [f"subgraph {number}", *(f"  {line}" for line in report.splitlines())]
    return "\n".join(lines) + "\n"


def _steps(program: HostProgram, depth: int) -> Iterable[str]:
    margin = "  " * depth
    for step in program.steps:
        if isinstance(step, CallProgram):
            compiled = isinstance(step.callee, Program)
            when = "" if compiled else ", compiled at the first run, when the ranks of its inputs are known"
            yield f"{margin}subgraph {step.number}{when}"
            continue
        if isinstance(step, BindSize):
            yield f"{margin}{terminal(step.node)}: binds a data-dependent dimension"
            continue
        how = "in native code, called from Python" if step.repeats else "in Python"
        yield f"{margin}{terminal(step.node)}: {how}, as {terminal(step.reason)}"
        for number, body in enumerate(step.bodies):
            yield f"{margin}  body {number}"
            yield from _steps(body, depth + 2)


DYNAMIC = "dynamic"
"""The title of the last section of a report: sizes that stayed dynamic."""


def with_dynamic(report: str, lines: Sequence[str]) -> str:
    """``report`` with a section on sizes that stayed dynamic, and why."""
    section = [DYNAMIC, *(f"  {terminal(line, 500)}" for line in lines)] if lines else [f"{DYNAMIC}: nothing"]
    return report + "\n".join(section) + "\n"


def dynamic_lines(report: str) -> list[str]:
    """The lines of the section on dynamic sizes in a report."""
    _, found, section = f"\n{report}".rpartition(f"\n{DYNAMIC}\n")
    return [line.strip() for line in section.splitlines()] if found else []


def _passes(records: Sequence[Record]) -> Iterable[str]:
    yield "passes"
    for record in records:
        if record.modified or 0 in record.counts.values():  # rules that never applied
            done = ", ".join(f"{change} {count}" for change, count in record.counts.items())
            nodes = f" ({record.nodes_before} -> {record.nodes_after} nodes)" if record.nodes_before else ""
            yield f"  {record.name}: {done}{nodes}"


def _kernels(steps: Sequence[SelectedNode]) -> Iterable[str]:
    """The number of launches of each kernel, most used first."""
    launches: Counter[str] = Counter()
    for step in all_steps(steps):
        for launch in step.action.launches if isinstance(step.action, Run) else ():
            launches[_name(launch)] += 1
    yield "kernels"
    for name, count in sorted(launches.items(), key=lambda item: (-item[1], item[0])):
        yield f"  {count:4} {name}"


def _name(launch: Launch | Copy) -> str:
    if isinstance(launch, Copy):
        return "copy"
    return launch.kernel.symbol + (f" with {launch.hook.kernel.symbol}" if launch.hook else "")


def _choices(steps: Sequence[SelectedNode]) -> Iterable[str]:
    """Nodes that several kernels could compute: the chosen one, and those predicted to take longer."""
    nodes: dict[tuple[Alternative, ...], list[str]] = {}
    for step in all_steps(steps):
        if step.alternatives:
            nodes.setdefault(step.alternatives, []).append(step.node.location)
    if nodes:
        yield "chosen by predicted time on one core"
    for (taken, *others), locations in list(nodes.items())[:MAX_REASONS]:
        slower = ", ".join(map(_predicted, others))
        yield f"  {terminal(locations[0])}{_and_more(locations[1:])}: {_predicted(taken)}; not {slower}"


def _predicted(alternative: Alternative) -> str:
    return f"{' + '.join(alternative.kernels) or 'no kernel'} ({alternative.ns / 1000:.1f} us)"


def _measured(records: Sequence[Record]) -> Iterable[str]:
    """The choices that a tuning record changed, and their measured times."""
    known: dict[str, list[Choice]] = {}
    for choice in choices_in(note for record in records for note in record.notes):
        if choice.measured is not None:
            known.setdefault(choice.workload, []).append(choice)
    if not known:
        return
    changed = [choices for choices in known.values() if choices[0].is_changed]
    alternatives = sum(len(choices[0].alternatives) for choices in known.values())
    workloads = counted(len(known), "workload")
    yield f"measured: {workloads} with {counted(alternatives, 'alternative')}; changed: {len(changed)}"
    for first, *more in changed[:MAX_REASONS]:
        instead = f"{first.taken} for {first.alternatives[0]}"
        yield f"  {terminal(first.location)}{_and_more(more)}: {instead}{_time(first)}"


def _and_more(others: Sequence[object]) -> str:
    return f" (and {len(others)} more)" if others else ""


def _time(choice: Choice) -> str:
    times = choice.time_of(choice.taken)
    if times is None:
        return ""
    return f", {times.median:.3f} of its time ({times.low:.3f} to {times.high:.3f})"


def _hosts(steps: Sequence[SelectedNode]) -> Iterable[str]:
    found = host_steps(steps)
    yield "in Python" if found else "in Python: nothing"
    for node, reason in found:
        yield f"  {terminal(node.location)}: {reason}"


def _reasons(records: Sequence[Record]) -> Iterable[str]:
    """Each reason once, with the first node that it applies to."""
    grouped: dict[str, list[Reason]] = {}
    for record in records:
        for reason in record.reasons:
            grouped.setdefault(reason.why, []).append(reason)
    yield "not applied, and why"
    for reasons in list(grouped.values())[:MAX_REASONS]:
        first = replace(reasons[0], location=sources_text(reasons[0].location, _NAME))
        yield f"  {terminal(str(first), _REASON)}{_and_more(reasons[1:])}"
    if len(grouped) > MAX_REASONS:
        yield f"  and {len(grouped) - MAX_REASONS} more reasons"
