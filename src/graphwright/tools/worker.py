"""One engine with one model in a process of its own: ``python -m graphwright.tools.worker``.

It reads one JSON line (engine, model, feeds: an .npz, threads, cores), takes to those cores, loads and runs
once, and answers with the seconds of both. Then it answers each number N with the nanoseconds of N runs; one
run before them does not count. It ends with its parent, also while it is stopped.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any, TextIO

from graphwright.errors import GraphwrightError
from graphwright.tools.arrays import read_npz
from graphwright.tools.engines import Run, counters, first_line, start
from graphwright.tools.machine import die_with_parent, peak_bytes


def serve(orders: TextIO, answers: TextIO) -> None:
    """Follow ``orders`` until they end; an answer that is a text says what went wrong, and is the last."""

    def answer(value: Any) -> None:
        print(json.dumps(value), file=answers, flush=True)

    try:
        task = json.loads(orders.readline())
        names: list[str] = task["names"]
        arrays = read_npz(Path(task["feeds"]))
        feeds = {name: arrays[f"input_{i}"] for i, name in enumerate(names)}
        os.sched_setaffinity(0, task["cores"])  # before an engine starts threads
        begin = time.perf_counter()
        run = start(task["engine"], Path(task["model"]), task["threads"])
        loaded = time.perf_counter()
        run(feeds)
        answer({"load_s": loaded - begin, "first_s": time.perf_counter() - loaded})
        for line in orders:
            taken = _times(run, feeds, int(line))
            answer({"ns": taken, "peak_bytes": peak_bytes(), "counters": counters(run)})
    except GraphwrightError as error:
        answer(str(error))
    except Exception as error:  # peers raise types of their own
        answer(first_line(error))


def _times(run: Run, feeds: dict[str, Any], count: int) -> list[int]:
    run(feeds)
    times = []
    for _ in range(count):
        begin = time.perf_counter_ns()
        run(feeds)
        times.append(time.perf_counter_ns() - begin)
    return times


def main() -> None:
    """Serve on stdin and stdout; what engines print goes to stderr."""
    die_with_parent()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    serve(sys.stdin, answers)


if __name__ == "__main__":
    main()
