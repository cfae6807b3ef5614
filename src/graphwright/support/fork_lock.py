"""Locks that a forked process finds free."""

from __future__ import annotations

import os
import threading
import weakref

_locks: weakref.WeakSet[ForkLock] = weakref.WeakSet()


class ForkLock:
    """A lock for ``with`` blocks. In a forked child it is free, unless the thread that forked holds it: other
    threads, which could release it, are not in the child.
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
        """Be free if another thread holds it."""
        if self._owner != threading.get_ident():
            self._lock, self._owner = threading.Lock(), 0


def _renew_all() -> None:
    for lock in _locks:
        lock.renew()


os.register_at_fork(after_in_child=_renew_all)
