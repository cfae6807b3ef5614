"""The self-contained page of ``memory --html`` with a picture of the arena; it has no scripts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from graphwright.memory.timeline import PlacedBuffer, Timeline
from graphwright.runtime.memory_use import Memory, ProgramMemory
from graphwright.support.escaping import html_text
from graphwright.support.offline_page import COLORS, OTHER_COLOR, OTHERS, legend, offline_page
from graphwright.support.units import bytes_text
from graphwright.tools.reports.memory_advice import Advice, peak_without, short_sources
from graphwright.tools.reports.memory_tables import feed_shapes_text, totals

_WIDTH: Final = 1100
_HEIGHT: Final = 420
_LEFT: Final = 80
_BELOW: Final = 40
_SCRATCH: Final = "#bab0ac"
_STYLE: Final = """
td:first-child + td { white-space: nowrap }
svg { background: var(--picture); max-width: 100%; height: auto }
svg line.grid { stroke: var(--line) }
svg .live { fill: none; stroke: var(--text); opacity: 0.7 }
svg line.peak { stroke: var(--mark); stroke-width: 1.5; stroke-dasharray: 5 3 }
svg text.peak { fill: var(--mark) }
rect.buffer { stroke: var(--page); stroke-width: 0.5 }
rect.buffer:hover { stroke: var(--text); stroke-width: 2 }
"""


def page(title: str, used: Memory, advice: Sequence[Advice], measured: int | None = None) -> str:
    """The page: totals, a picture of the arena of each program, the live buffers at its peak, and proposals
    to lower it. ``measured`` is the peak of a process in bytes, if it was measured.
    """
    rows = [[title, bytes_text(size), what] for title, size, what in totals(used, measured)]
    parts = [
        f"<h1>{html_text(title)}: memory</h1>",
        _table(("", "bytes", ""), rows),
        *(part for program in used.programs for part in _program(program)),
    ]
    if advice:
        parts += ["<h2>What lowers the peak</h2>", _table(("", ""), [[a.text, a.effect] for a in advice])]
    missing = "; ".join(used.not_counted)
    parts.append(f"<p>Not counted: {html_text(missing)}.</p>")
    return offline_page(f"{html_text(title)}: memory", parts, _STYLE)


def _program(program: ProgramMemory) -> Iterator[str]:
    line = program.timeline
    yield f"<h2>{html_text(program.name or 'arena')}</h2>"
    if line is None or program.shapes is None:
        yield "<p>Its sizes are known only during a run.</p>"
        return
    yield f"<p>{html_text(feed_shapes_text(program.shapes))}: {_sentence(line)}</p>"
    if not line.buffers:
        return
    scopes = scopes_of(line.buffers)
    colors = _colors(scopes.values())
    yield legend((html_text(scope), colors[scope]) for scope in dict.fromkeys(scopes.values()))
    yield _picture(line, scopes)
    yield "<h3>Live at the peak</h3>"
    head = ("bytes", "offset", "tasks", "value", "made by", "peak without it")
    yield _table(head, [_live_row(line, buffer) for buffer in line.at_peak])


def _sentence(line: Timeline) -> str:
    return html_text(
        f"an arena of {bytes_text(line.arena)}; at most {bytes_text(line.live_bytes)} are live at once, at "
        f"task {line.peak} of {len(line.tasks)}: {short_sources(line.tasks[line.peak : line.peak + 1])}"
    )


def _live_row(line: Timeline, buffer: PlacedBuffer) -> list[str]:
    return [
        bytes_text(buffer.bytes),
        str(buffer.offset),
        f"{buffer.first} to {buffer.last}",
        short_sources([buffer.title]),
        short_sources(buffer.nodes),
        bytes_text(peak_without(line, buffer)),
    ]


# -- the picture


def _picture(line: Timeline, scopes: Mapping[int, str]) -> str:
    colors = _colors(scopes.values())
    frame = f"0 0 {_LEFT + _WIDTH + 10} {_HEIGHT + _BELOW + 10}"
    return "\n".join(
        [
            f'<svg viewBox="{frame}" width="{_LEFT + _WIDTH + 10}" role="img">',
            *_axes(line),
            *(_rectangle(line, buffer, colors[scopes[buffer.number]]) for buffer in line.buffers),
            _live_line(line),
            *_peak_mark(line),
            "</svg>",
        ]
    )


def _x(line: Timeline, task: int) -> float:
    return round(_LEFT + _WIDTH * task / max(len(line.tasks), 1), 2)


def _y(line: Timeline, offset: int) -> float:
    return round(_HEIGHT * (1 - offset / max(line.arena, 1)), 2)


def _rectangle(line: Timeline, buffer: PlacedBuffer, color: str) -> str:
    """The rectangle of a buffer: from its first to its last task, at its offset. A tooltip describes it."""
    left, top = _x(line, buffer.first), _y(line, buffer.offset + buffer.bytes)
    width = round(_x(line, buffer.last + 1) - left, 2)
    height = round(_y(line, buffer.offset) - top, 2)
    said = (
        buffer.title,
        f"{bytes_text(buffer.bytes)} at {buffer.offset}",
        f"tasks {buffer.first} to {buffer.last}",
        ", ".join(buffer.nodes),
    )
    lines = "\n".join(map(html_text, said))
    return (
        f'<rect class="buffer" x="{left}" y="{top}" width="{width}" height="{height}" fill="{color}">'
        f"<title>{lines}</title></rect>"
    )


def _live_line(line: Timeline) -> str:
    """The bytes that are live at each task, on the scale of the offsets."""
    points = [
        f"{_x(line, task + side)},{_y(line, live)}" for task, live in enumerate(line.live) for side in (0, 1)
    ]
    return f'<polyline class="live" points="{" ".join(points)}"/>'


def _peak_mark(line: Timeline) -> Iterator[str]:
    left, right = _x(line, line.peak), _x(line, line.peak + 1)
    middle = round((left + right) / 2, 2)
    yield f'<line class="peak" x1="{middle}" y1="0" x2="{middle}" y2="{_HEIGHT}"/>'
    anchor = "end" if middle > _LEFT + _WIDTH / 2 else "start"
    yield (
        f'<text class="peak" x="{middle}" y="{_HEIGHT + 32}" font-size="12" text-anchor="{anchor}">'
        f"peak: task {line.peak}, {html_text(bytes_text(line.live_bytes))}</text>"
    )


def _axes(line: Timeline) -> Iterator[str]:
    for part in range(5):
        offset = line.arena * part // 4
        y = _y(line, offset)
        yield f'<line class="grid" x1="{_LEFT}" y1="{y}" x2="{_LEFT + _WIDTH}" y2="{y}"/>'
        place = min(max(y + 4, 12), _HEIGHT)
        text = html_text(bytes_text(offset))
        yield f'<text x="{_LEFT - 6}" y="{place}" font-size="12" text-anchor="end">{text}</text>'
    for part, anchor in enumerate(("start", "middle", "middle", "middle", "end")):
        task = len(line.tasks) * part // 4
        attributes = f'x="{_x(line, task)}" y="{_HEIGHT + 16}" font-size="12" text-anchor="{anchor}"'
        yield f"<text {attributes}>task {task}</text>"


# -- colors


def scopes_of(buffers: Sequence[PlacedBuffer]) -> dict[int, str]:
    """For each buffer, the scope of the source node that computes it: a prefix of the path in its name,
    chosen such that there are not more scopes than colors.
    """
    paths = {b.number: _path(b.nodes[0]) if b.nodes else ("",) for b in buffers if not b.is_scratch}
    deepest = max(map(len, paths.values()), default=1)
    cut = {number: path[:1] for number, path in paths.items()}
    for depth in range(2, deepest + 1):
        finer = {number: path[:depth] for number, path in paths.items()}
        if len(set(finer.values())) > len(COLORS):
            break
        cut = finer
    shown = list(dict.fromkeys(cut.values()))[: len(COLORS)]
    named = {number: ".".join(path) if path in shown else OTHERS for number, path in cut.items()}
    return {b.number: "scratch" if b.is_scratch else named[b.number] for b in buffers}


def _path(name: str) -> tuple[str, ...]:
    """The parts of the name of the first source node: ``/layer1/0/conv``, ``encoder.layer.0``."""
    parts = [part for part in re.split(r"[/.]", name.partition(" + ")[0].partition(", ")[0]) if part]
    return tuple(parts) or (name,)


def _colors(scopes: Iterable[str]) -> dict[str, str]:
    named = [scope for scope in dict.fromkeys(scopes) if scope not in ("scratch", OTHERS)]
    found = {scope: COLORS[k % len(COLORS)] for k, scope in enumerate(named)}
    return {**found, "scratch": _SCRATCH, OTHERS: OTHER_COLOR}


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    cells = "".join(f"<th>{html_text(cell)}</th>" for cell in head)
    lines = [f"<table><tr>{cells}</tr>"]
    lines += ["<tr>" + "".join(f"<td>{html_text(cell)}</td>" for cell in row) + "</tr>" for row in rows]
    return "\n".join([*lines, "</table>"])
