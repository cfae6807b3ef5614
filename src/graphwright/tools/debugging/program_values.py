"""Reads the values of a native run from the memory to which its tasks write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, Final, TypeGuard

import numpy as np

from graphwright.executable.nodes import Program
from graphwright.executable.specs import TensorSpec
from graphwright.executable.stored import StoredTasks
from graphwright.ir.graph import Value
from graphwright.ir.op import Array
from graphwright.ir.types import U8
from graphwright.layout.transform import packed_shape, unpack
from graphwright.low_ir.probes import Moment, Probe, with_probes
from graphwright.lower.lower import Lowered
from graphwright.package.package import Package
from graphwright.records import dataclass, replace
from graphwright.runtime.devices.cpu import Cpu
from graphwright.runtime.events.task_calls import record_tasks
from graphwright.runtime.feeds.bindings import Bindings
from graphwright.runtime.model import Model

_MOST_BYTES: Final = 1 << 30
"""The most bytes of values that one run reads."""
THREADS: Final = 1
"""The number of threads of runs that read values: tasks then run in one order."""


@dataclass(frozen=True)
class Reading:
    """A reading of ``value``, which has ``shape`` in this run, at one moment of the run."""

    moment: Moment
    value: Value
    shape: tuple[int, ...]

    @property
    def packed_shape(self) -> tuple[int, ...]:
        layout = self.value.layout
        return self.shape if layout is None else packed_shape(self.shape, layout)

    @property
    def bytes(self) -> int:
        return int(prod(self.packed_shape) * self.value.type.dtype.numpy.itemsize)

    def array(self, data: Array) -> Array:
        """The array with the bytes ``data``."""
        layout = self.value.layout
        packed = data.view(self.value.type.dtype.numpy).reshape(self.packed_shape)
        return packed if layout is None else unpack(packed, layout, self.shape)


@dataclass(frozen=True)
class ProgramRun:
    """A program of ``package``, its tasks with the values that they compute, and the ``arrays`` of a run."""

    package: Package
    program: Program
    lowered: Lowered
    arrays: Sequence[Array]

    def outputs(self) -> list[Array]:
        """The outputs of a run without readings."""
        return self.run(self.program)

    def read(self, readings: Sequence[Reading]) -> tuple[list[Array], list[Array]]:
        """The arrays of ``readings``, and the outputs. If the readings have many bytes, the run is
        repeated.
        """
        found: list[Array] = []
        outputs: list[Array] = []
        for part in _parts(readings):
            probes = [Probe(each.moment, self.lowered.operands[each.value], each.bytes) for each in part]
            results = self.run(self._probed(probes))
            outputs, data = results[: len(results) - len(part)], results[len(results) - len(part) :]
            found += [each.array(held) for each, held in zip(part, data, strict=True)]
        return found, outputs

    def run(self, program: Program) -> list[Array]:
        """The outputs of ``program``, which has the same inputs; states are not changed. Memory that no task
        has written contains NaN.
        """
        executor = self._executor(program)
        executor.run(self._copies(), None, THREADS, poison=True)
        return executor.run(self._copies(), None, THREADS, poison=True)

    def tasks_that_ran(self) -> set[int]:
        """The numbers of the tasks that run; the others are in branches that are not taken."""
        executor = self._executor(self.program)
        _, calls = record_tasks(lambda: executor.run(self._copies(), None, THREADS))
        return {call.task for call in calls}

    def _executor(self, program: Program) -> Cpu:
        (target,) = program.targets.values()
        return Cpu(program, target, self.package.weights_of(target.name))

    def _copies(self) -> list[Array]:
        """Copies of the arrays for a run, as it updates states."""
        return [a.copy() if k in self.program.states else a for k, a in enumerate(self.arrays)]

    def _probed(self, probes: Sequence[Probe]) -> Program:
        (target,) = self.program.targets.values()
        tasks = with_probes(target.task_graph, probes)
        outputs = [TensorSpec(f"probe {n}", U8, (probe.size,)) for n, probe in enumerate(probes)]
        code = replace(target, stored=StoredTasks.of(tasks))
        return replace(self.program, outputs=(*self.program.outputs, *outputs), targets={target.name: code})


def outputs_of(model: Model, feeds: Mapping[str, Any]) -> dict[str, Array]:
    """The outputs of ``model``. If it is one program without states, memory that no task writes contains NaN
    instead of values of an earlier run.
    """
    executor, entry = model.executor, model.entry
    if not isinstance(executor, Cpu) or entry.states:
        return model.run(feeds)
    arrays = Bindings(entry.feeds, entry.outputs).named(feeds)
    executor.run(arrays, None, THREADS, poison=True)
    results = executor.run(arrays, None, THREADS, poison=True)
    return dict(zip((spec.name for spec in entry.outputs), results, strict=True))


def _parts(readings: Sequence[Reading]) -> list[list[Reading]]:
    """``readings`` in pieces of a bounded number of bytes, each with at least one reading."""
    parts: list[list[Reading]] = [[]]
    size = 0
    for each in readings:
        if size + each.bytes > _MOST_BYTES and parts[-1]:
            parts.append([])
            size = 0
        parts[-1].append(each)
        size += each.bytes
    return parts


def is_readable(value: Value, places: Mapping[Value, object]) -> bool:
    """Whether ``value`` can be read: it has a location in memory and a layout that NumPy can represent."""
    dtype = value.type.dtype
    return value in places and dtype.element is None and dtype.numpy.kind != "O"


def is_number(array: object) -> TypeGuard[Array]:
    """Whether ``array`` contains numbers, which can be compared."""
    return isinstance(array, np.ndarray) and array.dtype.kind != "O"
