"""Background calls: results, exceptions, and blocks that wait for them."""

from __future__ import annotations

import threading

import pytest

from graphwright.package.parallel_fill import run_in_threads
from graphwright.support.background import BackgroundTask


def test_a_task_runs_while_the_caller_continues() -> None:
    go_on = threading.Event()

    def call() -> tuple[bool, int]:
        return go_on.wait(10), threading.get_ident()

    made = BackgroundTask(call)
    made.start()
    go_on.set()
    waited, thread = made.result()
    assert waited and thread != threading.get_ident()
    assert made.result() == (waited, thread)


def test_a_task_may_return_none() -> None:
    with BackgroundTask(lambda: None) as made:
        assert made.result() is None


@pytest.mark.parametrize("fault", [ValueError("no"), KeyboardInterrupt(), SystemExit(3)])
def test_result_raises_the_exception_of_the_call(fault: BaseException) -> None:
    def call() -> None:
        raise fault

    made = BackgroundTask(call)
    made.start()
    for _ in range(2):
        with pytest.raises(type(fault)) as raised:
            made.result()
        assert raised.value is fault


def test_a_block_ends_after_the_call() -> None:
    go_on, ended = threading.Event(), []

    def call() -> None:
        go_on.wait(10)
        ended.append(True)

    with pytest.raises(ZeroDivisionError), BackgroundTask(call):
        go_on.set()
        raise ZeroDivisionError
    assert ended == [True]


def test_an_interrupt_at_the_start_stops_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped, ended, start = threading.Event(), threading.Event(), threading.Thread.start

    def call() -> None:
        stopped.wait(10)
        ended.set()

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        BackgroundTask(call, stopped.set).start()
    assert stopped.is_set() and ended.wait(10)


def test_without_a_thread_the_caller_runs_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    callers: list[int] = []
    with BackgroundTask(lambda: callers.append(threading.get_ident())) as task:
        pass
    task.result()
    run_in_threads([lambda: callers.append(threading.get_ident())] * 3, 2)
    assert callers == [threading.get_ident()] * 4
