"""Large memory filled by several threads: one alone waits for pages more than for the bytes."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from graphwright.ir.mapped import release

PART = 16 << 20
"""Bytes that are worth a thread."""
MOST_THREADS = 4
"""Memory is the limit, not cores."""


def in_parts(data: bytes | memoryview) -> Iterator[memoryview]:
    """``data`` in order, in parts whose pages are given back when the next is asked for, if a file is mapped
    there.
    """
    whole = memoryview(data)
    for start in range(0, len(whole), PART):
        part = whole[start : start + PART]
        yield part
        release(part)


def fill_in_parts(size: int, fill: Callable[[int, int], None]) -> None:
    """Call ``fill(start, stop)`` for parts of ``[0, size)``, each in a thread of its own.

    Raises what the first of them raised.
    """
    count = thread_count(size)
    bounds = [size * k // count for k in range(count + 1)]
    do_side_by_side([partial(fill, *bounds[k : k + 2]) for k in range(count)], count)


def thread_count(size: int) -> int:
    """How many threads ``size`` bytes are worth on this machine."""
    return max(1, min(len(os.sched_getaffinity(0)), MOST_THREADS, size // PART))


def do_side_by_side(jobs: Iterable[Callable[[], object]], count: int) -> None:
    """Do ``jobs`` in ``count`` threads, each taking the next; what is done is forgotten, out of a deque as
    well, so that the memory that it read can go. Raises what the first that failed raised.
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

    threads = [threading.Thread(target=work) for _ in range(1, count)]
    for thread in threads:
        thread.start()
    work()
    for thread in threads:
        thread.join()
    if faults:
        raise faults[0]
