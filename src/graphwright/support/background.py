"""Runs a call in a background thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from threading import Event, Thread
from typing import Final, Generic, TypeVar

T = TypeVar("T")

_MISSED_INTERRUPT: Final = 0.5
"""Seconds until a waiting thread notices an interrupt that came just before it began to wait."""


def started(threads: Iterable[Thread]) -> list[Thread]:
    """Starts ``threads`` until the system allows no more, as in containers with few processes. Returns those
    that run.
    """
    running: list[Thread] = []
    for thread in threads:
        try:
            thread.start()
        except RuntimeError:
            break
        running.append(thread)
    return running


class BackgroundTask(Generic[T]):
    """Runs ``call()`` in a thread from :meth:`start` on, while the caller continues. A ``with`` block starts
    it, and waits for it at its end.

    If the block raises, ``stop`` is called, which may end the call earlier.

    ``concurrent.futures`` could do this, but it imports ``logging``, which takes longer than most calls here.
    """

    def __init__(self, call: Callable[[], T], stop: Callable[[], object] = lambda: None) -> None:
        self._call, self._stop = call, stop
        self._thread = Thread(target=self._run)
        self._is_running = False
        self._ended = Event()
        """Used instead of Thread.join, which after an interrupt assumes that the thread has ended."""
        self._made: list[T] = []
        self.fault: BaseException | None = None
        """The exception that the call raised, once it has ended."""

    def start(self) -> None:
        """Starts the thread. Where no thread can be started, the caller runs the call."""
        try:
            if not started([self._thread]):
                self._run()
        except BaseException:  # an interrupt while the start is awaited: nobody else could end the call
            self._stop()
            raise

    def _run(self) -> None:
        self._is_running = True
        try:
            self._made.append(self._call())
        except BaseException as fault:
            self.fault = fault
        finally:
            self._ended.set()

    def result(self) -> T:
        """Waits for the call, and returns its result or raises its exception."""
        self._wait()
        if self.fault is not None:
            raise self.fault
        return self._made[0]

    def __enter__(self) -> BackgroundTask[T]:
        self.start()
        return self

    def __exit__(self, raised: type[BaseException] | None, *_: object) -> None:
        if raised is not None:
            self._stop()
        if self._is_running:
            self._wait()

    def _wait(self) -> None:
        while not self._ended.wait(_MISSED_INTERRUPT):
            pass
