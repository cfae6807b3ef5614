"""Measures the gain and the cost of several threads, on a quiet machine and while another process uses one of
their cores.

Programs of plain arithmetic, so that neither memory nor vector clocks matter: a chain of regions, each handed
out in chunks. ``python -m benchmarks.threads --threads 2`` prints the gain over the median on one thread of a
quiet machine: above 1, threads pay.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

import graphwright as gw
from benchmarks.models import MODELS
from benchmarks.neighbor import busy
from benchmarks.records import write_record
from graphwright import _native
from graphwright.kernels.ref import KernelRef
from graphwright.low_ir.serialize import to_plain
from graphwright.low_ir.tasks import Block, Code, Instruction, Task, TaskGraph, TaskKind
from graphwright.low_ir.wire import words_of
from graphwright.targets.cpu.isa import V3
from graphwright.targets.cpu.toolchain import compile_shared, find_toolchain
from graphwright.tools.machine import usable_cores
from graphwright.tools.measuring.engines import OURS

UNITS: Final = 64
"""Of each region: enough for any number of chunks."""
KERNEL: Final = """
#include <stdint.h>
#define EXPORT __attribute__((visibility("default")))
static volatile float sink;
/* Each unit is arg[0] additions, one after the other. */
EXPORT int32_t add(void *const *buf, const int64_t *arg, int64_t begin, int64_t end, void *scratch) {
    float sum = 0;
    (void)buf, (void)scratch;
    for (; begin < end; begin++)
        for (int64_t i = 0; i < arg[0]; i++)
            __asm__ volatile("vaddss %1, %0, %0" : "+x"(sum) : "x"(1.0f));
    if (sum < 0)
        sink = sum;
    return 0;
}
"""
Run = Callable[[int], object]
"""One run on this many threads."""


@dataclass(frozen=True)
class Case:
    """``regions`` in a chain, each of ``us`` microseconds on one thread; runs are ``idle_us`` apart."""

    regions: int
    us: float
    idle_us: float = 0

    @property
    def name(self) -> str:
        """The case as text."""
        idle = f", every {self.idle_us:g} us" if self.idle_us else ""
        return f"{self.regions} x {self.us:g} us{idle}"


CASES: Final = (
    Case(1000, 0),
    Case(1, 0, 1000),
    Case(1, 100, 1000),
    Case(100, 30),
    Case(100, 100),
    Case(20, 1000),
    Case(2, 10_000),
)
EMPTY_WORK_NS: Final = 1_000_000
"""Claimed for empty regions, so that they are handed out all the same."""


def program(regions: int, additions: int, work_ns: int) -> TaskGraph:
    """A chain of launches, each of UNITS units of this many additions."""
    shape = [Instruction(Code.CONST, value) for value in (UNITS, additions, work_ns)]
    tasks = [
        Task(TaskKind.LAUNCH, kernel=0, args=(1,), grid=0, work=2, after=(i - 1,) if i else ())
        for i in range(regions)
    ]
    return TaskGraph((), (), tuple(shape), (), tuple(tasks), (Block(0, regions),), (KernelRef("add"),))


def load() -> Callable[[TaskGraph], _native.Program]:
    """The kernel's library, ready to run programs."""
    library = _native.load_library(compile_shared(KERNEL, V3, find_toolchain()))
    return lambda made: _native.Program(
        words_of(to_plain(made)), b"", [library.symbol("add")], libraries=[library]
    )


def addition_ns(loaded: Callable[[TaskGraph], _native.Program]) -> float:
    """Returns the latency of one addition, in nanoseconds."""
    count = 1000
    run = loaded(program(10, count, 0)).run
    run([], threads=1)
    return min(_timed(lambda: run([], threads=1)) for _ in range(20)) / (10 * UNITS * count)


def _timed(run: Callable[[], object]) -> int:
    begin = time.perf_counter_ns()
    run()
    return time.perf_counter_ns() - begin


def synthetic(case: Case, loaded: Callable[[TaskGraph], _native.Program], ns: float) -> Run:
    """A program that runs ``case``."""
    additions = round(case.us * 1000 / UNITS / ns)
    made = loaded(program(case.regions, additions, round(case.us * 1000) or EMPTY_WORK_NS))
    return lambda threads: made.run([], threads=threads)


def zoo(name: str) -> Run:
    """A run of a model of the zoo."""
    model, feeds = gw.compile(MODELS[name].path()), MODELS[name].feeds()

    def run(threads: int) -> None:
        model.threads = threads
        model.run(feeds)

    return run


def times(run: Run, threads: int, seconds: float, idle_us: float = 0) -> list[int]:
    """Returns the nanoseconds of each run, for ``seconds`` in total."""
    taken: list[int] = []
    run(threads)
    end = time.monotonic() + seconds
    while time.monotonic() < end or len(taken) < 5:
        time.sleep(idle_us / 1e6)
        taken.append(_timed(lambda: run(threads)))
    return taken


def measure(run: Run, threads: int, seconds: float, idle_us: float = 0) -> dict[str, Any]:
    """Percentiles in ns on one thread, on several (both in turns), and on several next to a busy neighbor."""
    one: list[int] = []
    many: list[int] = []
    for _ in range(5):
        one += times(run, 1, seconds / 5, idle_us)
        many += times(run, threads, seconds / 5, idle_us)
    with busy(usable_cores(threads)[0]):
        disturbed = times(run, threads, seconds, idle_us)
    found = {"one": one, "quiet": many, "busy": disturbed}
    return {name: _percentiles(taken) for name, taken in found.items()}


def _percentiles(taken: Sequence[int]) -> dict[str, float]:
    wanted = {"least": 0, "median": 50, "p95": 95, "p99": 99, "most": 100}
    figures = {name: float(np.percentile(taken, percent)) for name, percent in wanted.items()}
    return figures | {"mean": float(np.mean(taken)), "runs": len(taken)}


def line(name: str, found: dict[str, Any]) -> str:
    """The line for the terminal."""
    base = found["one"]["median"]
    texts = [f"{name:24} {base / 1e3:9.1f} us"]
    for setting in ("quiet", "busy"):
        gains = " ".join(f"{base / found[setting][key]:5.2f}" for key in ("median", "mean", "p95", "p99"))
        texts.append(f"{setting} {found[setting]['median'] / 1e3:9.1f} us, gain {gains}")
    return "   ".join(texts)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.threads", description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1.0, help="for each case and setting")
    parser.add_argument("--models", nargs="*", choices=list(MODELS), default=[])
    parser.add_argument("--json", type=Path, help="write all figures there")
    chosen = parser.parse_args()
    loaded = load()
    ns = addition_ns(loaded)
    runs = {case.name: (synthetic(case, loaded, ns), case.idle_us) for case in CASES}
    runs |= {name: (zoo(name), 0.0) for name in chosen.models}
    print("gain over one quiet thread: median, mean, 95th and 99th percentile")
    figures = {}
    for name, (run, idle_us) in runs.items():
        figures[name] = measure(run, chosen.threads, chosen.seconds, idle_us)
        print(line(name, figures[name]), flush=True)
    if chosen.json:
        write_record(chosen.json, [OURS, "numpy"], {"threads": chosen.threads, "cases": figures})


if __name__ == "__main__":
    main()
