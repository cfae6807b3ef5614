"""Run-length encoding of tensors: units of one or more lines of 64 bytes, and how often each repeats.

A tensor that repeats one number, such as a result of constant folding, needs only a few lines in the file. If
it is packed in panels, the rows of a panel repeat instead, also those of the last panel with its padding of
zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from graphwright.ir.arrays import Array, np
from graphwright.package.parallel_fill import PART

LINE = 64
UNITS = (1, 2, 3, 4, 6, 8, 12, 16)
"""The sizes of units that are tried, in lines."""
MOST_RUNS = 1 << 12
SHRINKS = 8
"""The least compression ratio: below it, reading the tensor in place is worth more than a smaller file."""
_FEW_RUNS = 16
"""With so few runs, no other size of unit is tried."""
_WORDS = LINE // 8
_PROBES = 256
"""The number of sampled units, which rules most tensors out quickly."""
_CHUNK = 1 << 22
"""How many bytes are compared at a time."""


def find_runs(data: Array) -> bytes | None:
    """Encodes ``data``, which consists of whole lines: the size of a unit in lines, the number of runs, the
    count of each run (all little-endian i64), and the unit of each run. None if that is not :data:`SHRINKS`
    times smaller.
    """
    found: list[bytes] = []
    for lines in UNITS:
        runs = _runs_of(data, lines)
        if runs is not None:
            found.append(runs[1])
            if runs[0] <= _FEW_RUNS:
                break
    best = min(found, key=len, default=None)
    return best if best is not None and len(best) * SHRINKS <= data.size else None


def _runs_of(data: Array, lines: int) -> tuple[int, bytes] | None:
    """The number of runs with units of ``lines`` lines, and their encoding; None if there are too many."""
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
    """Jobs that decode ``runs`` to ``target``. Raises ValueError if their sizes differ."""
    lines, number = (int.from_bytes(runs[k : k + 8], "little") for k in (0, 8))
    words = lines * _WORDS
    whole = target.size // (lines * LINE) if lines in UNITS else 0
    head = 16 + 8 * number
    rest = target.size - whole * lines * LINE
    if not 0 < number <= min(MOST_RUNS, whole) or len(runs) != head + number * lines * LINE + rest:
        raise ValueError("the size of the runs does not match their tensor")
    counts = np.frombuffer(runs, "<i8", number, 16)
    if not ((counts > 0) & (counts <= whole)).all() or counts.sum() != whole:
        raise ValueError("the counts of the runs do not match their tensor")
    units = np.frombuffer(runs, "<u8", number * words, head).reshape(number, words)
    slots = target.view("<u8")[: whole * words].reshape(whole, words)
    long = max(1, PART // (lines * LINE))
    start = 0
    for count, unit in zip(counts.tolist(), units, strict=True):
        for begin in range(start, start + count, long):
            yield partial(_fill, slots[begin : min(begin + long, start + count)], unit)
        start += count
    yield partial(
        np.copyto, target[target.size - rest :], np.frombuffer(runs, np.uint8, rest, len(runs) - rest)
    )


def _fill(slots: Array, unit: Array) -> None:
    slots[...] = unit[0] if (unit == unit[0]).all() else unit
