"""A process that runs one engine on one model after the other: ``python -m graphwright.tools.worker``.

It reads lines of JSON, and answers each of them:

- A task has an engine, a model, feeds (an .npz), threads, cores, and outputs (an .npz to write, or nothing).
  The process binds itself to those cores, loads the model and runs it once. The answer is the seconds of
  loading and of the run.
- For a number N, the process runs the model once, and then N times. The answer is the nanoseconds of each of
  the N runs, and their processor time.

An answer that is a text is an error. The process ends with its parent, also while it is stopped.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from graphwright.errors import GraphwrightError
from graphwright.records import dataclass
from graphwright.tools.arrays import read_feeds, write_npz
from graphwright.tools.machine import die_with_parent, peak_bytes
from graphwright.tools.measuring.engines import Run, counters, first_line, start


def serve(orders: TextIO, answers: TextIO) -> None:
    """Executes ``orders`` until they end."""
    model: _Model | None = None
    for line in orders:
        order, answer = json.loads(line), None
        try:
            if isinstance(order, dict):
                model = None  # free the model before the next one is loaded
                model, answer = _load(order)
            elif model is not None:
                answer = _times(model, order)
        except GraphwrightError as error:
            answer = str(error)
        except Exception as error:  # other engines raise exceptions of their own types
            answer = first_line(error)
        print(json.dumps(answer), file=answers, flush=True)


@dataclass(frozen=True)
class _Model:
    run: Run
    feeds: dict[str, Any]


def _load(task: Mapping[str, Any]) -> tuple[_Model, Any]:
    """Loads a model; also returns the seconds of loading and of the first run."""
    feeds = read_feeds(Path(task["feeds"]))
    os.sched_setaffinity(0, task["cores"])  # before the engine starts threads
    begin = time.perf_counter()
    run = start(task["engine"], Path(task["model"]), task["threads"])
    loaded = time.perf_counter()
    results = run(feeds)
    seconds = {"load_s": loaded - begin, "first_s": time.perf_counter() - loaded}
    if task["outputs"]:
        write_npz(Path(task["outputs"]), {f"output_{i}": a for i, a in enumerate(results.values())})
    return _Model(run, feeds), seconds


def _times(model: _Model, count: int) -> Any:
    """The nanoseconds of ``count`` runs."""
    model.run(model.feeds)
    times, begun = [], time.process_time_ns()
    for _ in range(count):
        begin = time.perf_counter_ns()
        model.run(model.feeds)
        times.append(time.perf_counter_ns() - begin)
    taken = {"ns": times, "processor_ns": time.process_time_ns() - begun}
    return taken | {"peak_bytes": peak_bytes(), "counters": counters(model.run)}


def main() -> None:
    """Serve on stdin and stdout; what engines print goes to stderr."""
    die_with_parent()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    serve(sys.stdin, answers)


if __name__ == "__main__":
    main()
