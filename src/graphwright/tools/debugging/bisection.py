"""Finds the pass, or the step of a run, that makes the outputs of a compiled model differ from an evaluation
in f64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op import Array
from graphwright.ir.types import BF16, F16
from graphwright.low_ir.probes import Moment
from graphwright.records import dataclass, replace
from graphwright.tools.check import Distance, distance
from graphwright.tools.debugging.passes import WrongPass, evaluated, farthest, first_wrong
from graphwright.tools.debugging.program_values import ProgramRun
from graphwright.tools.debugging.programs import DebuggedProgram
from graphwright.tools.debugging.steps import (
    Overwritten,
    StepResult,
    StepWalk,
    overwritten,
    same_elements,
    who_changed,
)
from graphwright.tools.debugging.subject import Subject

_EPSILON: Final = {F16: 2.0**-10, BF16: 2.0**-7}
_BYTE_EPSILON: Final = 2.0**-7
_ROUNDINGS: Final = 4
"""The tolerance of a step with rounded numbers, in units in the last place."""


@dataclass(frozen=True)
class WrongStep:
    """The first wrong step of a run: the references of its nodes, on the same operands, give another result.
    ``overwritten`` is an operand that had changed when the step read it.
    """

    program: DebuggedProgram
    result: StepResult
    overwritten: Overwritten | None


@dataclass(frozen=True)
class WrongOutput:
    """An output that differs from the result of its step: it was overwritten, or copied incorrectly. ``by``
    is the number of the task after which the value had changed; None if no task changed it.
    """

    name: str
    value: Value
    by: int | None


@dataclass(frozen=True)
class Unlocated:
    """The result if no single step exceeds the tolerance. ``worst`` is the step with the largest error.
    ``is_gone``: the outputs are right in a run on one thread in which values are read.
    """

    worst: StepResult | None
    is_gone: bool


@dataclass(frozen=True)
class Finding:
    """The error of the outputs, and its cause."""

    distance: Distance
    cause: WrongPass | WrongStep | WrongOutput | Unlocated | None
    """None if the outputs are within the tolerance."""
    steps: int = 0
    """The number of results that were checked."""

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of the nodes of the model that are at fault."""
        if isinstance(self.cause, WrongStep):
            span = self.cause.result.span
            return tuple(s for node in span.step.nodes for s in node.sources)
        if isinstance(self.cause, WrongPass):
            return tuple(self.cause.location.split(" + "))
        if isinstance(self.cause, WrongOutput):
            maker = self.cause.value.producer
            return maker.sources if maker is not None else ()
        worst = self.cause.worst if isinstance(self.cause, Unlocated) else None
        return worst.node.sources if worst is not None else ()


Notify = Callable[[str], None]
"""Receives texts about the progress."""


def bisect(subject: Subject, limit: float, notify: Notify = lambda text: None) -> Finding:
    """Finds the cause why outputs of ``subject`` differ from an evaluation in f64 by more than ``limit`` of
    their largest magnitude.
    """
    notify("evaluating the model in f64")
    expected = evaluated(subject.source, subject.arrays)
    kept = [k for k in range(len(expected)) if k not in subject.source.state_updates()]
    wanted = [expected[k] for k in kept]
    apart = farthest(subject.outputs(), wanted)
    if apart.most <= limit:  # unwritten memory may contain the right values by chance
        apart = farthest(subject.poisoned_outputs(), wanted)
    if apart.most <= limit:
        return Finding(apart, None)
    notify("looking for the pass")
    wrong = first_wrong(subject.history.whole, subject.arrays, expected, limit)
    if wrong is not None:
        return Finding(apart, wrong)
    notify("looking for the step")
    return _Search(subject, limit, wanted).finding(apart)


@dataclass
class _Search:
    """Searches the programs one by one for the step at fault."""

    subject: Subject
    limit: float
    expected: Sequence[Array]
    _count: int = 0
    _worst: StepResult | None = None
    _most: float = 0.0

    def finding(self, apart: Distance) -> Finding:
        """The first fault; if there is none, the step with the largest error."""
        for program in self.subject.programs:
            cause = self._wrong_pass(program) or self._wrong_in(program)
            if cause is not None:
                return Finding(apart, cause, self._count)
        is_gone = farthest(self.subject.poisoned_outputs(), self.expected).most <= self.limit
        return Finding(apart, Unlocated(self._worst, is_gone), self._count)

    def _wrong_pass(self, program: DebuggedProgram) -> WrongPass | None:
        """The pass at fault among those that ran on only a part of the model."""
        snapshots = program.graph.snapshots
        if snapshots[0] is self.subject.history.whole[0]:
            return None
        expected = evaluated(snapshots[0].module, program.run.arrays)
        return first_wrong(snapshots, program.run.arrays, expected, self.limit)

    def _wrong_in(self, program: DebuggedProgram) -> WrongStep | WrongOutput | None:
        walk = StepWalk(program)
        with np.errstate(all="ignore"):
            for result in walk:
                self._count += 1
                error = result.distance.most
                if not error <= step_limit(result, self.limit):
                    return WrongStep(program, result, overwritten(result, walk))
                if self._worst is None or error > self._most:
                    self._worst, self._most = result, error
        return _wrong_output(program, walk, self.limit)


def _wrong_output(program: DebuggedProgram, walk: StepWalk, limit: float) -> WrongOutput | None:
    """The first output of the run that differs from the result of its step."""
    graph, updates = program.graph.module.main, program.graph.module.state_updates()
    kept = [k for k in range(len(graph.outputs)) if k not in updates]
    for number, array in zip(kept, walk.outputs, strict=True):
        value = graph.outputs[number]
        name = graph.output_names[number]
        if value in walk.native and not same_elements(array, walk.known[value]):
            return WrongOutput(name, value, _changed_by(program.run, walk, value))
        if value not in walk.native and not distance(array, walk.known[value]).most <= limit:
            return WrongOutput(name, value, None)
    return None


def _changed_by(run: ProgramRun, walk: StepWalk, value: Value) -> int | None:
    """The number of the task that changed ``value`` after the step that made it; None if no task did."""
    last = replace(walk.native[value], moment=Moment(run.lowered.tasks.blocks[0].count - 1))
    ((array,), _) = run.read([last])
    return None if same_elements(array, walk.known[value]) else who_changed(run, last, walk.known[value])


def step_limit(result: StepResult, limit: float) -> float:
    """The tolerance of a step: ``limit``, or more if numbers of the step are rounded to 16 or 8 bits."""
    types = [result.value.type.dtype, *(value.type.dtype for value, _ in result.operands)]
    epsilon = max(_EPSILON.get(dtype, 0.0) for dtype in types)
    node = result.span.step.node
    if any(each.op.allows_bytes for each in (node, *(n for region in node.regions for n in region.walk()))):
        epsilon = max(epsilon, _BYTE_EPSILON)
    return max(limit, _ROUNDINGS * epsilon)
