"""Models that no one program runs at all ranks: a variant for those of a feed, made if none is there."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence

from graphwright.ir.arrays import Array
from graphwright.package.package import Variant
from graphwright.runtime.devices.base import Detour, Device, TaskTime

Shapes = tuple[tuple[int, ...], ...]
VARIANTS = 16
"""Variants made for feeds that are kept; the one used longest ago goes first."""


class Late:
    """Runs the variant for the shapes at hand: one of ``held``, or one made for them.

    ``build`` makes it, and raises FeedError where they do not fit the model.
    """

    def __init__(
        self, build: Callable[[Shapes], Device], held: Sequence[tuple[Variant, Device]] = ()
    ) -> None:
        self._build = build
        self._held = held
        self._variants: OrderedDict[Shapes, Device] = OrderedDict()
        self._gone: Counter[str] = Counter(runs=0, host_calls=0)
        """What the variants counted that are no longer kept."""
        self._table = threading.Lock()
        self._building = threading.Lock()

    def entry(self, threads: int) -> Detour:
        return Detour(threads)

    def run(
        self, arrays: Sequence[Array], outputs: Sequence[Array | None] | None, threads: int
    ) -> list[Array]:
        return self._variant(arrays).run(arrays, outputs, threads)

    def trace(self, arrays: Sequence[Array], threads: int) -> list[TaskTime]:
        return self._variant(arrays).trace(arrays, threads)

    def trim(self) -> int:
        return sum(device.trim() for device in self._devices())

    def stats(self) -> dict[str, int]:
        with self._table:
            totals = self._gone.copy()
        devices = self._devices()
        for device in devices:
            totals.update(device.stats())
        return {**totals, "variants": len(devices)}

    def _devices(self) -> list[Device]:
        with self._table:
            return [*self._variants.values(), *(device for _, device in self._held)]

    def _variant(self, arrays: Sequence[Array]) -> Device:
        shapes = tuple(array.shape for array in arrays)
        held = next((device for variant, device in self._held if variant.takes(shapes)), None)
        device = held or self._known(shapes)
        if device is not None:
            return device
        with self._building:  # runs of known shapes go on meanwhile
            return self._known(shapes) or self._kept(shapes, self._build(shapes))

    def _known(self, shapes: Shapes) -> Device | None:
        with self._table:
            if shapes in self._variants:
                self._variants.move_to_end(shapes)
            return self._variants.get(shapes)

    def _kept(self, shapes: Shapes, device: Device) -> Device:
        with self._table:
            self._variants[shapes] = device
            if len(self._variants) > VARIANTS:
                self._gone.update(self._variants.popitem(last=False)[1].stats())
        return device
