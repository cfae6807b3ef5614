"""Models that no one program runs at all ranks: a variant for those of a feed, made if none is there."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

from graphwright.errors import FeedError
from graphwright.ir.arrays import Array
from graphwright.package.package import Variant
from graphwright.runtime.devices.base import Detour, Device, Shapes, TaskTime

T = TypeVar("T")
VARIANTS = 16
"""Variants made for feeds that are kept; the one used longest ago goes first."""


class Late:
    """Runs the variant for the shapes at hand: one of ``held``, or one made for them.

    ``build`` makes it, and raises FeedError where they do not fit the model.
    """

    def __init__(
        self,
        build: Callable[[Shapes], Device],
        held: Sequence[tuple[Variant, Device]] = (),
        key: Callable[[Shapes], Hashable] = lambda shapes: shapes,
    ) -> None:
        """One that was built serves all shapes of the same ``key``."""
        self._build, self._key = build, key
        self._held = held
        self._variants: OrderedDict[Hashable, Device] = OrderedDict()
        self._gone: Counter[str] = Counter(runs=0, host_calls=0)
        """What the variants counted that are no longer kept."""
        self._table = threading.Lock()
        self._building = threading.Lock()

    def entry(self, threads: int) -> Detour:
        return Detour(threads)

    def run(
        self, arrays: Sequence[Array], outputs: Sequence[Array | None] | None, threads: int
    ) -> list[Array]:
        return self._run(arrays, lambda device: device.run(arrays, outputs, threads))

    def traced(self, arrays: Sequence[Array], threads: int) -> tuple[list[Array], list[TaskTime]]:
        return self._run(arrays, lambda device: device.traced(arrays, threads))

    def trim(self) -> int:
        return sum(device.trim() for device in self._devices())

    def stats(self) -> dict[str, int]:
        with self._table:
            totals = self._gone.copy()
            own = list(self._variants.values())
        held = [device.stats() for _, device in self._held]
        for stats in held[1:]:
            stats.pop("arena_bytes", 0)  # of memory that all that are held share
        for stats in (*held, *(device.stats() for device in own)):
            totals.update(stats)
        return {**totals, "variants": len(held) + len(own)}

    def _devices(self) -> list[Device]:
        with self._table:
            return [*self._variants.values(), *(device for _, device in self._held)]

    def has(self, shapes: Shapes) -> bool:
        """Whether a variant was made for ``shapes``."""
        return self._known(self._key(shapes)) is not None

    def _run(self, arrays: Sequence[Array], run: Callable[[Device], T]) -> T:
        shapes = tuple(array.shape for array in arrays)
        held = next((device for variant, device in self._held if variant.takes(shapes)), None)
        if held is not None and not (self._variants and self.has(shapes)):
            try:
                return run(held)
            except FeedError as error:
                if error.diagnostics[0].code != "guard":
                    raise
        return run(self._made(shapes))

    def _made(self, shapes: Shapes) -> Device:
        """The variant that was made for ``shapes``, or will be now."""
        key = self._key(shapes)
        device = self._known(key)
        if device is not None:
            return device
        with self._building:  # runs of known shapes go on meanwhile
            return self._known(key) or self._kept(key, self._build(shapes))

    def _known(self, key: Hashable) -> Device | None:
        with self._table:
            if key in self._variants:
                self._variants.move_to_end(key)
            return self._variants.get(key)

    def _kept(self, key: Hashable, device: Device) -> Device:
        with self._table:
            self._variants[key] = device
            if len(self._variants) > VARIANTS:
                gone = self._variants.popitem(last=False)[1].stats()
                self._gone.update({name: count for name, count in gone.items() if name != "arena_bytes"})
        return device
