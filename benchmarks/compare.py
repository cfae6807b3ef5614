"""graphwright beside its peers on models of the zoo: times, memory, and how far the answers differ.

Each engine works in a process of its own. They take turns, round by round, and a ratio is the median of the
rounds' ratios: what else the machine does meets all of them alike.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.models import MODELS, DevModel

Array = np.ndarray[Any, Any]
OURS = "graphwright"
PEERS = ("onnxruntime", "openvino")
RESULTS = Path(__file__).with_name("results")
ROUND_SECONDS = 0.1
MIB = 1 << 20


@dataclass(frozen=True)
class Measured:
    """What one engine did with one model. Times in ms, memory in MiB."""

    engine: str
    run_ms: float
    """Median over rounds."""
    ratio: float
    """Its time over graphwright's, the median of rounds: above 1, graphwright is faster."""
    load_ms: float
    first_ms: float
    peak_mib: float
    """Most resident memory of the process that loads and runs, interpreter included."""
    difference: float
    """Largest distance of an output's element to ONNX Runtime's, over that output's largest magnitude."""


@dataclass(frozen=True)
class Comparison:
    """One model at one size."""

    model: str
    shapes: Mapping[str, Sequence[int]]
    threads: int
    om_mib: float
    engines: tuple[Measured, ...]


class Worker:
    """A process of :mod:`benchmarks.worker`."""

    def __init__(self, engine: str, model: Path, feeds: Path, outputs: Path, threads: int) -> None:
        command = [
            sys.executable,
            "-m",
            "benchmarks.worker",
            engine,
            *map(str, (model, feeds, outputs, threads)),
        ]
        self.engine, self.outputs = engine, outputs
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.start: dict[str, float] = self._answer()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def times(self, runs: int) -> list[int]:
        """Nanoseconds of each of ``runs`` runs."""
        assert self._process.stdin is not None
        print(runs, file=self._process.stdin, flush=True)
        taken: list[int] = self._answer()
        return taken

    def finish(self) -> int:
        """End the process; the peak of its memory in bytes."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        return int(self._answer()["peak_bytes"])

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.engine} gave up: exit status {self._process.wait()}")
        return json.loads(line)


def build(source: Path, target: Path) -> dict[str, float]:
    """Compile ``source`` to ``target`` with an empty cache of kernels: ``seconds`` and ``peak_mib``."""
    with tempfile.TemporaryDirectory() as cache:
        command = [sys.executable, "-m", "benchmarks.build", str(source), str(target)]
        environment = os.environ | {"GRAPHWRIGHT_CACHE_DIR": cache}
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def compare(
    name: str,
    source: Path,
    packed: Path,
    feeds: Mapping[str, Array],
    peers: Sequence[str],
    threads: int = 1,
    rounds: int = 15,
) -> Comparison:
    """Measure graphwright on the ``.om`` file ``packed`` and ``peers`` on the ONNX file ``source``."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        root = Path(folder)
        feeds_file = root / "feeds.npz"
        np.savez(feeds_file, **dict(feeds))  # type: ignore[arg-type]  # names are not its options
        workers = [
            stack.enter_context(
                Worker(e, packed if e == OURS else source, feeds_file, root / f"{e}.npz", threads)
            )
            for e in (OURS, *peers)
        ]
        times = _take_turns(workers, rounds)
        answers = {w.engine: _read(w.outputs) for w in workers}
        expected = answers.get("onnxruntime", answers[OURS])
        engines = tuple(
            Measured(
                engine=worker.engine,
                run_ms=statistics.median(own) / 1e6,
                ratio=statistics.median(t / ours for t, ours in zip(own, times[0], strict=True)),
                load_ms=worker.start["load_s"] * 1e3,
                first_ms=worker.start["first_s"] * 1e3,
                peak_mib=worker.finish() / MIB,
                difference=_difference(answers[worker.engine], expected),
            )
            for worker, own in zip(workers, times, strict=True)
        )
        shapes = {key: list(array.shape) for key, array in feeds.items()}
        return Comparison(name, shapes, threads, packed.stat().st_size / MIB, engines)


def _take_turns(workers: Sequence[Worker], rounds: int) -> list[list[float]]:
    """The median of each worker's runs in each round, in ns."""
    runs = [max(1, round(ROUND_SECONDS * 1e9 / min(w.times(3)))) for w in workers]
    medians: list[list[float]] = [[] for _ in workers]
    for _ in range(rounds):
        for worker, count, own in zip(workers, runs, medians, strict=True):
            own.append(statistics.median(worker.times(count)))
    return medians


def _read(file: Path) -> list[Array]:
    with np.load(file) as archive:
        return list(archive.values())


def _difference(answers: Sequence[Array], expected: Sequence[Array]) -> float:
    return max(
        float(np.abs(a - e).max() / np.abs(e).max()) if e.size else 0.0
        for a, e in zip(answers, expected, strict=True)
    )


def table(comparisons: Sequence[Comparison]) -> Table:
    """All comparisons, an engine a line."""
    made = Table("model", "engine", "run ms", "ratio", "load ms", "peak MiB", "difference")
    for each in comparisons:
        for m in each.engines:
            numbers = (f"{m.run_ms:.3g}", f"{m.ratio:.2f}", f"{m.load_ms:.0f}", f"{m.peak_mib:.0f}")
            made.add_row(each.model, m.engine, *numbers, f"{m.difference:.0e}")
        made.add_section()
    return made


def machine() -> dict[str, Any]:
    """The CPU and its number of usable cores."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "unknown")
    return {"cpu": model, "cores": len(os.sched_getaffinity(0)), "system": platform.system()}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description=__doc__)
    parser.add_argument("models", nargs="+", choices=list(MODELS), metavar="MODEL")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--peers", nargs="*", choices=PEERS, help="default: those that are installed")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for a JSON file per model")
    chosen = parser.parse_args()
    peers = chosen.peers if chosen.peers is not None else [p for p in PEERS if importlib.util.find_spec(p)]
    chosen.results.mkdir(parents=True, exist_ok=True)
    for name in chosen.models:
        record = measure(MODELS[name], peers, chosen.threads, chosen.rounds)
        file = chosen.results / f"{name}.{chosen.threads}.json"
        file.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")


def measure(model: DevModel, peers: Sequence[str], threads: int, rounds: int) -> dict[str, Any]:
    """Compile, measure and print one model of the zoo; what a results file holds."""
    with tempfile.TemporaryDirectory() as folder:
        packed = Path(folder) / "model.om"
        made = build(model.path(), packed)
        done = compare(model.name, model.path(), packed, model.feeds(), peers, threads, rounds)
    Console().print(table([done]))
    return {
        "command": f"python -m benchmarks.compare {model.name} --threads {threads} --rounds {rounds}",
        "machine": machine(),
        "versions": {engine: version(engine) for engine in (OURS, *peers)},
        "compile": made,
        **asdict(done),
    }


if __name__ == "__main__":
    main()
