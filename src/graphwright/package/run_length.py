"""Bytes that repeat, written once: units of one or more lines of 64 bytes, with the number of times that each
follows itself.

A tensor that folding filled with one number takes a few lines in the file, whatever its size in memory:
packed in panels, its rows repeat, and those of the last panel, which holds zeros beside them, as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from graphwright.ir.arrays import Array, np
from graphwright.package.parts import PART

LINE = 64
UNITS = (1, 2, 3, 4, 6, 8, 12, 16)
"""Lines of a unit that are tried."""
MOST_RUNS = 1 << 12
SHRINKS = 8
"""Times that a tensor must become smaller: reading it in place is worth more than a few bytes."""
_FEW_RUNS = 16
"""No other unit is tried then."""
_WORDS = LINE // 8
_PROBES = 256
"""Places that tell most tensors from those that repeat."""
_CHUNK = 1 << 22
"""Bytes that are compared at once."""


def find_runs(data: Array) -> bytes | None:
    """The bytes ``data``, whole lines, as runs: the lines of a unit, the number of runs, the count of each
    (all i64, little-endian), and their units. None where that is not :data:`SHRINKS` times smaller.
    """
    found: list[bytes] = []
    for lines in UNITS:
        made = _runs_of(data, lines)
        if made is not None:
            found.append(made[1])
            if made[0] <= _FEW_RUNS:
                break
    best = min(found, key=len, default=None)
    return best if best is not None and len(best) * SHRINKS <= data.size else None


def _runs_of(data: Array, lines: int) -> tuple[int, bytes] | None:
    """How many runs of units of ``lines`` there are, and the bytes that stand for them; None for too many."""
    words = lines * _WORDS
    whole = data.size // (lines * LINE)
    units = data.view("<u8")[: whole * words].reshape(whole, words)
    if whole < 2:
        return None
    probes = np.linspace(1, whole - 1, min(_PROBES, whole - 1), dtype=np.int64)
    if (units[probes] != units[probes - 1]).any(1).mean() > 1 / SHRINKS:
        return None
    begins = [np.zeros(1, np.int64)]
    count, step = 1, max(1, _CHUNK // (lines * LINE))
    for first in range(1, whole, step):
        stop = min(first + step, whole)
        begins.append(np.flatnonzero((units[first:stop] != units[first - 1 : stop - 1]).any(1)) + first)
        count += len(begins[-1])
        if count > MOST_RUNS:
            return None
    starts = np.concatenate(begins)
    counts = np.diff(starts, append=whole)
    rest = data[whole * lines * LINE :].tobytes()
    head = np.array([lines, count, *counts], "<i8").tobytes()
    return count, head + units[starts].tobytes() + rest


def fill_jobs(runs: memoryview, target: Array) -> Iterator[Callable[[], object]]:
    """What writes the bytes that ``runs`` stand for to ``target``. A ValueError if their sizes differ."""
    lines, number = (int.from_bytes(runs[k : k + 8], "little") for k in (0, 8))
    words = lines * _WORDS
    whole = target.size // (lines * LINE) if lines in UNITS else 0
    head = 16 + 8 * number
    rest = target.size - whole * lines * LINE
    if not 0 < number <= min(MOST_RUNS, whole) or len(runs) != head + number * lines * LINE + rest:
        raise ValueError("runs of another size than their tensor's")
    counts = np.frombuffer(runs, "<i8", number, 16)
    if not ((counts > 0) & (counts <= whole)).all() or counts.sum() != whole:
        raise ValueError("runs of another number than their tensor's")
    units = np.frombuffer(runs, "<u8", number * words, head).reshape(number, words)
    places = target.view("<u8")[: whole * words].reshape(whole, words)
    long = max(1, PART // (lines * LINE))
    start = 0
    for count, unit in zip(counts.tolist(), units, strict=True):
        for begin in range(start, start + count, long):
            yield partial(_fill, places[begin : min(begin + long, start + count)], unit)
        start += count
    yield partial(
        np.copyto, target[target.size - rest :], np.frombuffer(runs, np.uint8, rest, len(runs) - rest)
    )


def _fill(places: Array, unit: Array) -> None:
    places[...] = unit[0] if (unit == unit[0]).all() else unit
