"""Locks in a forked process: free, unless the forking thread holds them."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable

import pytest

from graphwright.support.fork_lock import ForkLock

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]


def ends_well(call: Callable[[], bool]) -> bool:
    """Whether ``call`` returns True in a child, within a minute."""
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        os._exit(0 if call() else 1)
    return os.waitpid(child, 0)[1] == 0


def takes(lock: ForkLock) -> bool:
    for _ in range(2):
        with lock:
            pass
    return True


def test_only_one_thread_at_a_time_holds_the_lock() -> None:
    lock, count = ForkLock(), [0]

    def add() -> None:
        for _ in range(2000):
            with lock:
                before = count[0]
                count[0] = before + 1

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert count == [8000]


def test_the_lock_is_free_in_a_child_forked_by_another_thread() -> None:
    lock, held, done = ForkLock(), threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    assert ends_well(lambda: takes(lock))
    done.set()
    thread.join()
    assert takes(lock)


def test_the_lock_stays_held_by_the_thread_that_forks() -> None:
    lock = ForkLock()
    with lock:
        child = os.fork()
    if child == 0:
        os._exit(0 if takes(lock) else 1)  # it was held to the end of the block, and is free behind it
    assert os.waitpid(child, 0)[1] == 0


def test_the_lock_is_released_if_a_block_raises() -> None:
    lock = ForkLock()
    with pytest.raises(ValueError), lock:
        raise ValueError
    assert takes(lock)
