"""Compares two programs of one model by interleaved timing of each task, on a machine with other load.

A *block* runs both programs in turns (before, after, after, before), several times. Tasks are timed within
the model, with the caches as the other tasks leave them, by the CPU time of the only thread, which excludes
other processes. For each task and program, a block keeps the minimum, as noise only makes times longer. A
sample is the ratio of sums over the tasks of a part of the model; the estimate is the median of the samples
with its confidence interval.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from graphwright.ir.arrays import Array, np
from graphwright.option_files.tuning_records import Times
from graphwright.records import dataclass
from graphwright.runtime.events.recording import Recording
from graphwright.runtime.events.task_calls import task_calls
from graphwright.runtime.executor import Executor
from graphwright.tuning.interval import LOOKS, median_interval

TURNS: Final = (0, 1, 1, 0)
"""The order in which the two programs run."""
MOST_ROUNDS: Final = 6
"""The most rounds of turns in a block."""
BLOCK_SECONDS: Final = 0.02
"""The duration of a block with more than one round."""
GAIN: Final = 0.97
"""The largest ratio of times at which an alternative is taken."""


@dataclass(frozen=True)
class Timed:
    """A program to time on ``arrays``, with ``tasks`` tasks. ``states`` are the arrays that a run updates;
    each run gets copies of them.
    """

    executor: Executor
    arrays: Sequence[Array]
    tasks: int
    states: Sequence[int] = ()

    def times(self) -> Array:
        """The CPU time of each task in one run; 0 for tasks that did not run."""
        times = np.zeros(self.tasks, np.int64)
        arrays = [array.copy() if k in self.states else array for k, array in enumerate(self.arrays)]
        with Recording(processor=True) as recording:
            self.executor.run(arrays, None, 1)
        calls = task_calls(recording.events())
        own = calls[calls["thread"] == threading.get_native_id()]
        np.add.at(times, own["task"], own["processor"])
        return times


@dataclass(frozen=True)
class ChangedTasks:
    """The tasks of the program before a change, and the tasks after it that compute the same."""

    before: Sequence[int]
    after: Sequence[int]


def is_gain(times: Times) -> bool:
    """Whether the time is clearly shorter: by 3 % or more, and the whole interval is below 1."""
    return times.median <= GAIN and times.high < 1


def is_clear(times: Times) -> bool:
    """Whether more samples are unlikely to change the decision."""
    return times.low > GAIN or is_gain(times)


def compare(
    before: Timed,
    after: Timed,
    parts: Mapping[str, ChangedTasks],
    awaited: Callable[[str], bool],
    seconds: float,
    end: float,
) -> dict[str, Times]:
    """The times of ``parts`` after the change relative to before. It measures until the times of ``awaited``
    parts are clear, or for ``seconds``, but at least until the first interval exists. Returns nothing if that
    would end after ``end`` on the clock of ``time.perf_counter``.
    """
    share = time.perf_counter() + seconds
    sides = before, after
    for side in sides:
        side.times()
    start = time.perf_counter()
    for side in sides:
        side.times()
    round_seconds = 2 * (time.perf_counter() - start)
    rounds = max(1, min(MOST_ROUNDS, int(BLOCK_SECONDS / (round_seconds + 1e-9))))
    samples: dict[str, list[float]] = {name: [] for name in parts}
    found: dict[str, Times] = {}
    blocks = 0
    for look in LOOKS:
        while blocks < look:
            if time.perf_counter() + rounds * round_seconds > (share if found else end):
                return found
            _add(samples, parts, _block(sides, rounds))
            blocks += 1
        found = {name: Times(*median_interval(taken)) for name, taken in samples.items()}
        if all(is_clear(times) for name, times in found.items() if awaited(name)):
            break
    return found


def _block(sides: tuple[Timed, Timed], rounds: int) -> tuple[Array, Array]:
    """The minimum time of each task in each program."""
    taken: tuple[list[Array], list[Array]] = ([], [])
    for side in TURNS * rounds:
        taken[side].append(sides[side].times())
    return np.min(taken[0], axis=0), np.min(taken[1], axis=0)


def _add(
    samples: Mapping[str, list[float]], parts: Mapping[str, ChangedTasks], block: tuple[Array, Array]
) -> None:
    before, after = block
    for name, part in parts.items():
        sums = int(before[list(part.before)].sum()), int(after[list(part.after)].sum())
        samples[name].append(max(sums[1], 1) / max(sums[0], 1))
