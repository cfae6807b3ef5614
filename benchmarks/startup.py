"""Measures the time before the first result, and the overhead of each call: imports, compiling, loading, the
call.

    python -m benchmarks.startup [--models resnet50 bert_base] [--rounds 5] [--only compile load ...]

Every sample is a new process, and the measurements take turns, so that a disturbance affects all of them.
Byte code is cached beforehand, as an installer does. Times are medians over the rounds: wall-clock time,
which other processes of a shared machine affect, and the CPU time of the process with its children.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.models import MODELS

_CLOCK = """
import os, sys, time
_wall = time.perf_counter()
def cpu():
    times = os.times()
    return time.process_time() + times.children_user + times.children_system
_cpu = cpu()
"""
_REPORT = """
import json
print(json.dumps({"wall": time.perf_counter() - _wall, "cpu": cpu() - _cpu} | globals().get("more", {})))
"""
"""Not counted: the start of the interpreter itself, about 15 ms."""

_COMPILE = """
import graphwright as gw
model = gw.compile(sys.argv[1])
"""
_SAVE = """
import graphwright as gw
gw.compile(sys.argv[1]).save(sys.argv[2])
"""
_IMPORT = """
import graphwright as gw
gw.load
"""
_NUMPY = """
import numpy
"""
_LOAD = """
import graphwright as gw
gw.load
_wall, _cpu = time.perf_counter(), cpu()
model = gw.load(sys.argv[1], mmap=sys.argv[2] == "mmap")
"""
_CALLS = """
import graphwright as gw
from graphwright.ops.core.unary import Relu
import numpy as np

builder = gw.GraphBuilder()
builder.output("y", builder(Relu(), builder.input("x", "f32", (16, 64))))
model = builder.compile()
model.save(sys.argv[1])
session = gw.InferenceSession(sys.argv[1])
x = np.ones((16, 64), np.float32)
feeds = {"x": x}

def microseconds(call, count=2000):
    best = []
    for _ in range(15):
        start = time.clock_gettime_ns(time.CLOCK_THREAD_CPUTIME_ID)
        for _ in range(count):
            call()
        best.append((time.clock_gettime_ns(time.CLOCK_THREAD_CPUTIME_ID) - start) / count / 1e3)
    return min(best)

empty = microseconds(lambda: None)
more = {
    "model(x)": microseconds(lambda: model(x)) - empty,
    "model.run": microseconds(lambda: model.run(feeds)) - empty,
    "session.run": microseconds(lambda: session.run(None, feeds)) - empty,
    "np.empty": microseconds(lambda: np.empty((16, 64), np.float32)) - empty,
}
"""


@dataclass(frozen=True)
class Figure:
    """A script that is measured in a process of its own; ``limit`` in seconds, or None."""

    name: str
    kind: str
    script: str
    arguments: tuple[str, ...] = ()
    limit: float | None = None
    prepare: Callable[[], object] = lambda: None


class Places:
    """The folders of one measurement: byte code, kernels, packages."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kernels = folder / "cache"

    def run(self, script: str, *arguments: str) -> dict[str, float]:
        """The report of ``script`` in a new process."""
        environment = {
            k: v for k, v in os.environ.items() if not k.startswith(("GRAPHWRIGHT_", "PYTHONDONT"))
        }
        environment |= {
            "PYTHONPYCACHEPREFIX": str(self.folder / "pyc"),
            "GRAPHWRIGHT_CACHE_DIR": str(self.kernels),
            "GRAPHWRIGHT_KEY_DIR": str(self.folder / "key"),
        }
        ended = subprocess.run(
            [sys.executable, "-c", _CLOCK + script + _REPORT, *arguments],
            env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if ended.returncode:
            raise RuntimeError(ended.stderr)
        made: dict[str, float] = json.loads(ended.stdout.splitlines()[-1])
        return made

    def forget_kernels(self) -> None:
        """Empties the kernel cache, so that the next process compiles all kernels."""
        shutil.rmtree(self.kernels, ignore_errors=True)


def figures(places: Places, models: Sequence[str]) -> list[Figure]:
    """All figures to measure."""
    made = [
        Figure("import numpy", "import", _NUMPY),
        Figure("import graphwright.load", "import", _IMPORT, (), 0.080),
        Figure("one-op calls", "calls", _CALLS, (str(places.folder / "relu.om"),)),
    ]
    for model in models:
        source, package = str(MODELS[model].path()), str(places.folder / f"{model}.om")
        places.run(_SAVE, source, package)
        cold = (source,)
        made += [
            Figure(f"{model} cold compile", "compile", _COMPILE, cold, 5.0, places.forget_kernels),
            Figure(f"{model} warm compile", "compile", _COMPILE, cold, 1.2),
            Figure(f"{model} load, mapped", "load", _LOAD, (package, "mmap"), 0.030),
            Figure(f"{model} load, copied", "load", _LOAD, (package, "copy")),
        ]
    return made


def measure(places: Places, wanted: Sequence[Figure], rounds: int) -> dict[str, list[dict[str, float]]]:
    """Measures the figures in turns, after one round that does not count; the reports by figure."""
    reports: dict[str, list[dict[str, float]]] = {figure.name: [] for figure in wanted}
    for number in range(rounds + 1):
        for figure in wanted:
            figure.prepare()
            report = places.run(figure.script, *figure.arguments)
            if number:
                reports[figure.name].append(report)
    return reports


def _table(wanted: Sequence[Figure], reports: dict[str, list[dict[str, float]]]) -> str:
    lines = ["| figure | wall ms | CPU ms | limit ms |", "| --- | ---: | ---: | ---: |"]
    calls: dict[str, float] = {}
    for figure in wanted:
        samples = reports[figure.name]
        if figure.kind == "calls":
            calls = {key: min(s[key] for s in samples) for key in samples[0] if key not in ("wall", "cpu")}
            continue
        wall, cpu = (statistics.median(s[key] for s in samples) * 1e3 for key in ("wall", "cpu"))
        limit = "" if figure.limit is None else f"{figure.limit * 1e3:.0f}"
        lines.append(f"| {figure.name} | {wall:.1f} | {cpu:.1f} | {limit} |")
    lines += ["", *(f"{name}: {us:.2f} us of a thread's CPU time" for name, us in calls.items())]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--models", nargs="*", default=["resnet50", "bert_base"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*", choices=["import", "calls", "compile", "load"])
    parser.add_argument("--json", type=Path, help="write all samples to this file")
    chosen: Any = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="graphwright-startup-") as folder:
        places = Places(Path(folder))
        made = figures(places, chosen.models)
        wanted = [figure for figure in made if not chosen.only or figure.kind in chosen.only]
        reports = measure(places, wanted, chosen.rounds)
    print(_table(wanted, reports))
    if chosen.json:
        chosen.json.write_text(json.dumps(reports, indent=1))


if __name__ == "__main__":
    main()
