"""Estimates the ratio of the times of two programs on a machine that also runs other work.

A *block* times both in turns, before after after before, in chunks of some runs each; a chunk during which
the system took the core away does not count. Of a block only the least time of each side is kept: noise makes
times longer, never shorter. Its sample is the log of the ratio of the two. Blocks are short, so that
longer disturbances affect both sides equally. The estimate is the median of the blocks, with a
distribution-free interval from order statistics (H. A. David and H. N. Nagaraja, "Order Statistics", 2003,
section 7.1).
"""

from __future__ import annotations

import math
import resource
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from graphwright.tuning.interval import interval

TIE: Final = math.log(1.03)
"""Ratios nearer to 1 than this are ties."""
HALF_WIDTH: Final = math.log(1.015)
"""An interval this narrow decides."""
ENOUGH: Final = 42
"""Blocks after which an interval that decides need not be narrow."""
LOOKS: Final = (9, 13, 19, 28, 42, 63, 95, 140)
"""Numbers of blocks at which the interval is looked at."""
TURNS: Final = ("before", "after", "after", "before")
MOST_TURNS: Final = 3
CHUNK_NS: Final = 100_000
"""Least time of a chunk: the clock's own cost is then below 0.5 %."""
BLOCK_NS: Final = 4_000_000
"""Where one round of turns takes longer, a block has no second one."""
SLICE_NS: Final = 300_000
"""A chunk this long is interrupted on any busy machine: as its time is mostly its own, it counts."""

Sides = dict[str, Callable[[int], None]]
"""``before`` and ``after``: each does this many runs."""


@dataclass(frozen=True)
class Estimate:
    """The median of the blocks' log(after / before), and the interval of the median."""

    median: float
    low: float
    high: float
    blocks: int
    dropped: int = 0
    """Blocks without a sample, as the system had other work."""

    @property
    def is_narrow(self) -> bool:
        """Whether the ratio is known well enough to compare it with a predicted one."""
        return self.high - self.low <= 4 * HALF_WIDTH

    @property
    def verdict(self) -> str:
        """``faster``, ``slower`` or ``tie``; ``undecided`` where the interval is too wide to say."""
        if self.high < -TIE:
            return "faster"
        if self.low > TIE:
            return "slower"
        if self.low > -TIE and self.high < TIE:
            return "tie"
        if self.high - self.low > 2 * HALF_WIDTH:
            return "undecided"
        return "tie" if abs(self.median) <= TIE else "faster" if self.median < 0 else "slower"


def estimate(sample: Callable[[], float | None], seconds: float = math.inf) -> Estimate:
    """Takes samples until they decide, or for this many ``seconds`` of the processor, but at least some;
    None is a block that was dropped.
    """
    samples: list[float] = []
    end, tried = time.process_time() + seconds, 0
    made = Estimate(0.0, -math.inf, math.inf, 0)
    for look in LOOKS:
        while len(samples) < look and tried < 4 * LOOKS[-1]:
            if len(samples) >= LOOKS[0] and time.process_time() > end:
                break
            tried += 1
            if (taken := sample()) is not None:
                samples.append(taken)
        if samples:
            low, high = interval(samples)
            made = Estimate(statistics.median(samples), low, high, len(samples), tried - len(samples))
        if len(samples) < look or (made.verdict != "undecided" and (made.is_narrow or look >= ENOUGH)):
            break
    return made


class Blocks:
    """Samples of two programs: each call times one block."""

    def __init__(self, sides: Sides, threads: int = 1) -> None:
        """``threads``: of both. One is timed by its own processor clock, more by the wall clock."""
        self._sides = sides
        self._clock = time.thread_time_ns if threads == 1 else time.perf_counter_ns
        self._who = resource.RUSAGE_THREAD if threads == 1 else resource.RUSAGE_SELF
        for run in sides.values():
            run(3)
        self.least_ns = {side: max(self._time(side, 3)[0] / 3, 1.0) for side in sides}
        """Of a run, over all blocks."""
        run_ns = min(self.least_ns.values())
        self.runs = max(1, math.ceil(CHUNK_NS / run_ns))
        self._chunk_ns = self.runs * run_ns
        self._rounds = max(1, min(MOST_TURNS, int(BLOCK_NS / (len(TURNS) * self._chunk_ns))))

    def __call__(self) -> float | None:
        """log(after / before) of one block; None where all chunks of a side were interrupted."""
        chunks: dict[str, list[float]] = {side: [] for side in self._sides}
        for side in TURNS * self._rounds:
            if self._chunk_ns < SLICE_NS:
                self._sides[side](1)  # brings back what the other side has evicted
            taken, interrupted = self._time(side, self.runs)
            if not interrupted or self._chunk_ns >= SLICE_NS:
                chunks[side].append(taken)
        if not all(chunks.values()):
            return None
        least = {side: min(taken) / self.runs for side, taken in chunks.items()}
        self.least_ns = {side: min(least[side], self.least_ns[side]) for side in least}
        return math.log(least["after"] / least["before"])

    def _time(self, side: str, runs: int) -> tuple[int, bool]:
        """Returns the nanoseconds of ``runs`` runs, and whether they were interrupted."""
        before = resource.getrusage(self._who).ru_nivcsw
        start = self._clock()
        self._sides[side](runs)
        taken = self._clock() - start
        return taken, resource.getrusage(self._who).ru_nivcsw > before
