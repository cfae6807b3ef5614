"""Binds sizes that programs found: values behind are the first elements of over-allocated buffers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from graphwright.errors import Diagnostic
from graphwright.executable.nodes import BindSize
from graphwright.ops.control.bind_size import first_elements, shape_with
from graphwright.runtime.executor import RunError
from graphwright.runtime.host_steps import Run, Step
from graphwright.support.event_sink import now, record_node

NO_NUMBER: Final = -(2**63)
"""The i64 that a conversion gives for floats that are not finite, or too large."""


class BindSizeRunner(Step):
    """Views of what programs made, by a count that one of them made too: no bytes are moved."""

    def __init__(self, step: BindSize) -> None:
        self._size, self._node = step.size, step.node
        self._count, *buffers = step.inputs
        self._views: Sequence[tuple[int, int, tuple[int, ...]]] = list(
            zip(buffers, step.outputs, step.shapes, strict=True)
        )

    def run(self, run: Run) -> None:
        start = now()
        count = int(run.values[self._count])
        if count == NO_NUMBER:
            raise self._wrong(
                f"{self._size} is no number: it is not finite, or beyond 64 bits (a step of 0?)"
            )
        if count < 0:
            raise self._wrong(f"{self._size} is {count}, which is no size")
        if run.sizes.setdefault(self._size, count) != count:
            raise self._wrong(f"{self._size} is {count}, not {run.sizes[self._size]}")
        try:
            for buffer, output, shape in self._views:
                run.values[output] = first_elements(run.values[buffer], shape_with(shape, count))
        except ValueError as error:
            raise self._wrong(str(error)) from error
        record_node(BindSize.__name__, self._node, start)

    def _wrong(self, message: str) -> RunError:
        return RunError(Diagnostic("bind-size", message, self._node))
