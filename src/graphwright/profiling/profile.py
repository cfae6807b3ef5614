"""``graphwright.profile``: profiles a ``with`` block."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Self

from graphwright.ir.arrays import Array
from graphwright.profiling.page import page
from graphwright.profiling.rows import Row, rows_of, sorted_rows
from graphwright.profiling.table import Table
from graphwright.profiling.totals import Totals, totals_of
from graphwright.profiling.trace_events import trace_text
from graphwright.runtime.events.counters import HARDWARE, available
from graphwright.runtime.events.recording import CAPACITY, Events, Recording
from graphwright.runtime.events.task_calls import task_calls
from graphwright.support.whole_file import whole_file


class Profile:
    """Records all models and all threads of the process during a ``with`` block.

    Inside the block, tables, traces and pages show the events up to that point. Profiles can be nested, and
    several threads can profile at the same time; each profile has the events between its start and its end.
    """

    def __init__(
        self, max_events: int = CAPACITY, processor: bool = False, counters: bool | Sequence[str] = False
    ) -> None:
        """As :func:`profile`. Raises ValueError for names that are not counters."""
        wanted = (HARDWARE if counters else ()) if isinstance(counters, bool) else counters
        found = available(wanted)
        self.missing_counters = tuple(name for name in wanted if name not in found)
        self._recording = Recording(max_events, processor, found)
        self._names: dict[int, str] = {}
        self._is_open = False

    def __enter__(self) -> Self:
        self._recording.__enter__()
        self._is_open = True
        return self

    def __exit__(self, *error: object) -> None:
        self._names = _thread_names()
        self._recording.__exit__(*error)
        self._is_open = False

    @property
    def events(self) -> Events:
        """The recorded events. Raises RuntimeError before the block."""
        return self._recording.events() if self._is_open else self._recorded

    @cached_property
    def _recorded(self) -> Events:
        return self._recording.events()

    @property
    def tasks(self) -> Array:
        """The calls of tasks; see :func:`graphwright.runtime.events.task_calls.task_calls`."""
        return task_calls(self.events)

    @property
    def totals(self) -> Totals:
        """Counts and times of the whole profile."""
        return totals_of(self.events)

    def rows(self, sort: str = "self", group: str = "kernel") -> list[Row]:
        """The calls, summed by ``group``: ``kernel``, ``source`` (nodes of the model) or ``op``. They are
        sorted by ``sort``, largest first: ``self``, ``total``, ``calls``, ``name``, ``operations``, ``bytes``
        or ``roofline``. Raises ValueError.
        """
        return sorted_rows(rows_of(self.events, group), sort)

    def table(self, sort: str = "self", group: str = "kernel", top: int | None = None) -> Table:
        """The first ``top`` of :meth:`rows` as text."""
        events = self.events
        rows, totals = sorted_rows(rows_of(events, group), sort), totals_of(events)
        return Table(rows, totals, group, top, events.counters, self.missing_counters)

    def chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Writes the events atomically in Chrome's Trace Event Format, for https://ui.perfetto.dev. Raises
        OSError.
        """
        with whole_file(Path(path)) as file:
            file.write(trace_text(self.events, self._thread_names()).encode())

    def html(self, path: str | os.PathLike[str], title: str = "graphwright") -> None:
        """Writes a self-contained HTML page: the tables, and a timeline of the last run. Raises OSError."""
        with whole_file(Path(path)) as file:
            file.write(page(title, self.events, self._thread_names()).encode())

    def _thread_names(self) -> Mapping[int, str]:
        """The names of Python's threads by their id in the operating system."""
        return _thread_names() if self._is_open else self._names

    def __repr__(self) -> str:
        return str(self.table())


def profile(
    *, max_events: int = CAPACITY, processor: bool = False, counters: bool | Sequence[str] = False
) -> Profile:
    """Profiles all models that run in a ``with`` block, on all threads.

    >>> with gw.profile() as p:
    ...     model.run(feeds)
    >>> print(p.table())
    >>> p.chrome_trace("trace.json")

    ``max_events`` is the most events per thread; the number of lost events is reported. ``processor`` adds
    CPU times to the calls of tasks. ``counters=True`` adds hardware counters (cycles, instructions, cache
    misses); a sequence names up to four of ``cycles``, ``instructions``, ``l1d_misses``, ``llc_misses`` and
    ``page_faults``. If a machine lacks a counter, the table has no column for it, and says so.
    """
    return Profile(max_events, processor, counters)


def _thread_names() -> dict[int, str]:
    running = threading.enumerate()
    return {thread.native_id: thread.name for thread in running if thread.native_id is not None}
