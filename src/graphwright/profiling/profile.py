"""``graphwright.profile``: what happens while a ``with`` block runs."""

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
    """Records all models and all threads of the process, from ``with`` on until its end.

    Tables, traces and pages may be had inside of the block as well: of what has happened so far. Profiles may
    be nested, and beside each other in several threads; each shows what happened in its own time.
    """

    def __init__(
        self, max_events: int = CAPACITY, processor: bool = False, counters: bool | Sequence[str] = False
    ) -> None:
        """As :func:`profile`. Raises ValueError for names that are no counters."""
        wanted = (HARDWARE if counters else ()) if isinstance(counters, bool) else tuple(counters)
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
        """What was recorded, as it was written. Raises RuntimeError before the block."""
        return self._recording.events() if self._is_open else self._recorded

    @cached_property
    def _recorded(self) -> Events:
        return self._recording.events()

    @property
    def tasks(self) -> Array:
        """Each call of a task, as :func:`graphwright.runtime.events.task_calls.task_calls` has them."""
        return task_calls(self.events)

    @property
    def totals(self) -> Totals:
        """Counts and times of all of it."""
        return totals_of(self.events)

    def rows(self, sort: str = "self", group: str = "kernel") -> list[Row]:
        """Calls by ``group``: ``kernel``, ``source`` (nodes of the model) or ``op``; the largest ``sort``
        first: ``self``, ``total``, ``calls``, ``name``, ``operations``, ``bytes`` or ``roofline``. Raises
        ValueError.
        """
        return sorted_rows(rows_of(self.events, group), sort)

    def table(self, sort: str = "self", group: str = "kernel", top: int | None = None) -> Table:
        """:meth:`rows` as text, of which ``top`` are shown."""
        events = self.events
        rows, totals = sorted_rows(rows_of(events, group), sort), totals_of(events)
        return Table(rows, totals, group, top, events.counters, self.missing_counters)

    def chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the events in Chrome's Trace Event Format, which https://ui.perfetto.dev opens. The file
        appears whole or not at all. Raises OSError.
        """
        with whole_file(Path(path)) as file:
            file.write(trace_text(self.events, self._thread_names()).encode())

    def html(self, path: str | os.PathLike[str], title: str = "graphwright") -> None:
        """Write one page that loads nothing: the tables, and the tasks of the last run in time. Raises
        OSError."""
        with whole_file(Path(path)) as file:
            file.write(page(title, self.events, self._thread_names()).encode())

    def _thread_names(self) -> Mapping[int, str]:
        """Of Python's threads, by the system's number; of those that have ended, the system knows one."""
        return _thread_names() if self._is_open else self._names

    def __repr__(self) -> str:
        return str(self.table())


def profile(
    *, max_events: int = CAPACITY, processor: bool = False, counters: bool | Sequence[str] = False
) -> Profile:
    """A profile of a ``with`` block: of all models that run in it, on all threads.

    >>> with gw.profile() as p:
    ...     model.run(feeds)
    >>> print(p.table())
    >>> p.chrome_trace("trace.json")

    A thread keeps ``max_events``; those that do not fit are counted. With ``processor`` the calls of tasks
    have processor times as well, and with ``counters`` those of the processor: cycles, instructions, misses
    of the caches. A machine without them has none of these columns, and the table says so. A sequence names
    up to four of ``cycles``, ``instructions``, ``l1d_misses``, ``llc_misses`` and ``page_faults``.
    """
    return Profile(max_events, processor, counters)


def _thread_names() -> dict[int, str]:
    running = threading.enumerate()
    return {thread.native_id: thread.name for thread in running if thread.native_id is not None}
