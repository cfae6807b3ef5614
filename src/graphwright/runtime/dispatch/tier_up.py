"""Tier-up: compiles static variants of a dynamic model in the background, for input shapes that recur.

A variant is compiled in another process, so that no run waits for the GIL. As soon as it is ready, it serves
the shapes that it was compiled for.
"""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections import Counter, deque
from collections.abc import Sequence
from typing import Final

from graphwright.config import Options
from graphwright.executable.specs import TensorSpec
from graphwright.ir.arrays import Array
from graphwright.package.package import Package
from graphwright.records import dataclass
from graphwright.runtime.dispatch.background_build import Build, Load
from graphwright.runtime.dispatch.shaped_fast_path import ShapedFastPath
from graphwright.runtime.executor import (
    Executor,
    FastPath,
    NoFastPath,
    ProgramPlan,
    Shapes,
    shapes_of,
    total,
)
from graphwright.support.background import started

COUNTED: Final = 256
"""The most shapes whose runs are counted; the oldest is dropped."""
FAULTS: Final = 16
"""The most error messages of failed compilations that are kept."""
PATIENCE: Final = 5.0
"""How long the end of the process waits for a compilation to stop, in seconds."""
_COUNTERS: Final = ("hot_builds", "hot_failed", "hot_evictions")
_alive: weakref.WeakSet[TierUp] = weakref.WeakSet()


@dataclass
class _Variant:
    executor: Executor
    path: FastPath
    used: int
    """The number of the run that used it last."""


@dataclass
class _Seen:
    """Counts the runs of shapes that have no variant."""

    first: int
    """The number of the first run."""
    runs: int = 0
    wanted: bool = False


class TierUp(Executor):
    """Runs ``general``; for shapes that recur, it compiles ``package`` to a static variant and runs this.

    A new variant replaces one that was not used since the new shapes were first seen. Failed compilations are
    counted in :meth:`stats`, and their messages are kept in :attr:`faults`; ``general`` goes on to run such
    shapes.
    """

    def __init__(
        self, general: Executor, inputs: Sequence[TensorSpec], package: Package, options: Options, load: Load
    ) -> None:
        """``load`` makes the executor of a compiled package."""
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
        self._dropped_stats: Counter[str] = Counter()
        """The counters of variants that were dropped."""
        self._threads = options.threads
        self._start_process()
        _alive.add(self)

    def _start_process(self) -> None:
        """Initializes the state of one process: a forked child has no build thread, and may find the lock
        held.
        """
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._wanted: deque[tuple[Shapes, _Seen]] = deque()
        self._worker: threading.Thread | None = None
        self._build: Build | None = None
        self._closed = False

    # -- runs -----------------------------------------------------------------------------------------------

    def fast_path(self, threads: int) -> FastPath:
        """As :meth:`Executor.fast_path`. If ``general`` has none, neither has this: it would count runs
        twice.
        """
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
        """The variant that runs ``shapes`` in place of ``general``, if it is ready; counts the run."""
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
            self._request_build(shapes, seen)
        return None

    def _first_seen(self, shapes: Shapes) -> _Seen:
        self._check_process()
        with self._lock:
            if len(self._seen) >= COUNTED:
                del self._seen[next(iter(self._seen))]
            return self._seen.setdefault(shapes, _Seen(self._runs))

    # -- variants -------------------------------------------------------------------------------------------

    def _check_process(self) -> None:
        """Starts again in a forked child."""
        if self._process != os.getpid():
            self._start_process()
            for seen in list(self._seen.values()):
                seen.wanted = False

    def _request_build(self, shapes: Shapes, seen: _Seen) -> None:
        """Queues the compilation of a variant, unless there is no room for it."""
        self._check_process()
        with self._lock:
            if seen.wanted or self._closed:
                return
            if len(self._variants) >= self._most and self._evictable(seen) is None:
                self._seen.pop(shapes, None)  # count its runs from 0 again
                return
            seen.wanted = True
            self._wanted.append((shapes, seen))
            if self._worker is None:
                worker = threading.Thread(target=self._work, name="graphwright hot", daemon=True)
                self._worker = next(iter(started([worker])), None)

    def _evictable(self, newcomer: _Seen) -> Shapes | None:
        """The least recently used variant, if its last use was before ``newcomer`` was first seen. The lock
        is held.
        """
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
            except Exception as error:  # runs continue on the general executor
                if not self._closed:
                    self._counts["hot_failed"] += 1
                    self.faults.append(f"{', '.join(map(str, shapes))}: {error}")
                continue
            self._keep(shapes, seen, _Variant(executor, path, self._runs))

    def _keep(self, shapes: Shapes, seen: _Seen, variant: _Variant) -> None:
        with self._lock:
            if len(self._variants) >= self._most:
                old = self._evictable(seen)
                if old is None:
                    return
                self._dropped_stats.update(self._variants.pop(old).executor.stats())
                del self._dropped_stats["arena_bytes"]
                self._counts["hot_evictions"] += 1
            self._counts["hot_builds"] += 1
            self._variants[shapes] = variant
            self._seen.pop(shapes, None)

    def set_threads(self, threads: int) -> None:
        """Sets the threads of all later runs through fast paths."""
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
        totals = total([self._dropped_stats, *(executor.stats() for executor in self._executors())])
        counts = {name: self._counts[name] for name in _COUNTERS}
        return {**totals, "hot_variants": len(self._variants), **counts}

    def _executors(self) -> list[Executor]:
        return [self.general, *(variant.executor for variant in list(self._variants.values()))]

    def wait(self, seconds: float) -> bool:
        """Waits until no compilation is running, for tests and benchmarks. Returns False after
        ``seconds``.
        """
        worker = self._worker
        if worker is not None:
            worker.join(seconds)
        return self._worker is None

    def close(self) -> None:
        """Stops the running compilation and accepts no more."""
        if self._process != os.getpid():
            return
        with self._lock:
            self._closed = True
            self._wanted.clear()
            worker, build = self._worker, self._build
        if worker is not None and build is not None:
            build.stop()
            worker.join(PATIENCE)


class _TierUpFastPath(ShapedFastPath):
    """Forwards to the fast path of the variant for the shapes, or of ``general``."""

    def __init__(self, hot: TierUp, names: tuple[str, ...], general: FastPath) -> None:
        super().__init__(names, general)
        self._hot = hot

    @property
    def threads(self) -> int:
        """The number of threads of a run."""
        return self._otherwise.threads

    @threads.setter
    def threads(self, count: int) -> None:
        self._otherwise.threads = count
        self._hot.set_threads(count)

    def path(self, shapes: Shapes) -> FastPath:
        variant = self._hot.variant(shapes)
        return self._otherwise if variant is None else variant.path


@atexit.register
def _close_all() -> None:
    for tier_up in list(_alive):
        tier_up.close()
