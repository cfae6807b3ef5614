"""A table of rows as text, without control characters from the names of a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from graphwright.profiling.rows import Row
from graphwright.profiling.totals import Totals
from graphwright.records import dataclass
from graphwright.support.escaping import html_text
from graphwright.support.message_text import counted
from graphwright.support.source_names import sources_text
from graphwright.support.terminal_width import terminal_width
from graphwright.support.units import bytes_text, duration_text

HEAD: Final = ("calls", "total", "self", "share", "GFLOP/s", "GB/s", "roofline", "read", "written")
_LEFT_OUT_FIRST: Final = ("total", "written", "read", "GB/s", "calls")
"""Columns that are left out on narrow terminals, in this order; most follow from other columns."""
_NAME: Final = 60
"""The most characters of a name that are shown."""
_SHORT_NAME: Final = 30
"""Names are shortened to this many characters before columns are left out."""
_GAP: Final = "  "


@dataclass(frozen=True)
class Table:
    """A table of ``rows`` in their order. ``top`` is the number of rows to show, None for all. It prints as
    text, and in notebooks as HTML.
    """

    rows: Sequence[Row]
    totals: Totals
    group: str
    top: int | None = None
    counters: Sequence[str] = ()
    missing_counters: Sequence[str] = ()
    """The requested counters that the machine does not have."""

    @property
    def shown(self) -> Sequence[Row]:
        """The rows that are shown."""
        return self.rows if self.top is None else self.rows[: self.top]

    def __str__(self) -> str:
        return self.text(terminal_width())

    def text(self, width: int | None = None) -> str:
        """The table in lines of at most ``width`` characters where possible: it shortens names first, and
        then leaves out columns. None sets no limit.
        """
        numbers = [[*HEAD, *self.counters], *(cells(row, self.counters) for row in self.shown)]
        labels = [self.group, *(row.name for row in self.shown)]
        longest = min(max(map(len, labels)), _NAME)
        columns, left_out = [list(column) for column in zip(*numbers, strict=True)], []
        for name in _LEFT_OUT_FIRST:
            if width is None or min(longest, _SHORT_NAME) + _width(columns) <= width:
                break
            columns.remove(next(column for column in columns if column[0] == name))
            left_out.append(name)
        room = longest if width is None else max(min(longest, width - _width(columns)), 1)
        names = [sources_text(label, room) for label in labels]
        padded = [[cell.rjust(max(map(len, column))) for cell in column] for column in columns]
        lines = zip(*([name.ljust(max(map(len, names))) for name in names], *padded), strict=True)
        hidden = len(self.rows) - len(self.shown)
        more = [f"and {counted(hidden, 'row')} more"] if hidden else []
        ending = [*summary(self.totals), *_left_out(left_out), *self._missing()]
        return "\n".join([*(_GAP.join(line).rstrip() for line in lines), *more, "", *ending])

    def _missing(self) -> list[str]:
        names = ", ".join(self.missing_counters)
        return [f"counters that this machine does not have: {names}"] if names else []

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return html_rows(self.group, self.shown, self.counters)

    def facts(self) -> dict[str, Any]:
        """All rows and the totals, under stable keys."""
        return {
            "totals": vars(self.totals),
            "group": self.group,
            "missing_counters": list(self.missing_counters),
            "rows": [
                {**vars(row), "gflops": row.gflops, "gbps": row.gbps, "roofline": row.roofline}
                for row in self.rows
            ],
        }


def _width(columns: Sequence[Sequence[str]]) -> int:
    """The width of ``columns`` after another column, in characters."""
    return sum(len(_GAP) + max(map(len, column)) for column in columns)


def _left_out(names: Sequence[str]) -> list[str]:
    return [f"columns that a wider terminal shows: {', '.join(names)}"] if names else []


def html_rows(group: str, rows: Sequence[Row], counters: Sequence[str]) -> str:
    """``rows`` as an HTML table; all texts are escaped."""
    head = "".join(f"<th>{html_text(cell)}</th>" for cell in (group, *HEAD, *counters))
    lines = ((row.name, *cells(row, counters)) for row in rows)
    body = "\n".join(
        "<tr>" + "".join(f"<td>{html_text(cell)}</td>" for cell in line) + "</tr>" for line in lines
    )
    return f"<table><tr>{head}</tr>\n{body}</table>"


def cells(row: Row, counters: Sequence[str]) -> list[str]:
    """The cells of ``row``, in the order of :data:`HEAD` and ``counters``; empty for missing values."""
    has_bytes = row.read + row.written > 0
    return [
        str(row.calls) if row.calls else "",
        duration_text(row.total_ns),
        duration_text(row.self_ns),
        f"{100 * row.share:.1f} %",
        f"{row.gflops:.1f}" if row.operations else "",
        f"{row.gbps:.1f}" if has_bytes else "",
        f"{100 * row.roofline:.0f} %" if row.roofline_ns else "",
        bytes_text(row.read) if has_bytes else "",
        bytes_text(row.written) if has_bytes else "",
        *(str(row.counts.get(counter, "")) for counter in counters),
    ]


def summary(totals: Totals) -> list[str]:
    """A summary of the whole profile in a few lines."""
    failed = f", {totals.failed} of them failed" if totals.failed else ""
    lines = [
        f"{counted(totals.runs, 'run')} in {duration_text(totals.run_ns)}{failed}; "
        f"{counted(totals.tasks, 'call')} of tasks; arenas of {bytes_text(totals.arena_bytes)}"
    ]
    lines.append(f"plans: {totals.plans_made} made, {totals.plans_kept} from the cache")
    if totals.nodes:
        lines.append(f"{counted(totals.nodes, 'node')} in Python")
    if totals.stages:
        lines.append(f"compilations: {counted(totals.stages, 'stage')} in {duration_text(totals.stages_ns)}")
    if totals.lost:
        lines.append(
            f"{counted(totals.lost, 'event')} did not fit and are missing: profile fewer runs, or give a "
            "larger max_events"
        )
    return lines
