"""What the compiler did to a model, in plain text: kept in its package, shown by ``Model.report()``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from graphwright.ir.names import terminal
from graphwright.kernels.launch import Copy, Launch, Run, Step
from graphwright.kernels.select import host_steps
from graphwright.memory.storage import all_steps
from graphwright.package.stages import FrontStep, PartStep, Stages
from graphwright.passes.base import Reason, Record

MAX_REASONS = 200
"""Reasons listed; the rest are counted."""


def compile_report(records: Sequence[Record], steps: Sequence[Step]) -> str:
    """Passes and what each changed, kernels in use, what runs in Python, what was left alone and why."""
    return "\n".join([*_passes(records), *_kernels(steps), *_hosts(steps), *_reasons(records)]) + "\n"


def stages_report(stages: Stages, parts: Mapping[int, str]) -> str:
    """The steps of a model that was cut: what the host runs, why, and the reports of ``parts`` by number."""
    lines = ["stages", *_steps(stages, 1)]
    for number, report in parts.items():
        lines += [f"subgraph {number}", *(f"  {line}" for line in report.splitlines())]
    return "\n".join(lines) + "\n"


def _steps(stages: Stages, depth: int) -> Iterable[str]:
    margin = "  " * depth
    for step in stages.steps:
        if isinstance(step, PartStep):
            when = (
                ", compiled at the first run, when the ranks of its inputs are known" if step.is_open else ""
            )
            yield f"{margin}subgraph {step.number}{when}"
            continue
        if isinstance(step, FrontStep):
            yield f"{margin}{terminal(step.place)}: binds a size that depends on data"
            continue
        how = "in native code, called from Python" if step.repeats else "in Python"
        yield f"{margin}{terminal(step.place)}: {how}, as {terminal(step.reason)}"
        for number, body in enumerate(step.bodies):
            yield f"{margin}  body {number}"
            yield from _steps(body, depth + 2)


DYNAMIC = "dynamic"
"""The section on what stayed dynamic, which ends a report."""


def with_dynamic(report: str, lines: Sequence[str]) -> str:
    """``report`` with what stayed dynamic, and why."""
    section = [DYNAMIC, *(f"  {terminal(line, 500)}" for line in lines)] if lines else [f"{DYNAMIC}: nothing"]
    return report + "\n".join(section) + "\n"


def dynamic_lines(report: str) -> list[str]:
    """What a report says of what stayed dynamic."""
    _, found, section = f"\n{report}".rpartition(f"\n{DYNAMIC}\n")
    return [line.strip() for line in section.splitlines()] if found else []


def _passes(records: Sequence[Record]) -> Iterable[str]:
    yield "passes"
    for record in records:
        if record.modified or 0 in record.counts.values():  # what was tried, and never applied
            done = ", ".join(f"{change} {count}" for change, count in record.counts.items())
            yield f"  {record.name}: {done} ({record.nodes_before} -> {record.nodes_after} nodes)"


def _kernels(steps: Sequence[Step]) -> Iterable[str]:
    """Launches by kernel, most used first."""
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


def _hosts(steps: Sequence[Step]) -> Iterable[str]:
    found = host_steps(steps)
    yield "in Python" if found else "in Python: nothing"
    for node, reason in found:
        yield f"  {terminal(node.place)}: {reason}"


def _reasons(records: Sequence[Record]) -> Iterable[str]:
    """Each reason once, with the first node that it was given for."""
    grouped: dict[str, list[Reason]] = {}
    for record in records:
        for reason in record.reasons:
            grouped.setdefault(reason.why, []).append(reason)
    yield "not applied, and why"
    for reasons in list(grouped.values())[:MAX_REASONS]:
        more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
        yield f"  {terminal(str(reasons[0]))}{more}"
    if len(grouped) > MAX_REASONS:
        yield f"  and {len(grouped) - MAX_REASONS} more reasons"
