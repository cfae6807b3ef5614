"""Reads traces in the Trace Event Format (Google, 2016), independently of the code that writes them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Slice:
    """A complete event on a track, with what it contains."""

    name: str
    category: str
    start: float
    end: float
    track: tuple[int, int]
    details: dict[str, Any]
    inside: list[Slice] = field(default_factory=list)


@dataclass
class Trace:
    """A trace as a viewer shows it."""

    tracks: dict[tuple[int, int], list[Slice]]
    """By process and thread: the outermost slices in order."""
    names: dict[tuple[int, int], str]
    spans: dict[tuple[str, Any], list[float]]
    """Asynchronous slices by category and id: their times, in order."""
    counters: dict[str, list[tuple[float, float]]]
    arrows: list[tuple[Slice, Slice]]

    def slices(self) -> list[Slice]:
        """All slices."""
        found = [each for track in self.tracks.values() for each in track]
        for each in found:
            found += each.inside
        return found


EPSILON = 1e-6
"""Of a microsecond: times are written as decimal fractions."""


def read_trace(path: Path) -> Trace:
    """The trace in ``path``. Raises AssertionError where it breaks the format."""
    whole = json.loads(path.read_text(encoding="utf-8"), parse_constant=_no_number)
    assert isinstance(whole, dict) and isinstance(whole["traceEvents"], list)
    by_phase: dict[str, list[dict[str, Any]]] = {}
    for event in whole["traceEvents"]:
        assert isinstance(event["name"], str) and isinstance(event["pid"], int), event
        assert isinstance(event["tid"], int) and isinstance(event.get("args", {}), dict), event
        if event["ph"] != "M":
            assert isinstance(event["ts"], int | float) and event["ts"] >= 0, event
        by_phase.setdefault(event["ph"], []).append(event)
    assert by_phase.keys() <= set("MXCbesf"), by_phase.keys()
    trace = Trace(_tracks(by_phase.get("X", [])), _names(by_phase["M"]), {}, {}, [])
    for event in sorted(by_phase.get("C", []), key=lambda event: event["ts"]):
        (value,) = event["args"].values()
        trace.counters.setdefault(event["name"], []).append((event["ts"], value))
    for phase in "be":
        for event in by_phase.get(phase, []):
            trace.spans.setdefault((event["cat"], event["id"]), []).append(event["ts"])
    assert all(len(times) == 2 and times[0] <= times[1] for times in trace.spans.values())
    ends = {event["id"]: event for event in by_phase.get("f", [])}
    assert len(ends) == len(by_phase.get("f", [])) == len(by_phase.get("s", []))
    for event in by_phase.get("s", []):
        end = ends[event["id"]]
        assert end["bp"] == "e" and (end["cat"], end["name"]) == (event["cat"], event["name"])
        trace.arrows.append((_enclosing(trace, event), _enclosing(trace, end)))
    return trace


def _no_number(text: str) -> None:
    raise AssertionError(f"{text} is not JSON")


def _tracks(events: list[dict[str, Any]]) -> dict[tuple[int, int], list[Slice]]:
    tracks: dict[tuple[int, int], list[Slice]] = {}
    open_slices: dict[tuple[int, int], list[Slice]] = {}
    for event in sorted(events, key=lambda event: (event["ts"], -event["dur"])):
        assert event["dur"] >= 0
        track = event["pid"], event["tid"]
        end = event["ts"] + event["dur"]
        made = Slice(event["name"], event["cat"], event["ts"], end, track, event["args"])
        stack = open_slices.setdefault(track, [])
        while stack and stack[-1].end <= made.start + EPSILON:
            stack.pop()
        assert not stack or made.end <= stack[-1].end + EPSILON, "slices of a track nest"
        (stack[-1].inside if stack else tracks.setdefault(track, [])).append(made)
        stack.append(made)
    return tracks


def _names(events: list[dict[str, Any]]) -> dict[tuple[int, int], str]:
    assert {event["name"] for event in events} <= {"process_name", "thread_name"}
    threads = [event for event in events if event["name"] == "thread_name"]
    return {(event["pid"], event["tid"]): event["args"]["name"] for event in threads}


def _enclosing(trace: Trace, event: dict[str, Any]) -> Slice:
    """The innermost slice around a flow event, to which it belongs."""
    level, found = trace.tracks[event["pid"], event["tid"]], None
    while True:
        around = [s for s in level if s.start - EPSILON <= event["ts"] <= s.end + EPSILON]
        if not around:
            assert found is not None, "an arrow begins and ends in slices"
            return found
        found = max(around, key=lambda s: s.start)
        level = found.inside
