"""Locks that are released in forked child processes."""

from __future__ import annotations

import os
import threading
import weakref

_locks: weakref.WeakSet[ForkLock] = weakref.WeakSet()


class ForkLock:
    """A lock for ``with`` blocks that is free in a forked child, unless the forking thread holds it: other
    threads, which could release it, do not exist in the child.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner = 0
        """The thread that holds it; 0 for none."""
        _locks.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()
        self._owner = threading.get_ident()

    def __exit__(self, *_: object) -> None:
        self._owner = 0
        self._lock.release()

    def renew(self) -> None:
        """Releases the lock in a child if another thread of the parent held it."""
        if self._owner != threading.get_ident():
            self._lock, self._owner = threading.Lock(), 0


def _renew_all() -> None:
    for lock in _locks:
        lock.renew()


os.register_at_fork(after_in_child=_renew_all)
