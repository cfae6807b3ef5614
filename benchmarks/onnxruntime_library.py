"""Compares ONNX Runtime with and without the library of ``graph-autofusion --library``, and graphwright.

    python -m benchmarks.onnxruntime_library [MODEL ...] [--threads 1] [--rounds 20] [--json FILE]

Each of the three runs in its own process; they take turns while the others are stopped. Columns:

- milliseconds of a run: the median,
- ratios: the median of the rounds' ratios, and their quartiles,
- MiB: the peak resident memory, including mapped files, of a process that creates a session and runs it once,
  minus the memory after the imports,
- seconds for creating a session, and seconds for the command with an empty cache of kernels.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import numpy as np

import graphwright as gw
from benchmarks.models import MODELS
from graphwright.tools.measuring.bench import Ratio, measure, ratio
from graphwright.tools.measuring.engines import LIBRARY, OURS, start

Array = np.ndarray[Any, Any]
PLAIN = "onnxruntime"
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
    """The figures of one model: milliseconds, the library's time over those of the others, MiB, seconds, and
    the largest difference of results, relative.
    """

    model: str
    plain_ms: float
    served_ms: float
    graphwright_ms: float
    compared_with_plain: Ratio
    compared_with_graphwright: Ratio
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
            f" {_text(self.compared_with_plain)} {_text(self.compared_with_graphwright)}"
            f" {self.plain_mib:7.0f} {self.served_mib:7.0f} {self.served_mib / self.plain_mib:6.2f}"
            f" {self.plain_load_s:6.2f} {self.served_load_s:6.2f} {self.command_s:6.1f} {self.error:8.1e}"
        )


HEAD = (
    f"{'model':20} {'plain ms':>9} {'library':>9} {'gw':>9} {'/plain':>18} {'/gw':>18}"
    f" {'MiB':>7} {'library':>7} {'ratio':>6} {'load s':>6} {'lib.':>6} {'cmd s':>6} {'error':>8}"
)


def _text(found: Ratio) -> str:
    return f"{found.median:6.3f} {found.low:5.2f}-{found.high:5.2f}"


def peak_mib(model: Path, feeds: Path, threads: int, library: Path | None = None) -> float:
    """The peak memory of one run in a process of its own, in MiB."""
    command = [sys.executable, "-c", _ONE_RUN, str(model), str(feeds), str(threads)]
    command += [str(library)] if library is not None else []
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout) / 1024


def difference(ours: Mapping[str, Array], theirs: Mapping[str, Array]) -> float:
    """The largest difference, relative to the largest element."""
    wide = [(ours[name].astype(np.float64), array.astype(np.float64)) for name, array in theirs.items()]
    pairs = [(a, b) for a, b in wide if a.size]
    return max((float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-30)) for a, b in pairs), default=0.0)


def write_library(model: Path, fused: Path) -> float:
    """Runs ``graph-autofusion`` with an empty kernel cache; returns the seconds that it takes."""
    with tempfile.TemporaryDirectory() as cache:
        begin = time.perf_counter()
        subprocess.run(
            [sys.executable, "-c", _COMMAND, "-i", str(model), "-o", str(fused), "--library"],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "GRAPHWRIGHT_CACHE_DIR": cache},
        )
        return time.perf_counter() - begin


def figures(name: str, threads: int, rounds: int, folder: Path) -> Figures:
    """Measures the model ``name``."""
    model, fused, compiled = MODELS[name].path(), folder / f"{name}.onnx", folder / f"{name}.om"
    library, arrays, feeds = folder / f"{name}.onnx.so", folder / "feeds.npz", MODELS[name].feeds()
    np.savez(arrays, **feeds)  # type: ignore[arg-type]  # no input is called allow_pickle
    seconds = write_library(model, fused)
    gw.compile(model).save(compiled)
    error = difference(start(LIBRARY, fused, 1)(feeds), start(PLAIN, model, 1)(feeds))
    files = {PLAIN: (model, feeds), LIBRARY: (fused, feeds), OURS: (compiled, feeds)}
    found = measure(files, threads, rounds)
    plain_ms, served_ms, graphwright_ms = (float(np.median(found[engine].times)) / 1e6 for engine in files)
    plain_mib, served_mib = peak_mib(model, arrays, threads), peak_mib(fused, arrays, threads, library)
    return Figures(
        name,
        plain_ms,
        served_ms,
        graphwright_ms,
        ratio(found[LIBRARY], found[PLAIN]),
        ratio(found[LIBRARY], found[OURS]),
        plain_mib,
        served_mib,
        found[PLAIN].load_s,
        found[LIBRARY].load_s,
        seconds,
        error,
    )


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    cached = [name for name, model in MODELS.items() if model.cached_file().exists()]
    parser.add_argument("models", nargs="*", default=cached, help="default: all that are fetched")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    print(HEAD)
    found: list[Figures] = []
    for name in given.models:
        with tempfile.TemporaryDirectory() as folder:
            found.append(figures(name, given.threads, given.rounds, Path(folder)))
        print(found[-1].row(), flush=True)
        if given.json is not None:
            given.json.write_text(json.dumps([asdict(each) for each in found], indent=1, default=vars) + "\n")
    report(found)


def report(found: Sequence[Figures]) -> None:
    """Prints the summary of all models."""
    for name in ("plain", "graphwright"):
        ratios = [getattr(each, f"compared_with_{name}").median for each in found]
        print(f"library / {name}: geometric mean {geometric_mean(ratios):.3f}, at most {max(ratios):.3f}")
    memory = max(each.served_mib / each.plain_mib for each in found)
    print(f"memory: at most {memory:.2f} of ONNX Runtime's")


if __name__ == "__main__":
    main()
