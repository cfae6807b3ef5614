"""The cases of a dispatch, and the case that ran for each of the latest shapes."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Sequence
from typing import Final

from graphwright.executable.nodes import Executable
from graphwright.executable.specs import static_shapes
from graphwright.runtime.executor import Executor, Shapes, total
from graphwright.support.fork_lock import ForkLock

REMEMBERED: Final = 256
"""The most shapes whose case is cached; the least recently used is dropped."""
MOST_COMPILED: Final = 16
"""The most cases compiled at run time that are kept; the least recently used is dropped."""


class Case:
    """An executable and its executor, compared by identity."""

    def __init__(self, executable: Executable, executor: Executor) -> None:
        self.executable, self.executor = executable, executor


class CaseTable:
    """The cases ``given`` by the package, and those compiled at run time. Several threads may use it."""

    def __init__(self, given: Sequence[Case]) -> None:
        self._given = given
        self.static: Final = {
            shapes: case for case in given if (shapes := static_shapes(case.executable.inputs)) is not None
        }
        """The cases for single shapes."""
        self._compiled: list[Case] = []
        """Least recently used first."""
        self._ran: OrderedDict[Shapes, Case] = OrderedDict()
        self._dropped_stats: Counter[str] = Counter()
        """The counters of compiled cases that were dropped."""
        self._lock = ForkLock()

    def all(self) -> list[Case]:
        """All cases: those of the package first."""
        with self._lock:
            return [*self._given, *self._compiled]

    def known(self, shapes: Shapes) -> Case | None:
        """The case for exactly ``shapes``, or the one that ran for them."""
        return self.static.get(shapes) or self.ran(shapes)

    def ran(self, shapes: Shapes) -> Case | None:
        """The case that ran for ``shapes``, if it is cached."""
        with self._lock:
            case = self._ran.get(shapes)
            if case is not None:
                self._ran.move_to_end(shapes)
            return case

    def remember(self, shapes: Shapes, case: Case) -> None:
        """Caches that ``case`` ran for ``shapes``."""
        with self._lock:
            if case in self._compiled:
                self._compiled.remove(case)
                self._compiled.append(case)
            self._ran[shapes] = case
            if len(self._ran) > REMEMBERED:
                self._ran.popitem(last=False)

    def add(self, compiled: Case) -> None:
        """Adds a case compiled at run time, and drops the least recently used one if there are too many."""
        with self._lock:
            self._compiled.append(compiled)
            if len(self._compiled) > MOST_COMPILED:
                gone = self._compiled.pop(0)
                self._dropped_stats.update(gone.executor.stats())
                del self._dropped_stats["arena_bytes"]
                for shapes in [shapes for shapes, case in self._ran.items() if case is gone]:
                    del self._ran[shapes]

    def stats(self) -> dict[str, int]:
        """The counters of all cases, and the number of cases that are kept."""
        cases = self.all()
        return {
            **total([self._dropped_stats, *(case.executor.stats() for case in cases)]),
            "cases": len(cases),
        }
