"""Models that no one program runs: programs, and between them nodes that run on their references."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from graphwright import _native
from graphwright.errors import Diagnostic, GraphwrightError, PackageError
from graphwright.ir.arrays import Array, np
from graphwright.ir.op import Carried
from graphwright.package.stages import FrontStep, HostStep, PartStep, Stages
from graphwright.package.stages import Step as Planned
from graphwright.runtime.devices.base import Detour, Device, TaskTime, handed_over
from graphwright.runtime.devices.front import FrontRunner
from graphwright.runtime.devices.steps import HostRunner, PartRunner, Run, Spec, Step

Load = Callable[[PartStep], Device]
"""Loads the program of a part."""


class Staged:
    """Runs stages in order; ``constants`` are the weights by digest, ``arenas`` memory that programs share.

    Raises PackageError for bad ones.
    """

    def __init__(
        self, stages: Stages, load: Load, constants: Mapping[str, Array], arenas: _native.Arenas
    ) -> None:
        self._arenas, self._programs = arenas, sum(not part.is_open for part in stages.parts())
        try:
            self._graph = _Graph(stages, load, constants)
        except GraphwrightError:
            raise
        except Exception as error:  # a hostile text breaks ops in ways of their own
            message = f"the stages are malformed: {type(error).__name__}: {error}"
            raise PackageError(Diagnostic("bad-program", message)) from error
        self._counted: Counter[str] = Counter(runs=0, host_calls=0)
        self._lock = threading.Lock()

    def entry(self, threads: int) -> Detour:
        return Detour(threads)

    def run(
        self, arrays: Sequence[Array], outputs: Sequence[Array | None] | None, threads: int
    ) -> list[Array]:
        return self._run(arrays, Run([], {}, threads, outputs))

    def traced(self, arrays: Sequence[Array], threads: int) -> tuple[list[Array], list[TaskTime]]:
        times: list[TaskTime] = []
        return self._run(arrays, Run([], {}, threads, times=times)), times

    def trim(self) -> int:
        return sum(device.trim() for device in self._graph.devices())

    def stats(self) -> dict[str, int]:
        """``host_calls`` are nodes that the host ran, and entries into Python by programs."""
        with self._lock:
            totals = self._counted.copy()
        runs = totals["runs"]
        for device in self._graph.devices():
            totals.update(device.stats())
        repeated = (self._programs - 1) * self._arenas.bytes  # each program counts what all share
        return {**totals, "runs": runs, "arena_bytes": totals["arena_bytes"] - repeated}

    def _run(self, arrays: Sequence[Array], run: Run) -> list[Array]:
        results = self._graph.run(arrays, run)
        with self._lock:
            self._counted.update(runs=1, host_calls=run.host_calls)
        return results


class _Graph:
    """The stages of one graph: the entry's, or those of a body."""

    def __init__(self, stages: Stages, load: Load, constants: Mapping[str, Array]) -> None:
        self._stages = stages
        self._constants = [(number, constants[digest]) for number, digest in stages.constants]
        specs = [Spec(spec) for spec in stages.values]
        self._inputs = specs[: stages.inputs]
        self._steps = [
            (self._step(step, specs, load, constants), ends)
            for step, ends in zip(stages.steps, _ends(stages), strict=True)
        ]
        self._made_by_parts = {v for step in stages.steps if isinstance(step, PartStep) for v in step.outputs}

    def _step(self, step: Planned, specs: Sequence[Spec], load: Load, constants: Mapping[str, Array]) -> Step:
        if isinstance(step, FrontStep):
            return FrontRunner(step)
        if isinstance(step, HostStep):
            return HostRunner(step, specs, [_Graph(body, load, constants) for body in step.bodies])
        outputs = self._stages.outputs
        places = [outputs.index(number) if number in outputs else None for number in step.outputs]
        return PartRunner(step, load(step), places)

    def devices(self) -> Iterable[Device]:
        """What runs programs."""
        for step, _ in self._steps:
            yield from step.devices()

    def run(self, arrays: Sequence[Any], run: Run) -> list[Any]:
        """The outputs for ``arrays``: new ones, or those of ``run.targets``."""
        self._execute(arrays, run)
        results: list[Any] = []
        for k, number in enumerate(self._stages.outputs):
            value, target = run.values[number], run.targets[k] if run.targets else None
            if target is None and not self._is_own(number, value, arrays, results):
                value = _copied(value)
            results.append(handed_over(value, target, f"output {self._stages.values[number].name!r}"))
        return results

    def run_body(self, arrays: Sequence[Any], outer: Run) -> tuple[Any, ...]:
        """The outputs for ``arrays``, as they are: they may share memory."""
        run = Run([], dict(outer.sizes), outer.threads, times=outer.times)
        self._execute(arrays, run)
        outer.host_calls += run.host_calls
        return tuple(run.values[number] for number in self._stages.outputs)

    def repeat(
        self, arrays: Sequence[Any], where: Carried, limits: tuple[int, bool], outer: Run
    ) -> _native.Repeat | None:
        """The loop whose body this is, from ``arrays`` on; None where no native code runs it."""
        part = self._steps[0][0]
        assert isinstance(part, PartRunner)
        run = Run([], dict(outer.sizes), outer.threads)
        self._receive(arrays, run)
        return part.repeat(self._stages.outputs, where, limits, run)

    def _execute(self, arrays: Sequence[Any], run: Run) -> None:
        self._receive(arrays, run)
        for step, ends in self._steps:
            step.run(run)
            for number in ends:
                run.values[number] = None

    def _receive(self, arrays: Sequence[Any], run: Run) -> None:
        values = run.values = [None] * len(self._stages.values)
        for number, (spec, array) in enumerate(zip(self._inputs, arrays, strict=True)):
            spec.learn(array, run.sizes, "input")
            values[number] = array
        for number, array in self._constants:
            values[number] = array

    def _is_own(self, number: int, value: Any, arrays: Sequence[Any], results: Sequence[Any]) -> bool:
        """Whether ``value`` shares its memory with no input, constant or other result."""
        if any(value is result for result in results):
            return False
        if number in self._made_by_parts:
            return True
        plain = isinstance(value, np.ndarray) and value.base is None and value.flags.c_contiguous
        return plain and not any(value is array for array in arrays)


def _ends(stages: Stages) -> list[list[int]]:
    """For each step the values that nothing reads after it."""
    last = {
        number: k
        for k, step in enumerate(stages.steps)
        for number in (*step.inputs, *step.outputs)
        if number is not None and number not in stages.outputs
    }
    ends: list[list[int]] = [[] for _ in stages.steps]
    for number, k in last.items():
        ends[k].append(number)
    return ends


def _copied(value: Any) -> Any:
    if isinstance(value, list):
        return [_copied(item) for item in value]
    if isinstance(value, dict):
        return dict(value)
    return None if value is None else np.array(value, order="C")
