"""Models with gears: the program for just the shapes at hand, and what becomes of shapes between."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter

from graphwright.ir.arrays import Array, np
from graphwright.package.package import Package, TensorSpec
from graphwright.runtime.devices.base import Detour, Device, Entry, Shapes, TaskTime, handed_over, shapes_of
from graphwright.runtime.devices.fitting import Fitting, Part, cropped, filled_up, no_gear
from graphwright.runtime.devices.target import Shared

_SHAPE = attrgetter("shape")


class Geared:
    """Runs the gear of the shapes at hand: ``gears`` are programs by the shapes of all inputs.

    Other shapes run on ``dynamic``, are filled up to the gear that ``fitting`` finds, or are a FeedError.
    """

    def __init__(
        self,
        gears: Mapping[Shapes, Device],
        inputs: Sequence[TensorSpec],
        dynamic: Device | None = None,
        fitting: Fitting | None = None,
    ) -> None:
        self._gears, self._dynamic, self._fitting = gears, dynamic, fitting
        self._names = [spec.name for spec in inputs]
        self._shapes = shapes_of(inputs)

    def entry(self, threads: int) -> GearEntry:
        return GearEntry(self._gears, self._dynamic, self._names, threads)

    def run(
        self, arrays: Sequence[Array], outputs: Sequence[Array | None] | None, threads: int
    ) -> list[Array]:
        shapes = self._shapes(arrays)
        device = self._gears.get(shapes, self._dynamic)
        if device is not None:
            return device.run(arrays, outputs, threads)
        gear, wanted = self._fit(shapes)
        results = self._gears[gear].run(list(map(filled_up, arrays, gear)), None, threads)
        targets = outputs or [None] * len(results)
        made = map(cropped, results, wanted)
        return [handed_over(array, target, "an output") for array, target in zip(made, targets, strict=True)]

    def traced(self, arrays: Sequence[Array], threads: int) -> tuple[list[Array], list[TaskTime]]:
        shapes = self._shapes(arrays)
        device = self._gears.get(shapes, self._dynamic)
        if device is not None:
            return device.traced(arrays, threads)
        gear, wanted = self._fit(shapes)
        results, times = self._gears[gear].traced(list(map(filled_up, arrays, gear)), threads)
        return list(map(cropped, results, wanted)), times

    def trim(self) -> int:
        return sum(device.trim() for device in self._devices())

    def stats(self) -> dict[str, int]:
        totals: Counter[str] = Counter(runs=0, host_calls=0)
        arenas = 0
        for device in self._devices():
            stats = device.stats()
            arenas = stats.pop("arena_bytes", 0)  # of memory that all share
            totals.update(stats)
        return {**totals, "arena_bytes": arenas, "gears": len(self._gears)}

    def _devices(self) -> list[Device]:
        """Each once; what stands behind the one for other shapes is a part of that."""
        dynamic = [] if self._dynamic is None else [self._dynamic]
        behind = getattr(self._dynamic, "general", None)
        gears = (device for device in self._gears.values() if device is not behind)
        return list(dict.fromkeys([*gears, *dynamic]))

    def _fit(self, shapes: Shapes) -> tuple[Shapes, list[Part]]:
        """The gear for ``shapes``, and what to keep of the outputs. Raises FeedError where there is none."""
        if self._fitting is None:
            raise no_gear("is for", self._names, self._gears, shapes)
        return self._fitting.fit(shapes)


class GearEntry:
    """The short way into the gear of the shapes at hand."""

    def __init__(
        self, gears: Mapping[Shapes, Device], dynamic: Device | None, names: Sequence[str], threads: int
    ) -> None:
        self._gears, self._dynamic, self._names, self._threads = gears, dynamic, names, threads
        self._entries: dict[Shapes | None, Entry] = {}

    @property
    def threads(self) -> int:
        """Of a run."""
        return self._threads

    @threads.setter
    def threads(self, count: int) -> None:
        for entry in self._entries.values():
            entry.threads = count
        self._threads = count

    def __call__(self, *arrays: object) -> tuple[Array, ...] | None:
        try:
            entry = self._entries.get(tuple(map(_SHAPE, arrays))) or self._made(arrays)
        except (AttributeError, TypeError):
            return None
        return None if entry is None else entry(*arrays)

    def named(self, feeds: object, names: object, /) -> dict[str, Array] | None:
        entry = self._for_feeds(feeds)
        return None if entry is None else entry.named(feeds, names)

    def listed(self, feeds: object, names: object, /) -> list[Array] | None:
        entry = self._for_feeds(feeds)
        return None if entry is None else entry.listed(feeds, names)

    def _for_feeds(self, feeds: object) -> Entry | None:
        if type(feeds) is not dict:
            return None
        try:
            arrays = [feeds[name] for name in self._names]
            return self._entries.get(tuple(map(_SHAPE, arrays))) or self._made(arrays)
        except (KeyError, AttributeError, TypeError):
            return None

    def _made(self, arrays: Sequence[object]) -> Entry | None:
        """The entry for arrays of new shapes: a gear's, or that for all shapes, or none."""
        key: Shapes | None = tuple(map(_SHAPE, arrays))
        device = self._gears.get(key) if key is not None else None
        if device is None:
            device, key = self._dynamic, None
        if device is None:
            return None
        return self._entries.get(key) or self._entries.setdefault(key, device.entry(self._threads))


