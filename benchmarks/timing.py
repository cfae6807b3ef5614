"""Times of calls by the processor clock, which excludes the time of other processes. Calls that are compared
take turns, so that caches and the clock of the core change for all of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence


def processor_seconds(step: Callable[[], object]) -> float:
    """Returns the processor seconds of ``step`` in all threads of the process."""
    start = time.process_time()
    step()
    return time.process_time() - start


def least_microseconds(calls: Sequence[Callable[[], object]], rounds: int, repeats: int = 1) -> list[float]:
    """Returns the least microseconds of each of ``calls`` on this thread: in each round, each call is made
    ``repeats`` times.
    """
    best = [float("inf")] * len(calls)
    for _ in range(rounds):
        for k, call in enumerate(calls):
            start = time.clock_gettime_ns(time.CLOCK_THREAD_CPUTIME_ID)
            for _ in range(repeats):
                call()
            taken = time.clock_gettime_ns(time.CLOCK_THREAD_CPUTIME_ID) - start
            best[k] = min(best[k], taken / repeats / 1e3)
    return best
