"""Measures models: alone, compared with other engines, and task by task.

Each engine runs in a process of its own, on as many cores as it has threads. The engines take turns in
rounds. All but one are stopped, so that no thread pool spins while another engine is timed. A ratio is the
median of the ratios of the rounds, so that other load on the machine affects all engines alike.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from graphwright.config import Options, to_environment
from graphwright.errors import Diagnostic
from graphwright.records import dataclass, field
from graphwright.runtime.model import Model
from graphwright.tools.arrays import write_feeds
from graphwright.tools.machine import usable_cores, versions
from graphwright.tools.measuring.engines import ENGINES, OURS, EngineError

Array = np.ndarray[Any, Any]
ROUND_SECONDS = 0.1
"""The seconds for which an engine runs in one round."""


@dataclass
class Measured:
    """The measurements of one engine: the nanoseconds of every run, by round."""

    engine: str
    version: str
    load_s: float
    first_s: float
    peak_bytes: int = 0
    """The peak resident memory of its process, including the interpreter."""
    counters: dict[str, int] = field(default_factory=dict)
    """The counters of its runs (:meth:`graphwright.Model.stats`); empty for other engines."""
    rounds: list[list[int]] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    """The mean CPU time of a run in each round, summed over threads, in ns."""

    @cached_property
    def times(self) -> Array:
        """All runs, in ns."""
        return np.array([time for taken in self.rounds for time in taken], np.float64)

    @property
    def round_medians(self) -> list[float]:
        """The median of each round, in ns."""
        return [statistics.median(taken) for taken in self.rounds]

    def summary(self) -> dict[str, float]:
        """The minimum, median and 95th percentile in ns, and the runs per second at the median."""
        median = float(np.median(self.times))
        return {
            "min_ns": float(self.times.min()),
            "median_ns": median,
            "p95_ns": float(np.percentile(self.times, 95)),
            "runs_per_second": 1e9 / median,
        }


@dataclass(frozen=True)
class Ratio:
    """The median and quartiles of the ratios of the rounds."""

    median: float
    low: float
    high: float


def paired_ratio(above: Sequence[float], below: Sequence[float]) -> Ratio:
    """The ratio of two figures that were measured in the same rounds."""
    low, median, high = np.percentile([a / b for a, b in zip(above, below, strict=True)], (25, 50, 75))
    return Ratio(float(median), float(low), float(high))


def ratio(peer: Measured, ours: Measured) -> Ratio:
    """The time of a peer relative to that of graphwright, from the medians of each round: above 1,
    graphwright is faster.
    """
    return paired_ratio(peer.round_medians, ours.round_medians)


Run = tuple[Path, Mapping[str, Array]]
"""A model, in a file of the type that an engine reads, and its inputs."""


def measure(
    files: Mapping[str, Run],
    threads: int,
    rounds: int = 20,
    round_seconds: float = ROUND_SECONDS,
    progress: Callable[[int], None] = lambda done: None,
    options: Options | None = None,
    refused: dict[str, str] | None = None,
) -> dict[str, Measured]:
    """Measures engines: ``files`` has the model and the inputs of each.

    ``progress`` is called with the number of finished rounds, between rounds, when no engine runs.
    ``options`` are graphwright's own. Raises EngineError if an engine cannot run its model. If ``refused`` is
    given, a peer that cannot is left out instead, and ``refused`` gets the reason.
    """
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        workers = []
        for engine, (model, feeds) in files.items():
            worker = stack.enter_context(worker_process(engine, options or Options()))
            try:
                worker.load(model, feeds, threads, Path(folder))
            except EngineError as error:
                if refused is None or engine == OURS:
                    raise
                refused[engine] = error.diagnostics[0].message
            else:
                workers.append(worker)
        take_turns(workers, rounds, round_seconds, progress)
        return {worker.measured.engine: worker.measured for worker in workers}


def take_turns(
    workers: Sequence[Worker],
    rounds: int,
    round_seconds: float,
    progress: Callable[[int], None] = lambda done: None,
) -> None:
    """Measures what ``workers`` have loaded; see :func:`measure`."""
    counts = [_runs_per_round(worker, round_seconds) for worker in workers]
    for done in range(rounds):
        first = done % len(workers)  # so that no engine always follows the same one
        for index in [*range(first, len(workers)), *range(first)]:
            workers[index].round(counts[index])
        progress(done + 1)


def _runs_per_round(worker: Worker, seconds: float) -> int:
    taken: list[int] = worker.times(3)["ns"]
    return max(1, min(100_000, round(seconds * 1e9 / max(1, min(taken)))))


class Worker:
    """A process of :mod:`graphwright.tools.worker`, which is stopped except during a request."""

    def __init__(self, process: subprocess.Popen[str], engine: str) -> None:
        self._process, self._engine = process, engine
        self.measured = Measured(engine, "", 0, 0)

    def load(
        self,
        model: Path,
        feeds: Mapping[str, Array],
        threads: int,
        folder: Path,
        outputs: Path | None = None,
    ) -> None:
        """Loads and runs ``model`` once, and measures it from now on. Raises EngineError.

        Feeds are handed over in ``folder``; results go to ``outputs``, an .npz file.
        """
        file = folder / f"{self._engine}.npz"
        write_feeds(file, feeds)
        task = {
            "engine": self._engine,
            "model": str(model),
            "feeds": str(file),
            "threads": threads,
            "cores": usable_cores(threads),
            "outputs": str(outputs or ""),
        }
        begun = self._ask(task)
        package = ENGINES[self._engine].package
        version = versions([package]).get(package, "")
        self.measured = Measured(self._engine, version, begun["load_s"], begun["first_s"])

    def times(self, runs: int) -> Any:
        """Nanoseconds of each of ``runs`` runs, and processor time of all."""
        answer = self._ask(runs)
        self.measured.peak_bytes, self.measured.counters = answer["peak_bytes"], answer["counters"]
        return answer

    def round(self, runs: int) -> None:
        """Runs the model ``runs`` times and records the times."""
        answer = self.times(runs)
        self.measured.rounds.append(answer["ns"])
        self.measured.processor.append(answer["processor_ns"] / runs)

    def _ask(self, order: Any) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.send_signal(signal.SIGCONT)
        with contextlib.suppress(BrokenPipeError):  # the missing answer is reported below
            print(json.dumps(order), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        answer = json.loads(line) if line else f"its process ended with status {self._process.wait()}"
        self._process.send_signal(signal.SIGSTOP)
        if isinstance(answer, str):
            raise EngineError(Diagnostic("engine", f"{self._engine} cannot run it: {answer}"))
        return answer


@contextmanager
def worker_process(engine: str, options: Options) -> Iterator[Worker]:
    """A worker with graphwright's ``options``, which ends with the context."""
    environment = (
        os.environ | to_environment(options) | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "graphwright.tools.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    try:
        yield Worker(process, engine)
    finally:
        process.kill()
        process.communicate()


@dataclass(frozen=True)
class TaskRow:
    """One task over several runs."""

    task: int
    name: str
    kernel: str
    median_ns: float
    """The median of its time in a run; the calls of a loop are added up."""
    predicted_ns: int
    """The time of a call on one core by the cost model; 0 if the model has none."""


def task_times(model: Model, feeds: Mapping[str, Array], runs: int = 20, threads: int = 0) -> list[TaskRow]:
    """The times of all tasks that run, slowest first, from the time stamps of tasks."""
    model.run(feeds)
    times: dict[tuple[int, str, str], list[int]] = {}
    predicted: dict[tuple[int, str, str], int] = {}
    for _ in range(runs):
        spent: Counter[tuple[int, str, str]] = Counter()
        for call in model.trace(feeds, threads):
            key = call.task, call.name, call.kernel
            spent[key] += call.end - call.start
            predicted[key] = call.predicted
        for key, taken in spent.items():
            times.setdefault(key, []).append(taken)
    rows = [TaskRow(*key, statistics.median(taken), predicted[key]) for key, taken in times.items()]
    return sorted(rows, key=lambda row: -row.median_ns)


def record(
    command: Sequence[str],
    model: Path,
    threads: int,
    feeds: Mapping[str, Array],
    results: Mapping[str, Measured],
) -> dict[str, Any]:
    """The content of the JSON file: all times of every round, and everything needed to repeat the
    measurement.
    """
    ours = results[OURS]
    return {
        "command": list(command),
        "model": model.name,
        "threads": threads,
        "inputs": {name: f"{array.dtype}{list(array.shape)}" for name, array in feeds.items()},
        "engines": {name: _engine_record(measured) for name, measured in results.items()},
        "ratios": {name: vars(ratio(m, ours)) for name, m in results.items() if name != OURS},
    }


def _engine_record(measured: Measured) -> dict[str, Any]:
    plain = {"load_s": measured.load_s, "first_s": measured.first_s, "peak_bytes": measured.peak_bytes}
    return {"version": measured.version, **plain, **measured.summary(), "rounds_ns": measured.rounds}
