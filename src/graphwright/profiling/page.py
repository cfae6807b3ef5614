"""A profile as one page that loads nothing: tables, and the tasks of the last run in time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from graphwright.ir.arrays import np
from graphwright.ir.names import html_text
from graphwright.profiling.facts import facts_of
from graphwright.profiling.rows import GROUPS, rows_of, sorted_rows
from graphwright.profiling.table import html_rows, summary
from graphwright.profiling.totals import totals_of
from graphwright.runtime.description import duration_text
from graphwright.runtime.events import Events
from graphwright.support.event_sink import EventKind

_STYLE: Final = """
body { font: 14px/1.4 sans-serif; margin: 2em; color: #222 }
table { border-collapse: collapse; margin: 1em 0 }
th, td { border-bottom: 1px solid #ddd; padding: 2px 10px; text-align: right }
th:first-child, td:first-child { text-align: left }
svg { width: 100%; display: block; margin: 4px 0 12px }
rect { fill: #4a7fb5; stroke: #fff; stroke-width: 0.3 }
rect:hover { fill: #d9822b }
"""
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
_WIDTH: Final = 1000
_MOST: Final = 5000
"""Pieces of the last run that are drawn."""


def page(title: str, events: Events, names: Mapping[int, str]) -> str:
    """The page; ``names`` of threads by the system's number."""
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        f"<title>{html_text(title)}: profile</title><style>{_STYLE}</style></head><body>",
        f"<h1>{html_text(title)}</h1>",
        *(f"<p>{html_text(line)}</p>" for line in summary(totals_of(events))),
        *_timeline(events, names),
    ]
    for group in GROUPS:
        parts += [
            f"<h2>By {group}</h2>",
            html_rows(group, sorted_rows(rows_of(events, group), "self"), events.counters),
        ]
    return "\n".join([*parts, "</body></html>"]) + "\n"


def _timeline(events: Events, names: Mapping[int, str]) -> Iterator[str]:
    """A bar for each thread of the last run, with its pieces of tasks."""
    runs = events.whole_runs()
    if len(runs) == 0:
        return
    run = runs[int(np.argmax(runs["end"]))]
    start, length = int(run["start"]), max(int(run["end"] - run["start"]), 1)
    yield f"<h2>The last run: {duration_text(length)}</h2>"
    tasks = facts_of(events).get(int(run["id"]), [])
    for thread in events.threads:
        kinds = thread.events["kind"] == EventKind.PIECE
        pieces = thread.events[kinds & (thread.events["run"] == run["run"])]
        if len(pieces):
            name = names.get(thread.thread) or thread.name or "thread"
            yield f"<div>{html_text(name)} {thread.thread}</div>"
            bars = "".join(_bar(piece, start, length, tasks) for piece in pieces[:_MOST])
            yield f'<svg viewBox="0 0 {_WIDTH} 24" preserveAspectRatio="none" height="36">{bars}</svg>'
            if len(pieces) > _MOST:
                yield f"<div>{len(pieces) - _MOST} more are not drawn</div>"


def _bar(piece: Any, start: int, length: int, tasks: Any) -> str:
    left = (int(piece["start"]) - start) / length * _WIDTH
    width = max(int(piece["end"] - piece["start"]) / length * _WIDTH, 0.2)
    number = int(piece["id"])
    text = f"{tasks[number].source} ({tasks[number].kernel})" if tasks else f"task {number}"
    took = duration_text(int(piece["end"] - piece["start"]))
    shape = f'<rect x="{left:.3f}" y="0" width="{width:.3f}" height="24">'
    return f"{shape}<title>{html_text(f'{text}: {took}')}</title></rect>"
