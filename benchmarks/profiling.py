"""Measures the cost of profiles: runs with and without a profile, and runs without one in two versions of the
code.

    python -m benchmarks.profiling                           # resnet50 on one thread
    python -m benchmarks.profiling resnet50 --threads 2
    python -m benchmarks.profiling --before ../before/.venv/bin/python

Runs take turns in rounds: off, on, on, off. A figure is the median of the rounds' ratios of the least times,
with its quartiles; on one thread times are those of the processor, so that other work on the machine does not
count. ``--before`` is the Python of a tree without profiles, or of an earlier version: one of its processes
runs the same package, alternating with a process of this tree, both without a profile. The share of the run
time that the rows of the table cover is shown as well. Results go to ``benchmarks/results/profiling``.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

import graphwright as gw
from benchmarks import RESULTS
from benchmarks.models import MODELS
from benchmarks.records import write_record
from graphwright.tools.measuring.bench import paired_ratio
from graphwright.tools.measuring.engines import OURS

ROUNDS: Final = 30
SECONDS: Final = 0.4
"""Of a turn, about."""
FOLDER: Final = RESULTS / "profiling"
WORKER: Final = """
import sys, time
import numpy as np
import graphwright as gw
model = gw.load(sys.argv[1], trust=True, options={"threads": int(sys.argv[3])})
with np.load(sys.argv[2]) as held:
    feeds = {spec.name: held[f"arr_{k}"] for k, spec in enumerate(model.inputs)}
clock = time.thread_time_ns if sys.argv[3] == "1" else time.perf_counter_ns
for line in sys.stdin:
    times = []
    for _ in range(int(line)):
        start = clock()
        model.run(feeds)
        times.append(clock() - start)
    print(min(times), flush=True)
"""


def least(run: Callable[[], object], runs: int, threads: int) -> int:
    """Returns the nanoseconds of the fastest of ``runs``."""
    clock = time.thread_time_ns if threads == 1 else time.perf_counter_ns
    times = []
    for _ in range(runs):
        start = clock()
        run()
        times.append(clock() - start)
    return min(times)


def cost_when_on(model: gw.Model, feeds: Any, threads: int, rounds: int) -> dict[str, Any]:
    """The ratio of times with and without a profile, and the share of the time that the table explains."""
    runs = max(1, int(SECONDS * 1e9 / least(lambda: model.run(feeds), 3, threads)))
    on: list[float] = []
    off: list[float] = []
    covered: list[float] = []
    for _ in range(rounds):
        turns: dict[bool, list[int]] = {False: [], True: []}
        for recorded in (False, True, True, False):
            if not recorded:
                turns[False].append(least(lambda: model.run(feeds), runs, threads))
                continue
            with gw.profile() as p:
                turns[True].append(least(lambda: model.run(feeds), runs, threads))
            tasks = sum(row.self_ns for row in p.rows() if row.calls)
            covered.append(tasks / p.totals.run_ns)
        on.append(min(turns[True]))
        off.append(min(turns[False]))
    found = paired_ratio(on, off)
    return {"on_over_off": vars(found), "tasks_over_runs": float(np.median(covered)), "runs_of_a_turn": runs}


def cost_when_off(package: Path, feeds: Path, threads: int, before: str, rounds: int) -> dict[str, Any]:
    """The ratio of times of this code and of the Python ``before``, without a recording."""
    command = [WORKER, str(package), str(feeds), str(threads)]
    workers = [
        subprocess.Popen([python, "-c", *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for python in (sys.executable, before)
    ]

    def ask(worker: subprocess.Popen[str], runs: int) -> int:
        assert worker.stdin is not None and worker.stdout is not None
        worker.stdin.write(f"{runs}\n")
        worker.stdin.flush()
        return int(worker.stdout.readline())

    first = max(ask(worker, 3) for worker in workers)
    runs = max(1, int(SECONDS * 1e9 / first))
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        taken: tuple[list[int], list[int]] = ([], [])
        for turn in (0, 1, 1, 0):
            taken[turn].append(ask(workers[turn], runs))
        for side, all_of_it in zip(taken, times, strict=True):
            all_of_it.append(min(side))
    for worker in workers:
        worker.communicate()
    return vars(paired_ratio(*times))


def measure(name: str, threads: int, before: str | None, rounds: int) -> dict[str, Any]:
    """The figures of a model of the zoo."""
    model = MODELS[name]
    feeds = model.feeds("default", seed=0)
    shapes = {key: array.shape for key, array in feeds.items()}
    compiled = gw.compile(model.path(), shapes=shapes, options=gw.CompileOptions(threads=threads))
    made = cost_when_on(compiled, feeds, threads, rounds)
    if before is not None:
        with tempfile.TemporaryDirectory() as folder:
            package, arrays = Path(folder) / "model.om", Path(folder) / "feeds.npz"
            compiled.save(package)
            np.savez(arrays, *(feeds[spec.name] for spec in compiled.inputs))
            made["off_over_before"] = cost_when_off(package, arrays, threads, before, rounds)
    return made


def main() -> None:
    """Measure, print, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("models", nargs="*", default=["resnet50"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--before", help="the Python of another tree")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    given = parser.parse_args()
    for name in given.models:
        figures = measure(name, given.threads, given.before, given.rounds)
        for key, value in figures.items():
            print(f"{name} {key}: {value}", flush=True)
        about = {"model": name, "threads": given.threads, "rounds": given.rounds}
        write_record(FOLDER / f"{name}.{given.threads}.json", [OURS, "numpy"], {**about, **figures})


if __name__ == "__main__":
    main()
