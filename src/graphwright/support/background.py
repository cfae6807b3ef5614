"""Runs a call in a background thread."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Thread
from typing import Generic, TypeVar

T = TypeVar("T")


class BackgroundTask(Generic[T]):
    """Runs ``call()`` in a thread while the caller continues. At its end, a ``with`` block waits for the
    call.

    If the block raises, ``stop`` is called, which may end the call earlier.

    ``concurrent.futures`` could do this, but it imports ``logging``, which takes longer than most calls here.
    """

    def __init__(self, call: Callable[[], T], stop: Callable[[], object] = lambda: None) -> None:
        self._call, self._stop = call, stop
        self._ended = Event()
        """Used instead of Thread.join, which after an interrupt assumes that the thread has ended."""
        self._made: list[T] = []
        self._fault: BaseException | None = None
        self._thread = Thread(target=self._run)
        try:
            self._thread.start()
        except BaseException:  # an interrupt while the start is awaited: nobody else could end the call
            self._stop()
            raise

    def _run(self) -> None:
        try:
            self._made.append(self._call())
        except BaseException as fault:
            self._fault = fault
        finally:
            self._ended.set()

    def result(self) -> T:
        """Waits for the call, and returns its result or raises its exception."""
        self._ended.wait()
        if self._fault is not None:
            raise self._fault
        return self._made[0]

    def __enter__(self) -> BackgroundTask[T]:
        return self

    def __exit__(self, raised: type[BaseException] | None, *_: object) -> None:
        if raised is not None:
            self._stop()
        self._ended.wait()
