"""Programs that assume something of sizes, and other forms of the model for shapes that break a guard."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from typing import TypeVar

from graphwright.errors import FeedError
from graphwright.ir.arrays import Array
from graphwright.runtime.devices.base import Device, Entry, Shapes, TaskTime

T = TypeVar("T")
FORMS = 64
"""Shapes whose form is kept; those used longest ago go first."""


class GuardedFallback:
    """Runs ``assuming``; shapes that break a guard of it run in the form that ``form_for`` makes for them."""

    def __init__(self, assuming: Device, form_for: Callable[[Shapes], Device]) -> None:
        self._assuming, self._form_for = assuming, form_for
        self._forms: OrderedDict[Shapes, Device] = OrderedDict()
        self._lock = threading.Lock()

    def entry(self, threads: int) -> Entry:
        """That of ``assuming``, which serves no shapes but its own."""
        return self._assuming.entry(threads)

    def run(
        self, arrays: Sequence[Array], outputs: Sequence[Array | None] | None, threads: int
    ) -> list[Array]:
        return self._run(arrays, lambda device: device.run(arrays, outputs, threads))

    def traced(self, arrays: Sequence[Array], threads: int) -> tuple[list[Array], list[TaskTime]]:
        return self._run(arrays, lambda device: device.traced(arrays, threads))

    def trim(self) -> int:
        return sum(device.trim() for device in self._devices())

    def stats(self) -> dict[str, int]:
        totals = Counter[str]()
        for device in self._devices():
            totals.update(device.stats())
        return dict(totals)

    def _devices(self) -> list[Device]:
        with self._lock:
            return [self._assuming, *dict.fromkeys(self._forms.values())]

    def _run(self, arrays: Sequence[Array], run: Callable[[Device], T]) -> T:
        shapes = tuple(array.shape for array in arrays)
        form = self._known(shapes) if self._forms else None
        if form is not None:
            return run(form)
        try:
            return run(self._assuming)
        except FeedError as error:
            if error.diagnostics[0].code != "guard":
                raise
        return run(self._kept(shapes, self._form_for(shapes)))

    def _known(self, shapes: Shapes) -> Device | None:
        with self._lock:
            if shapes in self._forms:
                self._forms.move_to_end(shapes)
            return self._forms.get(shapes)

    def _kept(self, shapes: Shapes, form: Device) -> Device:
        with self._lock:
            self._forms[shapes] = form
            if len(self._forms) > FORMS:
                self._forms.popitem(last=False)
        return form