def geared(package: Package, native: Callable[[Package, Shared], Device | None]) -> Geared | None:
    """What runs a package with gears; ``native`` runs the package of one. None where it cannot."""
    devices, shared = [], Shared()
    for variant in package.variants:
        device = native(package.of_variant(variant), shared)
        if device is None:
            return None
        devices.append(device)
    dynamic = devices.pop() if package.between == "dynamic" else None
    gears = dict(zip(_gears(package), devices, strict=True))
    return Geared(gears, package.inputs, dynamic, _fitting(package))


def _gears(package: Package) -> list[Shapes]:
    """The shapes of each gear of the package."""
    static = package.variants[: len(package.variants) - (package.between == "dynamic")]
    return [gear_shapes(variant.inputs) for variant in static]


def _fitting(package: Package) -> Fitting | None:
    """What finds gears for shapes between, where these are padded."""
    if package.between != "pad":
        return None
    return Fitting(_gears(package), package.inputs, package.outputs, package.constraints)


class Sized:
    """A device that takes the sizes of its other inputs as its last one: it pads and crops by itself for the
    gear that ``fitting`` finds.
    """

    def __init__(self, device: Device, inputs: Sequence[TensorSpec], fitting: Fitting | None = None) -> None:
        self._device, self._fitting = device, fitting
        self._shapes = shapes_of(inputs)
        self.trim, self.stats = device.trim, device.stats

    def entry(self, threads: int) -> Detour:
        return Detour(threads)

    def run(
        self, arrays: Sequence[Array], outputs: Sequence[Array | None] | None, threads: int
    ) -> list[Array]:
        return self._device.run([*arrays, self._sizes(arrays)], outputs, threads)

    def traced(self, arrays: Sequence[Array], threads: int) -> tuple[list[Array], list[TaskTime]]:
        return self._device.traced([*arrays, self._sizes(arrays)], threads)

    def _sizes(self, arrays: Sequence[Array]) -> Array:
        shapes = self._shapes(arrays)
        if self._fitting is not None:
            self._fitting.fit(shapes)
        return np.array([size for shape in shapes for size in shape], np.int64)


def staged_gears(
    package: Package, device: Device, with_variants: Callable[[Device, Package], Device]
) -> Geared:
    """What runs a package with gears that are branches of its stages, which ``device`` runs; what runs all
    other shapes may have variants.
    """
    sized = Sized(device, package.inputs, _fitting(package))
    others: Device | None = None if package.between == "error" else sized
    if package.between == "dynamic":
        others = with_variants(sized, package.of_variant(package.variants[-1]))
    return Geared(dict.fromkeys(_gears(package), sized), package.inputs, others)


def gear_shapes(inputs: Sequence[TensorSpec]) -> Shapes:
    """The shapes that a gear is for. Raises ValueError where a size is no number."""
    return tuple(tuple(int(size) for size in spec.shape or ()) for spec in inputs)
