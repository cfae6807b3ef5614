"""Binds data-dependent dimensions at run time, and slices over-allocated buffers to them without a copy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from graphwright import _native
from graphwright.errors import Diagnostic
from graphwright.executable.nodes import BindSize
from graphwright.ops.core.bind_size import first_elements, shape_with
from graphwright.runtime.executor import RunError
from graphwright.runtime.host_program.steps import LoopValues, NativeStep, Run, StepRunner
from graphwright.support.event_sink import now, record_node

NO_NUMBER: Final = -(2**63)
"""INT64_MIN: the result of converting a float to int64 where it is not finite, or out of range."""


class BindSizeRunner(StepRunner):
    """Reads a size that a program computed, and gives views of buffers that programs filled up to
    that size.
    """

    def __init__(self, step: BindSize) -> None:
        self._step, self._size, self._node = step, step.size, step.node
        self._count, *buffers = step.inputs
        self._views: Sequence[tuple[int, int, tuple[int, ...]]] = list(
            zip(buffers, step.outputs, step.shapes, strict=True)
        )

    def run(self, run: Run) -> None:
        start = now()
        count = int(run.values[self._count])
        if count == NO_NUMBER:
            raise self._error(
                f"{self._size} is not a valid size: it is not finite, or exceeds 64 bits (a step of 0?)"
            )
        if count < 0:
            raise self._error(f"{self._size} is {count}, which is not a valid size")
        if run.sizes.setdefault(self._size, count) != count:
            raise self._error(f"{self._size} must be {run.sizes[self._size]}, but is {count}")
        try:
            for buffer, output, shape in self._views:
                run.values[output] = first_elements(run.values[buffer], shape_with(shape, count))
        except ValueError as error:
            raise self._error(str(error)) from error
        record_node(BindSize.__name__, self._node, start)

    def native(self, values: LoopValues, threads: int) -> NativeStep | None:
        if values.passing(self._size) is not None:
            return None
        step = self._step
        return _native.SizeBinder(step.shapes), step.inputs, (values.bind(step.size), *step.outputs)

    def _error(self, message: str) -> RunError:
        return RunError(Diagnostic("bind-size", message, self._node))
