"""Runs calls of a test in several threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def in_threads(work: Callable[[T], object], arguments: Iterable[T]) -> None:
    """Calls ``work`` with each argument at the same time, each in a thread of its own. Raises the first
    exception.
    """
    faults: list[BaseException] = []

    def guarded(argument: T) -> None:
        try:
            work(argument)
        except BaseException as fault:
            faults.append(fault)

    threads = [threading.Thread(target=guarded, args=(a,), name=f"caller {a}") for a in arguments]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if faults:
        raise faults[0]
