"""Models whose ranks are known only with the shapes of a feed: compiled at the first one, once per set of shapes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence

from graphwright.runtime.devices.base import Array, Device, TaskTime

Shapes = tuple[tuple[int, ...], ...]
VARIANTS = 16
"""Variants kept; the one used longest ago goes first."""


class Late:
    """Runs the variant for the shapes at hand. ``build`` compiles one and raises FeedError where they do not fit."""

    def __init__(self, build: Callable[[Shapes], Device]) -> None:
        self._build = build
        self._variants: OrderedDict[Shapes, Device] = OrderedDict()
        self._lock = threading.Lock()

    def run(
        self, arrays: Sequence[Array], outputs: Sequence[Array | None] | None, threads: int
    ) -> list[Array]:
        return self._variant(arrays).run(arrays, outputs, threads)

    def trace(self, arrays: Sequence[Array], threads: int) -> list[TaskTime]:
        return self._variant(arrays).trace(arrays, threads)

    def stats(self) -> dict[str, int]:
        with self._lock:
            counted = [device.stats() for device in self._variants.values()]
        totals = {name: sum(stats[name] for stats in counted) for name in (counted[0] if counted else {})}
        return {"runs": 0, "host_calls": 0, **totals, "variants": len(counted)}

    def _variant(self, arrays: Sequence[Array]) -> Device:
        shapes = tuple(array.shape for array in arrays)
        with self._lock:
            device = self._variants.get(shapes)
            if device is None:
                device = self._variants[shapes] = self._build(shapes)
                if len(self._variants) > VARIANTS:
                    self._variants.popitem(last=False)
            self._variants.move_to_end(shapes)
            return device
