"""Large memory filled by several threads: one alone waits for pages more than for the bytes."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

PART = 16 << 20
"""Bytes that are worth a thread."""
MOST_THREADS = 4
"""Memory is the limit, not cores."""


def fill_in_parts(size: int, fill: Callable[[int, int], None]) -> None:
    """Call ``fill(start, stop)`` for parts of ``[0, size)``, each in a thread of its own.

    Raises what the first of them raised.
    """
    count = max(1, min(len(os.sched_getaffinity(0)), MOST_THREADS, size // PART))
    bounds = [size * k // count for k in range(count + 1)]
    faults: list[BaseException] = []

    def guarded(start: int, stop: int) -> None:
        try:
            fill(start, stop)
        except BaseException as fault:
            faults.append(fault)

    threads = [threading.Thread(target=guarded, args=bounds[k : k + 2]) for k in range(1, count)]
    for thread in threads:
        thread.start()
    guarded(*bounds[:2])
    for thread in threads:
        thread.join()
    if faults:
        raise faults[0]
