"""The runtime inside a process: fork, signals, exit with runs in flight, CPU limits, loading."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from graphwright import _native
from tests.runtime.native.handmade import (
    affine_chain,
    affine_chain_value,
    build_kernels,
    load,
    wide,
    wide_value,
)
from tests.runtime.native.programs import burning

HEAVY = 1_000_000
ROOT = Path(__file__).parents[3]


def wait_for(child: int, seconds: float) -> int:
    """The exit status of the child, which is killed if it hangs."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise AssertionError("the forked process hangs")


def in_fork(work: Callable[[], object]) -> int:
    child = os.fork()
    if child:
        return wait_for(child, 20)
    try:
        work()
        os._exit(0)
    except BaseException:
        os._exit(1)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_forked_process_runs_the_model(library: _native.Library, threads: int) -> None:
    model, x = load(wide(6, HEAVY), library), np.arange(500, dtype=np.float32)

    def work() -> None:
        for _ in range(20):
            np.testing.assert_array_equal(model.run([x], threads=threads)[0], wide_value(x, 6))
        assert threads == 1 or _native.workers() == threads - 1

    work_in_parent = threads > 1
    if work_in_parent:
        model.run([x], threads=3)
    assert in_fork(work) == 0
    np.testing.assert_array_equal(model.run([x], threads=threads)[0], wide_value(x, 6))


def test_fork_while_other_threads_run(library: _native.Library) -> None:
    model, x = load(wide(6, HEAVY), library), np.arange(500, dtype=np.float32)
    stop = threading.Event()

    def keep_running() -> None:
        while not stop.is_set():
            model.run([x], threads=2)

    def work() -> None:
        for _ in range(5):
            np.testing.assert_array_equal(model.run([x], threads=2)[0], wide_value(x, 6))

    others = [threading.Thread(target=keep_running) for _ in range(2)]
    for other in others:
        other.start()
    try:
        assert [in_fork(work) for _ in range(10)] == [0] * 10
    finally:
        stop.set()
        for other in others:
            other.join()


def test_interrupt_leaves_the_process_alive(library: _native.Library, request: pytest.FixtureRequest) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs behind others ignores it
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    model = load(burning(5000), library)
    for threads in (1, 2):
        timer = threading.Timer(0.03, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            while True:
                model.run([], threads=threads)
        timer.join()
        assert model.run([], threads=threads)[0].tolist() == [1.0] * 40


def test_workers_take_no_signals(library: _native.Library) -> None:
    load(burning(100), library).run([], threads=2)
    masks = []
    for status in Path("/proc/self/task").glob("*/status"):
        fields = dict(line.split(":\t", 1) for line in status.read_text().splitlines() if ":\t" in line)
        if fields["Name"] == "graphwright":
            masks.append(int(fields["SigBlk"], 16))
    assert masks
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGCHLD):
        assert all(mask >> (number - 1) & 1 for mask in masks)


EXIT_SCRIPT = """
import sys, threading, time
from collections.abc import Callable
from pathlib import Path
from graphwright import _native
from tests.runtime.native.handmade import load
from tests.runtime.native.programs import burning, hosted

library = _native.open_library(sys.argv[1])
model = load(burning({microseconds}), library) if {microseconds} else hosted(library)
def keep_running():
    while True:
        model.run([], threads={threads})
for _ in range(3):
    threading.Thread(target=keep_running, daemon=True).start()
time.sleep(0.05)
{end}
"""


@pytest.mark.parametrize("end", ["", "sys.exit(0)", "model.run([], threads=2)"])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("microseconds", [0, 2000])
def test_exit_with_runs_in_flight(tmp_path: Path, end: str, threads: int, microseconds: int) -> None:
    build_kernels(tmp_path)
    script = EXIT_SCRIPT.format(microseconds=microseconds, threads=threads, end=end)
    command = [sys.executable, "-c", script, str(tmp_path / "kernels.so")]
    done = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stderr) == (0, "")


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}


def test_threads_by_default_follow_affinity() -> None:
    cpu = min(os.sched_getaffinity(0))
    limit = f"import os; os.sched_setaffinity(0, [{cpu}])"
    script = f"{limit}; from graphwright import _native; print(_native.threads())"
    done = subprocess.run([sys.executable, "-c", script], env=environment(), capture_output=True, text=True)
    assert done.stdout.split() == ["1"], done.stderr
    assert 1 <= _native.cpu_count() <= len(os.sched_getaffinity(0))


def test_set_threads_sets_the_number_of_threads() -> None:
    before = _native.threads()
    _native.set_threads(3)
    assert _native.threads() == 3
    _native.set_threads(0)
    assert _native.threads() == _native.cpu_count()
    _native.set_threads(before)
    with pytest.raises(ValueError, match="negative"):
        _native.set_threads(-1)


def test_isa_is_what_the_kernel_reports() -> None:
    line = next(line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags"))
    flags = set(line.split(":")[1].split())
    v3 = {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"} <= flags
    v4 = {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"} <= flags
    assert _native.isa() == ("v4" if v3 and v4 else "v3" if v3 else "baseline")


def test_libraries_loaded_from_memory_are_distinct(tmp_path: Path) -> None:
    """Numbers of file descriptors are reused; the loader must not mistake a new object for an old one."""
    data = build_kernels(tmp_path)
    libraries = [_native.load_library(data) for _ in range(20)]
    assert len({library.symbol("affine") for library in libraries}) == 20
    del libraries[::2]
    x = np.arange(5, dtype=np.float32)
    for library in libraries:
        model = load(affine_chain(2), library)
        np.testing.assert_array_equal(model.run([x])[0], affine_chain_value(x, 2))


def test_unknown_symbol_and_damaged_objects(library: _native.Library, tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="no_such_kernel"):
        library.symbol("no_such_kernel")
    data = build_kernels(tmp_path)
    for damaged in (b"", b"text", data[:100], b"\x7fELF" + bytes(1000)):
        with pytest.raises(_native.LoadError):
            _native.load_library(damaged)
    with pytest.raises(_native.LoadError):
        _native.open_library(str(tmp_path / "absent.so"))


def test_a_shared_object_that_does_not_fit_in_memory_is_an_error(tmp_path: Path) -> None:
    data, before = build_kernels(tmp_path), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        with pytest.raises(MemoryError, match=r"of \d+ bytes cannot be written to memory: File too large"):
            _native.load_library(data)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_the_program_keeps_its_library_and_weights(tmp_path: Path) -> None:
    library = _native.load_library(build_kernels(tmp_path))
    model = load(affine_chain(2), library, weights=bytes(64))
    del library
    x = np.arange(5, dtype=np.float32)
    np.testing.assert_array_equal(model.run([x])[0], affine_chain_value(x, 2))
