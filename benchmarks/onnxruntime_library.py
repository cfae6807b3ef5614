"""ONNX Runtime with the library of ``graph-autofusion --library`` beside ONNX Runtime alone, and graphwright.

    python -m benchmarks.onnxruntime_library [MODEL ...] [--threads 1] [--json FILE]

Shown are milliseconds of a run (the first quartile of runs that take turns), their ratios, MiB of the largest
resident memory of a process that makes a session and runs it once, beyond that of the imports and with mapped
files, seconds of making a session, and seconds of the command, with a cache of kernels of its own.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

import graphwright as gw
from benchmarks.models import MODELS
from graphwright.config import Options

Array = np.ndarray[Any, Any]
SECONDS = 4.0
"""Of the runs of one model."""
MOST_RUNS = 400
_COMMAND = "from graphwright.__main__ import autofusion; autofusion()"
_ONE_RUN = """
import sys
import numpy as np, onnxruntime as ort
options = ort.SessionOptions()
options.intra_op_num_threads = int(sys.argv[3])
def peak():
    return int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0])
before = peak()
if sys.argv[4:]:
    options.register_custom_ops_library(sys.argv[4])
session = ort.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
session.run(None, dict(np.load(sys.argv[2])))
print(peak() - before)
"""


@dataclass(frozen=True)
class Figures:
    """Of one model: milliseconds, MiB, seconds; the largest difference of results, relative."""

    model: str
    plain_ms: float
    served_ms: float
    graphwright_ms: float
    plain_mib: float
    served_mib: float
    plain_load_s: float
    served_load_s: float
    command_s: float
    error: float

    def row(self) -> str:
        """A line of the table."""
        return (
            f"{self.model:20} {self.plain_ms:9.3f} {self.served_ms:9.3f} {self.graphwright_ms:9.3f}"
            f" {self.served_ms / self.plain_ms:7.3f} {self.served_ms / self.graphwright_ms:7.3f}"
            f" {self.plain_mib:7.0f} {self.served_mib:7.0f} {self.served_mib / self.plain_mib:6.2f}"
            f" {self.plain_load_s:6.2f} {self.served_load_s:6.2f} {self.command_s:6.1f} {self.error:8.1e}"
        )


HEAD = (
    f"{'model':20} {'plain ms':>9} {'library':>9} {'gw':>9} {'/plain':>7} {'/gw':>7}"
    f" {'MiB':>7} {'library':>7} {'ratio':>6} {'load s':>6} {'lib.':>6} {'cmd s':>6} {'error':>8}"
)


def session(model: Path, threads: int, library: Path | None = None) -> tuple[ort.InferenceSession, float]:
    """A session, and the seconds of making it."""
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    start = time.perf_counter()
    if library is not None:
        options.register_custom_ops_library(str(library))
    made = ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    return made, time.perf_counter() - start


def quartiles(runs: Sequence[Callable[[], object]]) -> list[float]:
    """Milliseconds of each of ``runs``, which take turns: two calls, of which the second counts."""
    times: list[list[float]] = [[] for _ in runs]
    end = time.perf_counter() + SECONDS
    while len(times[0]) < 5 or (time.perf_counter() < end and len(times[0]) < MOST_RUNS):
        for run, taken in zip(runs, times, strict=True):
            run()
            start = time.perf_counter()
            run()
            taken.append(1e3 * (time.perf_counter() - start))
    return [sorted(taken)[len(taken) // 4] for taken in times]


def peak_mib(model: Path, feeds: Path, threads: int, library: Path | None = None) -> float:
    """Of one run in a process of its own."""
    command = [sys.executable, "-c", _ONE_RUN, str(model), str(feeds), str(threads)]
    command += [str(library)] if library is not None else []
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout) / 1024


def difference(ours: Sequence[Array], theirs: Sequence[Array]) -> float:
    """The largest, relative to the largest element."""
    wide = [(a.astype(np.float64), b.astype(np.float64)) for a, b in zip(ours, theirs, strict=True)]
    pairs = [(a, b) for a, b in wide if a.size]
    return max((float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-30)) for a, b in pairs), default=0.0)


def figures(name: str, threads: int, folder: Path) -> Figures:
    """Of the model called ``name``."""
    model, fused, library = MODELS[name].path(), folder / f"{name}.onnx", folder / f"{name}.onnx.so"
    feeds: Mapping[str, Array] = MODELS[name].feeds()
    np.savez(folder / "feeds.npz", **feeds)
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", _COMMAND, "-i", str(model), "-o", str(fused), "--library"],
        check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env={**os.environ, "GRAPHWRIGHT_CACHE_DIR": str(folder / f"cache_{name}")},
    )  # fmt: skip
    seconds = time.perf_counter() - start
    (plain, plain_s), (fast, fast_s) = session(model, threads), session(fused, threads, library)
    compiled = gw.compile(model, options=Options(threads=threads))
    error = difference(fast.run(None, dict(feeds)), plain.run(None, dict(feeds)))
    runs = [
        lambda: plain.run(None, dict(feeds)),
        lambda: fast.run(None, dict(feeds)),
        lambda: compiled.run(feeds),
    ]
    times = quartiles(runs)
    arrays = folder / "feeds.npz"
    peaks = peak_mib(model, arrays, threads), peak_mib(fused, arrays, threads, library)
    return Figures(name, *times, *peaks, plain_s, fast_s, seconds, error)


def geometric_mean(ratios: Sequence[float]) -> float:
    """Of positive numbers."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    cached = [name for name, model in MODELS.items() if model.cached_file().exists()]
    parser.add_argument("models", nargs="*", default=cached, help="default: all that are fetched")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    print(HEAD)
    found: list[Figures] = []
    for name in given.models:
        with tempfile.TemporaryDirectory() as folder:
            found.append(figures(name, given.threads, Path(folder)))
        print(found[-1].row(), flush=True)
        if given.json is not None:
            given.json.write_text(json.dumps([asdict(each) for each in found], indent=1) + "\n")
    report(found)


def report(found: Sequence[Figures]) -> None:
    """All models together."""
    beside_plain = [each.served_ms / each.plain_ms for each in found]
    beside_graphwright = [each.served_ms / each.graphwright_ms for each in found]
    memory = max(each.served_mib / each.plain_mib for each in found)
    print(
        f"library / plain: geometric mean {geometric_mean(beside_plain):.3f}, at most {max(beside_plain):.3f}"
    )
    print(f"library / graphwright: geometric mean {geometric_mean(beside_graphwright):.3f}")
    print(f"memory: at most {memory:.2f} of ONNX Runtime's")


if __name__ == "__main__":
    main()
