"""Sizes that a program of a staged model found: what behind it are the first elements of its room."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Final

from graphwright.errors import Diagnostic
from graphwright.ops.front import Front, front_of, front_shape
from graphwright.package.stages import FrontStep
from graphwright.runtime.devices.base import Device, RunError
from graphwright.runtime.devices.steps import Run

NO_NUMBER: Final = -(2**63)
"""The i64 that a conversion gives for floats that are not finite, or too large."""


class FrontRunner:
    """Views of what parts made, by a count that one of them made too: no bytes are moved."""

    def __init__(self, step: FrontStep) -> None:
        self._size, self._place = step.size, step.place
        self._count, *rooms = step.inputs
        self._views: Sequence[tuple[int, int, tuple[int, ...]]] = list(
            zip(rooms, step.outputs, step.shapes, strict=True)
        )

    def devices(self) -> Iterable[Device]:
        return ()

    def run(self, run: Run) -> None:
        start = time.monotonic_ns()
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
            for room, output, shape in self._views:
                run.values[output] = front_of(run.values[room], front_shape(shape, count))
        except ValueError as error:
            raise self._wrong(str(error)) from error
        run.stamp(self._place, Front.name, start, time.monotonic_ns())

    def _wrong(self, message: str) -> RunError:
        return RunError(Diagnostic("front", message, self._place))
