"""A profile as a self-contained HTML page: tables, and a timeline of the tasks of the last run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from graphwright.ir.arrays import np
from graphwright.profiling.rows import GROUPS, rows_of, sorted_rows
from graphwright.profiling.table import html_rows, summary
from graphwright.profiling.task_facts import TaskFacts, facts_of
from graphwright.profiling.totals import totals_of
from graphwright.runtime.events.recording import Events
from graphwright.support.escaping import html_text
from graphwright.support.event_sink import EventKind
from graphwright.support.offline_page import COLORS, OTHER_COLOR, OTHERS, legend, offline_page
from graphwright.support.units import duration_text

_STYLE: Final = """
th:not(:first-child), td:not(:first-child) { text-align: right; white-space: nowrap }
td:first-child { max-width: 44em }
svg { width: 100%; display: block; margin: 4px 0 12px; background: var(--picture) }
rect { stroke: var(--page); stroke-width: 0.3 }
rect:hover { stroke: var(--text); stroke-width: 1 }
"""
_WIDTH: Final = 1000
_MOST: Final = 5000
"""The most pieces of the last run that are drawn."""


def page(title: str, events: Events, names: Mapping[int, str]) -> str:
    """The page; ``names`` are the names of threads by their id in the operating system."""
    parts = [
        f"<h1>{html_text(title)}: profile</h1>",
        *(f"<p>{html_text(line)}</p>" for line in summary(totals_of(events))),
        *_timeline(events, names),
    ]
    for group in GROUPS:
        parts += [
            f"<h2>By {group}</h2>",
            html_rows(group, sorted_rows(rows_of(events, group), "self"), events.counters),
        ]
    return offline_page(f"{html_text(title)}: profile", parts, _STYLE)


def _timeline(events: Events, names: Mapping[int, str]) -> Iterator[str]:
    """A bar for each thread of the last run, with its pieces of tasks."""
    runs = events.whole_runs()
    if len(runs) == 0:
        return
    run = runs[int(np.argmax(runs["end"]))]
    start, length = int(run["start"]), max(int(run["end"] - run["start"]), 1)
    yield f"<h2>The last run: {duration_text(length)}</h2>"
    tasks = facts_of(events).get(int(run["id"]), [])
    colors = _colors(events)
    yield legend((html_text(kernel), color) for kernel, color in colors.items())
    for thread in events.threads:
        kinds = thread.events["kind"] == EventKind.PIECE
        pieces = thread.events[kinds & (thread.events["run"] == run["run"])]
        if len(pieces):
            name = names.get(thread.thread) or thread.name or "thread"
            yield f"<div>{html_text(name)} {thread.thread}</div>"
            bars = "".join(_bar(piece, start, length, tasks, colors) for piece in pieces[:_MOST])
            yield f'<svg viewBox="0 0 {_WIDTH} 24" preserveAspectRatio="none" height="36">{bars}</svg>'
            if len(pieces) > _MOST:
                yield f"<div>{len(pieces) - _MOST} more are not drawn</div>"


def _colors(events: Events) -> dict[str, str]:
    """Colors for the kernels that take longest; all others share one color."""
    kernels = [row.name for row in sorted_rows(rows_of(events, "kernel"), "self") if row.calls]
    found = dict(zip(kernels, COLORS, strict=False))
    return {**found, OTHERS: OTHER_COLOR} if len(kernels) > len(COLORS) else found


def _bar(piece: Any, start: int, length: int, tasks: Sequence[TaskFacts], colors: Mapping[str, str]) -> str:
    left = (int(piece["start"]) - start) / length * _WIDTH
    width = max(int(piece["end"] - piece["start"]) / length * _WIDTH, 0.2)
    number = int(piece["id"])
    text = f"{tasks[number].source} ({tasks[number].kernel})" if tasks else f"task {number}"
    took = duration_text(int(piece["end"] - piece["start"]))
    color = colors.get(tasks[number].kernel if tasks else "", OTHER_COLOR)
    shape = f'<rect x="{left:.3f}" y="0" width="{width:.3f}" height="24" fill="{color}">'
    return f"{shape}<title>{html_text(f'{text}: {took}')}</title></rect>"
