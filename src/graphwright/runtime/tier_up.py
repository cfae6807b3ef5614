"""Models that meet the same shapes again and again: static variants of them, made beside the runs.

A variant is compiled in a process of its own, so that no run waits for the interpreter's lock; it serves the
shapes that it was made for, from the moment on that it is there, and nothing else.
"""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections import Counter, deque
from collections.abc import Sequence
from typing import Any, Final

from graphwright.config import Options
from graphwright.executable.specs import TensorSpec
from graphwright.ir.arrays import Array
from graphwright.package.package import Package
from graphwright.records import dataclass
from graphwright.runtime.background_build import Build, Load
from graphwright.runtime.executor import (
    Executor,
    FastPath,
    NoFastPath,
    ProgramPlan,
    Shapes,
    shapes_of,
    total,
)

COUNTED: Final = 256
"""Shapes whose runs are counted: those seen first are forgotten."""
FAULTS: Final = 16
"""Reasons that are kept of variants that could not be made."""
PATIENCE: Final = 5.0
"""Seconds that the end of the process waits for a build to stop."""
_COUNTERS: Final = ("hot_builds", "hot_failed", "hot_evictions")
_alive: weakref.WeakSet[TierUp] = weakref.WeakSet()


@dataclass
class _Variant:
    executor: Executor
    path: FastPath
    used: int
    """The run that used it last."""


@dataclass
class _Seen:
    """Of a shape without a variant."""

    first: int
    """The run that was the first of it."""
    runs: int = 0
    wanted: bool = False


class TierUp(Executor):
    """Runs ``general``, and for shapes that recur a static program that ``package`` is compiled to for them.

    A variant that was not used since a newcomer was first seen makes room for it. Faults of compilations are
    counted in :meth:`stats` and kept in :attr:`faults`; such shapes stay with ``general``.
    """

    def __init__(
        self, general: Executor, inputs: Sequence[TensorSpec], package: Package, options: Options, load: Load
    ) -> None:
        """``load`` makes what runs a package that was compiled."""
        self.general = general
        self.faults: deque[str] = deque(maxlen=FAULTS)
        self._names = tuple(spec.name for spec in inputs)
        self._shapes = shapes_of(inputs)
        self._package, self._options, self._load = package, options, load
        self._after, self._most = max(options.hot_after, 1), max(options.hot_variants, 1)
        self._variants: dict[Shapes, _Variant] = {}
        self._seen: dict[Shapes, _Seen] = {}
        self._runs = 0
        self._counts: Counter[str] = Counter()
        self._gone: Counter[str] = Counter()
        """What variants counted that are no longer kept."""
        self._threads = options.threads
        self._begin()
        _alive.add(self)

    def _begin(self) -> None:
        """What belongs to one process: a child has no thread that builds, and may find the lock taken."""
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._wanted: deque[tuple[Shapes, _Seen]] = deque()
        self._worker: threading.Thread | None = None
        self._build: Build | None = None
        self._closed = False

    # -- runs -----------------------------------------------------------------------------------------------

    def fast_path(self, threads: int) -> FastPath:
        """A run that no fast path serves is not to be counted twice."""
        self._threads = threads
        path = self.general.fast_path(threads)
        return path if isinstance(path, NoFastPath) else _TierUpFastPath(self, self._names, path)

    def run(
        self, arrays: Sequence[Array], outputs: Sequence[Array | None] | None, threads: int
    ) -> list[Array]:
        return self._executor(arrays).run(arrays, outputs, threads)

    def _executor(self, arrays: Sequence[Array]) -> Executor:
        variant = self.variant(self._shapes(arrays))
        return self.general if variant is None else variant.executor

    def variant(self, shapes: Shapes) -> _Variant | None:
        """What runs ``shapes`` in place of the general executor, if it is there."""
        self._runs += 1
        variant = self._variants.get(shapes)
        if variant is not None:
            variant.used = self._runs
            return variant
        seen = self._seen.get(shapes)
        if seen is None:
            seen = self._first_seen(shapes)
        seen.runs += 1
        if seen.runs >= self._after and not seen.wanted:
            self._want(shapes, seen)
        return None

    def _first_seen(self, shapes: Shapes) -> _Seen:
        self._own()
        with self._lock:
            if len(self._seen) >= COUNTED:
                del self._seen[next(iter(self._seen))]
            return self._seen.setdefault(shapes, _Seen(self._runs))

    # -- variants -------------------------------------------------------------------------------------------

    def _own(self) -> None:
        if self._process != os.getpid():
            self._begin()
            for seen in list(self._seen.values()):
                seen.wanted = False

    def _want(self, shapes: Shapes, seen: _Seen) -> None:
        """Let a variant be made, if there is a place for it."""
        self._own()
        with self._lock:
            if seen.wanted or self._closed:
                return
            if len(self._variants) >= self._most and self._idle(seen) is None:
                self._seen.pop(shapes, None)  # its runs are counted anew
                return
            seen.wanted = True
            self._wanted.append((shapes, seen))
            if self._worker is None:
                self._worker = threading.Thread(target=self._work, name="graphwright hot", daemon=True)
                self._worker.start()

    def _idle(self, newcomer: _Seen) -> Shapes | None:
        """The variant used longest ago, if that was before the newcomer was first seen. The lock is held."""
        oldest = min(self._variants, key=lambda shapes: self._variants[shapes].used)
        return oldest if self._variants[oldest].used < newcomer.first else None

    def _work(self) -> None:
        while True:
            with self._lock:
                if self._closed or not self._wanted:
                    self._worker = None
                    return
                shapes, seen = self._wanted.popleft()
                build = self._build = Build(self._load)
            try:
                executor = build(self._package, shapes, self._options)
                path = executor.fast_path(self._threads)
            except Exception as error:  # whatever it is: runs go on
                if not self._closed:
                    self._counts["hot_failed"] += 1
                    self.faults.append(f"{', '.join(map(str, shapes))}: {error}")
                continue
            self._keep(shapes, seen, _Variant(executor, path, self._runs))

    def _keep(self, shapes: Shapes, seen: _Seen, variant: _Variant) -> None:
        with self._lock:
            if len(self._variants) >= self._most:
                old = self._idle(seen)
                if old is None:
                    return
                self._gone.update(self._variants.pop(old).executor.stats())
                del self._gone["arena_bytes"]
                self._counts["hot_evictions"] += 1
            self._counts["hot_builds"] += 1
            self._variants[shapes] = variant
            self._seen.pop(shapes, None)

    def set_threads(self, threads: int) -> None:
        """Of all runs from now on through entries."""
        self._threads = threads
        for variant in list(self._variants.values()):
            variant.path.threads = threads

    # -- the executor as a whole ----------------------------------------------------------------------------

    def plans(self, shapes: Shapes | None, threads: int) -> list[ProgramPlan]:
        variant = None if shapes is None else self._variants.get(shapes)
        return (self.general if variant is None else variant.executor).plans(shapes, threads)

    def trim(self) -> int:
        return sum(executor.trim() for executor in self._executors())

    def stats(self) -> dict[str, int]:
        totals = total([self._gone, *(executor.stats() for executor in self._executors())])
        counts = {name: self._counts[name] for name in _COUNTERS}
        return {**totals, "hot_variants": len(self._variants), **counts}

    def _executors(self) -> list[Executor]:
        return [self.general, *(variant.executor for variant in list(self._variants.values()))]

    def wait(self, seconds: float) -> bool:
        """Wait until nothing is being built, for tests and benchmarks; whether it came to that."""
        worker = self._worker
        if worker is not None:
            worker.join(seconds)
        return self._worker is None

    def close(self) -> None:
        """Stop what is being built: nothing will be made any more."""
        if self._process != os.getpid():
            return
        with self._lock:
            self._closed = True
            self._wanted.clear()
            worker, build = self._worker, self._build
        if worker is not None and build is not None:
            build.stop()
            worker.join(PATIENCE)


