"""Workers run on other cores than the caller, if it is the only caller and there are enough cores."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from graphwright import _native
from graphwright.low_ir.tasks import HostFunction, Task, TaskGraph, TaskKind
from tests.runtime.native.handmade import Builder, affine_chain, affine_chain_value, load

CORES = sorted(os.sched_getaffinity(0))
pytestmark = pytest.mark.skipif(len(CORES) < 2, reason="there is no other core")


def heavy(host: bool = False) -> TaskGraph:
    """One launch that is worth several threads; then, with ``host``, a call of host function 0."""
    b = Builder()
    n = b.const(40)
    b.launch("burn", [b.output((n,))], [0], n, args=[b.const(10)], work=400_000)
    if host:
        b.hosts.append(HostFunction("Wait", (), ()))
        b.tasks.append(Task(TaskKind.HOSTCALL, kernel=0, after=(0,)))
    return b.program()


def workers_cores() -> list[set[int]]:
    """The cores that each worker may run on."""
    tasks = [task for task in Path("/proc/self/task").iterdir() if name(task) == "graphwright"]
    return [os.sched_getaffinity(int(task.name)) for task in tasks]


def name(task: Path) -> str:
    return (task / "comm").read_text().strip()


def in_child(work: Callable[[], None]) -> int:
    """Exit status of a process where ``work`` is all that runs."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.fixture(autouse=True)
def _same_affinity() -> Iterator[None]:
    yield
    assert sorted(os.sched_getaffinity(0)) == CORES


def test_workers_keep_off_the_callers_core(library: _native.Library) -> None:
    model = load(heavy(), library)

    def work() -> None:
        kept = 0
        for core in CORES[:2] * 10:
            os.sched_setaffinity(0, {core})  # the caller moves there, and may go on from there
            os.sched_setaffinity(0, CORES)
            model.run([], threads=2)
            kept += workers_cores() == [set(CORES) - {core}]
        assert kept >= 5  # the scheduler may have moved the caller, and a late worker is called to its core

    assert in_child(work) == 0


def test_workers_are_not_pinned_if_there_are_few_cores(library: _native.Library) -> None:
    model = load(heavy(), library)

    def work() -> None:
        model.run([], threads=len(CORES) + 1)
        assert workers_cores() == [set(CORES)] * len(CORES)

    assert in_child(work) == 0


def test_a_caller_pinned_to_one_core_does_not_pin_the_workers(library: _native.Library) -> None:
    model = load(heavy(), library)

    def work() -> None:
        model.run([], threads=2)
        (before,) = workers_cores()
        os.sched_setaffinity(0, {CORES[0]})
        model.run([], threads=2)
        assert workers_cores() == [before]
        assert os.sched_getaffinity(0) == {CORES[0]}

    assert in_child(work) == 0


def test_with_two_callers_workers_may_run_anywhere(library: _native.Library) -> None:
    started, finish = threading.Event(), threading.Event()

    def wait(inputs: object, outputs: object) -> None:
        started.set()
        finish.wait(20)

    waiting, model = load(heavy(host=True), library, hosts=[wait]), load(heavy(), library)
    other = threading.Thread(target=waiting.run, args=([],), kwargs={"threads": 2})
    other.start()
    try:
        assert started.wait(20)
        model.run([], threads=2)
        assert set(CORES) in workers_cores()
    finally:
        finish.set()
        other.join()


def test_a_suspended_caller_is_moved_and_keeps_its_affinity(library: _native.Library) -> None:
    def wait(inputs: object, outputs: object) -> None:
        time.sleep(0.005)  # the worker has nothing to do meanwhile

    model = load(heavy(host=True), library, hosts=[wait])
    for _ in range(20):
        model.run([], threads=2)
        assert os.sched_getaffinity(0) == set(CORES)


@pytest.mark.parametrize("threads", [2, 3])
def test_answers_do_not_depend_on_where_threads_run(library: _native.Library, threads: int) -> None:
    model, x = load(affine_chain(8, work=1_000_000), library), np.arange(500, dtype=np.float32)
    for core in CORES * 10:
        os.sched_setaffinity(0, {core})
        os.sched_setaffinity(0, CORES)
        np.testing.assert_array_equal(model.run([x], threads=threads)[0], affine_chain_value(x, 8))
