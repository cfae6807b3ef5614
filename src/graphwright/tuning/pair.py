"""Two programs of one model, timed in turns, task by task, on a machine that others load as well.

A *block* runs both in turns, before after after before, some times. Tasks are timed in place, with what the
model's other tasks leave in the caches, by the processor clock of the only thread: what else the machine does
does not count. Of each task a block keeps the least time of each side, as noise makes times longer, never
shorter. A sample is the ratio of the sums over the tasks of a part of the model; an estimate is the median of
the samples with its interval.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from graphwright.ir.arrays import Array, np
from graphwright.option_files.tuning_records import Times
from graphwright.records import dataclass
from graphwright.runtime.events import Recording
from graphwright.runtime.executor import Executor
from graphwright.runtime.task_calls import task_calls
from graphwright.tuning.interval import LOOKS, median_interval

TURNS: Final = (0, 1, 1, 0)
"""Which of both runs."""
MOST_ROUNDS: Final = 6
"""Rounds of turns of a block, at most."""
BLOCK_SECONDS: Final = 0.02
"""Of a block that has more than one round."""
GAIN: Final = 0.97
"""A way is taken where it takes at most this share of the time."""


@dataclass(frozen=True)
class Timed:
    """A program that runs on ``arrays``; ``tasks`` is how many it has. ``states``: the arrays that a run
    updates, of which each run gets a copy."""

    executor: Executor
    arrays: Sequence[Array]
    tasks: int
    states: Sequence[int] = ()

    def times(self) -> Array:
        """Processor time of each task in one run; 0 of those that did not run."""
        made = np.zeros(self.tasks, np.int64)
        arrays = [array.copy() if k in self.states else array for k, array in enumerate(self.arrays)]
        with Recording(processor=True) as recording:
            self.executor.run(arrays, None, 1)
        calls = task_calls(recording.events())
        own = calls[calls["thread"] == threading.get_native_id()]
        np.add.at(made, own["task"], own["processor"])
        return made


@dataclass(frozen=True)
class Part:
    """Tasks of the program before a change, and those after it that compute the same."""

    before: Sequence[int]
    after: Sequence[int]


def is_gain(times: Times) -> bool:
    """Whether the time is clearly less: by 3 % or more, and below 1 in the whole interval."""
    return times.median <= GAIN and times.high < 1


def is_clear(times: Times) -> bool:
    """Whether more samples would hardly change what is taken."""
    return times.low > GAIN or is_gain(times)


def compare(
    before: Timed,
    after: Timed,
    parts: Mapping[str, Part],
    awaited: Callable[[str], bool],
    seconds: float,
    end: float,
) -> dict[str, Times]:
    """Times of ``parts`` after the change over those before it: until those of ``awaited`` parts are clear,
    or for so many ``seconds``, but at least as long as the first interval takes. Nothing where that would be
    later than ``end`` on the clock of ``time.perf_counter``.
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
    """The least time of each task on each side."""
    taken: tuple[list[Array], list[Array]] = ([], [])
    for side in TURNS * rounds:
        taken[side].append(sides[side].times())
    return np.min(taken[0], axis=0), np.min(taken[1], axis=0)


def _add(samples: Mapping[str, list[float]], parts: Mapping[str, Part], block: tuple[Array, Array]) -> None:
    before, after = block
    for name, part in parts.items():
        sums = int(before[list(part.before)].sum()), int(after[list(part.after)].sum())
        samples[name].append(max(sums[1], 1) / max(sums[0], 1))