class _TierUpFastPath(FastPath):
    """That of a :class:`TierUp`: hands arrays to the fast path of what runs their shapes."""

    def __init__(self, hot: TierUp, names: tuple[str, ...], general: FastPath) -> None:
        self._hot, self._names, self._general = hot, names, general

    @property
    def threads(self) -> int:
        """Threads of a run."""
        return self._general.threads

    @threads.setter
    def threads(self, count: int) -> None:
        self._general.threads = count
        self._hot.set_threads(count)

    def __call__(self, *arrays: Any) -> tuple[Array, ...] | None:
        """A run on arrays in the order of the inputs."""
        try:
            path = self._path(tuple([array.shape for array in arrays]))
        except (AttributeError, TypeError):  # what is no array
            path = self._general
        return path(*arrays)

    def named(self, feeds: Any, names: object, out: object = None, /) -> dict[str, Array] | None:
        """A run on a dict of arrays: the outputs called ``names``, or all, some of them in ``out``."""
        return self._of_feeds(feeds).named(feeds, names, out)

    def listed(self, feeds: Any, names: object, /) -> list[Array] | None:
        """As :meth:`named`, in the order of ``names``."""
        return self._of_feeds(feeds).listed(feeds, names)

    def _of_feeds(self, feeds: Any) -> FastPath:
        try:
            return self._path(tuple([feeds[name].shape for name in self._names]))
        except (AttributeError, KeyError, TypeError):  # what is no dict of arrays
            return self._general

    def _path(self, shapes: Shapes) -> FastPath:
        variant = self._hot.variant(shapes)
        return self._general if variant is None else variant.path


@atexit.register
def _close_all() -> None:
    for tier_up in list(_alive):
        tier_up.close()
