"""Fills large memory with several threads, as a single thread mostly waits for page faults."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from threading import Thread

from graphwright.ir.constants.mapped import release
from graphwright.support.background import started

PART = 16 << 20
"""The fewest bytes for which another thread is started."""
MOST_THREADS = 4
"""More threads do not help, as memory bandwidth is the limit."""


def in_parts(data: bytes | memoryview) -> Iterator[memoryview]:
    """``data`` in parts. If it is a mapped file, the pages of each part are released before the next one."""
    whole = memoryview(data)
    for start in range(0, len(whole), PART):
        part = whole[start : start + PART]
        yield part
        release(part)


def fill_in_threads(size: int, fill: Callable[[int, int], None]) -> None:
    """Calls ``fill(start, stop)`` for parts of ``[0, size)``, each in its own thread.

    Raises the first exception of these calls.
    """
    count = thread_count(size)
    bounds = [size * k // count for k in range(count + 1)]
    run_in_threads([partial(fill, *bounds[k : k + 2]) for k in range(count)], count)


def thread_count(size: int) -> int:
    """The number of threads for ``size`` bytes on this machine."""
    return max(1, min(len(os.sched_getaffinity(0)), MOST_THREADS, size // PART))


def run_in_threads(jobs: Iterable[Callable[[], object]], count: int) -> None:
    """Runs ``jobs`` in up to ``count`` threads, each of which takes the next job. A job is removed, also
    from a deque of the caller, before it runs, so that memory that only it refers to can be freed. Raises
    the first exception of a job.
    """
    left = jobs if isinstance(jobs, deque) else deque(jobs)
    faults: list[BaseException] = []

    def work() -> None:
        while left and not faults:
            try:
                job = left.popleft()
            except IndexError:  # another thread took the last one
                return
            try:
                job()
            except BaseException as fault:
                faults.append(fault)

    threads = started(Thread(target=work) for _ in range(1, count))
    work()
    for thread in threads:
        thread.join()
    if faults:
        raise faults[0]
