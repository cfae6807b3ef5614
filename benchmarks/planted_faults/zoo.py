"""Faults in models of the zoo: the seconds that it takes to name them, and to write the smallest model."""

from __future__ import annotations

import time
from typing import Any, Final

from benchmarks.models import MODELS
from graphwright.config import Options
from graphwright.ir.builtin.constant import is_constant
from graphwright.ir.graph import Module, Node
from graphwright.ir.types import F32
from graphwright.kernels.launch import Launch
from graphwright.records import replace
from graphwright.tools.commands.debug_bisect import reduced
from graphwright.tools.debugging.bisection import bisect
from graphwright.tools.debugging.ddmin import Budget
from graphwright.tools.debugging.subject import Subject, divisible, open_subject

from .faults import KERNEL, Fault, cause_of
from .plant import in_launch, in_pass, replace_constant

TOLERANCE: Final = 1e-4
SECONDS: Final = 300.0
"""That making the model smaller may take."""


def rows_of(name: str) -> list[dict[str, Any]]:
    """Finds two faults in the model ``name``; the findings, and how long they took."""
    subject = _opened(name)
    return [_row(name, fault) for fault in (_kernel_fault(subject), _pass_fault(subject))]


def _opened(name: str) -> Subject:
    """The model, compiled for the sizes of its default inputs."""
    model = MODELS[name]
    feeds = model.feeds("default", seed=0)
    shapes = {each: list(array.shape) for each, array in feeds.items()}
    return open_subject(model.path(), Options(), shapes=shapes, feeds=feeds)


def _kernel_fault(subject: Subject) -> Fault:
    """A launch in the middle of the model leaves out one of its units."""
    (program,) = subject.programs
    nodes = [step.node for step in program.run.lowered.steps if step is not None]
    large = [n for n in nodes if len(n.sources) == 1 and _is_split(program.run.lowered.steps, n)]
    source = large[len(large) // 2].sources[0]
    return Fault("a unit of a launch is left out", "", in_launch(source, _less), KERNEL, source)


def _is_split(steps: Any, node: Node) -> bool:
    launches = [
        each
        for step in steps
        if step is not None and step.node is node
        for each in step.action.launches
        if isinstance(each, Launch)
    ]
    return len(launches) == 1 and launches[0].grid != 1


def _less(launch: Launch) -> Launch:
    return launch if launch.grid == 1 else replace(launch, grid=launch.grid - 1)


def _pass_fault(subject: Subject) -> Fault:
    """A pass changes weights in the middle of the model by a tenth."""
    nodes = [n for n in subject.source.main if any(map(_is_weight, n.inputs))]
    source = nodes[len(nodes) // 2].sources[0]
    name = "algebraic"

    def change(module: Module) -> None:
        node = next(n for n in module.main if source in n.sources and any(map(_is_weight, n.inputs)))
        weight = next(value for value in node.inputs if _is_weight(value))
        assert weight is not None
        replace_constant(module, weight, lambda array: array * array.dtype.type(1.1))

    return Fault("a pass changes weights", "", in_pass(name, change), f"pass {name}", source)


def _is_weight(value: Any) -> bool:
    return value is not None and is_constant(value) and value.type.dtype is F32 and value.type.rank > 0


def _row(name: str, fault: Fault) -> dict[str, Any]:
    with fault.plant():
        start = time.perf_counter()
        subject = _opened(name)
        finding = bisect(subject, TOLERANCE)
        found = time.perf_counter()
        whole = divisible(MODELS[name].path(), subject, None)
        smallest = reduced(whole, finding, Options(), TOLERANCE, Budget(SECONDS))
        done = time.perf_counter()
    return {
        "fault": fault.name,
        "model": name,
        "named": cause_of(finding),
        "nodes": " + ".join(finding.sources),
        "found": fault.is_named(finding),
        "seconds": round(found - start, 2),
        "nodes of the model": len(whole),
        "nodes that show it": 0 if smallest is None else len(smallest.part.nodes),
        "seconds to reduce": round(done - found, 2),
    }
