"""Compares the C example, ``examples/c_api/classify.c``, with the same runs in Python.

    python -m benchmarks.c_api [MODEL ...] [--threads 1] [--rounds 12] [--json FILE]

Models have one input and a first output of f32. Shown are Python's milliseconds, and C's time over Python's,
the median and the quartiles, in two ways:

- processes: the example and a script in Python open the package, and print the median time of their runs.
  They take turns of some runs while the other is stopped, so that other work on the machine affects both
  equally. A ratio is that of one round.
- runs: one process calls the library and Python in turns, run by run. A ratio is that of two runs; on one
  thread, times are CPU time, which excludes other work on the machine.
"""

from __future__ import annotations

import argparse
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from ctypes import CDLL, byref, c_int64, c_size_t, c_void_p
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

import graphwright as gw
from benchmarks.models import MODELS
from benchmarks.records import write_rows
from graphwright.c_api import LIBRARY_FOLDER, compiler_flags, linker_flags
from graphwright.tools.measuring.engines import OURS

EXAMPLE = Path(__file__).parents[1] / "examples" / "c_api" / "classify.c"
DEFAULT = ("ppocr_cls", "mobilenet_v2", "ppocr_rec", "light_squeezenet", "light_resnet50")
KINDS = ("C", "Python")
SECONDS = 2.0
"""Of one process of a round, about."""
TURN = 0.02
"""Seconds at least."""
RUNS_OF_A_TURN = 15
"""At least: few runs are stopped on their way, and the median is that of others."""
_IN_PYTHON = """
import statistics, sys, time
import numpy as np, graphwright as gw
package, feed, runs, threads = sys.argv[1:]
gw.set_threads(int(threads))
model, x = gw.load(package), np.load(feed)
seconds = []
for _ in range(int(runs)):
    start = time.perf_counter()
    model(x)
    seconds.append(time.perf_counter() - start)
print(f"{1e3 * statistics.median_high(seconds):.4f} ms")
"""


@dataclass(frozen=True)
class Ratio:
    """C's time over Python's: the median of the rounds, and the quartiles."""

    median: float
    lower: float
    upper: float

    def __str__(self) -> str:
        return f"{self.median:.3f} ({self.lower:.3f}-{self.upper:.3f})"


@dataclass(frozen=True)
class Figures:
    """The figures of one model: milliseconds of a run in Python, and both ratios."""

    model: str
    threads: int
    python_ms: float
    processes: Ratio
    runs: Ratio

    def row(self) -> str:
        """The row of the table in Markdown."""
        return (
            f"| `{self.model}` | {self.threads} | {self.python_ms:.3g} ms | {self.processes} | {self.runs} |"
        )


def ratio_of(ratios: Iterable[float]) -> Ratio:
    """The median and the quartiles of ``ratios``."""
    lower, middle, upper = statistics.quantiles(ratios, n=4)
    return Ratio(middle, lower, upper)


def build(folder: Path) -> Path:
    """Compiles the C example; returns the program."""
    program = folder / "classify"
    command = ["cc", "-O2", *compiler_flags(), str(EXAMPLE), "-o", str(program), *linker_flags()]
    subprocess.run(command, check=True)
    return program


class Pair:
    """One model's package and input, and both programs that run it."""

    def __init__(self, name: str, threads: int, program: Path, folder: Path) -> None:
        model = MODELS[name]
        ((_, x),) = model.feeds("default", seed=0).items()
        self._package, self._raw, self._array = (folder / f"{name}.{end}" for end in ("om", "bin", "npy"))
        gw.compile(model.path()).save(self._package)
        x.tofile(self._raw)
        np.save(self._array, x)
        self._shape, self._threads, self._program = ",".join(map(str, x.shape)), threads, str(program)
        once = self.in_processes(5, TURN)["Python"] / 1e3
        self._runs, self._turn = (
            max(3 * RUNS_OF_A_TURN, int(SECONDS / once)),
            max(TURN, RUNS_OF_A_TURN * once),
        )

    def round(self, first: str) -> dict[str, float]:
        """Returns the milliseconds of a run in C and in Python."""
        return self.in_processes(self._runs, self._turn, first)

    def in_processes(self, runs: int, turn: float, first: str = "C") -> dict[str, float]:
        """As :meth:`round`, with ``runs`` runs in a new process for each."""
        limits = [str(runs), str(self._threads)]
        in_c = [self._program, str(self._package), str(self._raw), self._shape, *limits]
        in_python = [sys.executable, "-c", _IN_PYTHON, str(self._package), str(self._array), *limits]
        return in_turns({"C": in_c, "Python": in_python}, first, turn)

    def run_by_run(self) -> Iterator[float]:
        """Yields the ratios of two runs in C and in Python that follow one another."""
        x, model = np.load(self._array), gw.load(self._package)
        library, opened, request = CDLL(str(LIBRARY_FOLDER / "libgraphwright.so")), c_void_p(), c_void_p()
        shape = (c_int64 * x.ndim)(*x.shape)
        gw.set_threads(self._threads)
        library.gw_set_threads(self._threads)
        library.gw_open(bytes(self._package), None, byref(opened))
        library.gw_request_create(opened, byref(request))
        library.gw_request_set_input(
            request, c_size_t(0), c_void_p(x.ctypes.data), c_size_t(x.nbytes), shape, x.ndim
        )
        clock = time.thread_time_ns if self._threads == 1 else time.perf_counter_ns
        for _ in range(2 * self._runs):
            start = clock()
            failed = library.gw_request_run(request)
            between = clock()
            model(x)
            end = clock()
            assert not failed
            yield (between - start) / (end - between)


def in_turns(commands: Mapping[str, Sequence[str]], first: str, turn: float) -> dict[str, float]:
    """The milliseconds that each prints; while one runs, for ``turn`` seconds, the others are stopped."""
    order = sorted(commands, key=lambda name: name != first)
    started = {name: subprocess.Popen(commands[name], stdout=subprocess.PIPE, text=True) for name in order}
    for process in started.values():
        process.send_signal(signal.SIGSTOP)
    while running := [process for process in started.values() if process.poll() is None]:
        for process in running:
            process.send_signal(signal.SIGCONT)
            time.sleep(turn)
            process.send_signal(signal.SIGSTOP)
    return {name: _milliseconds(process) for name, process in started.items()}


def _milliseconds(process: subprocess.Popen[str]) -> float:
    told, _ = process.communicate()
    if process.returncode:
        raise RuntimeError(f"{process.args!r} ended with {process.returncode}")
    return float(told.splitlines()[-1].removesuffix(" ms"))


def figures(name: str, threads: int, rounds: int, program: Path, folder: Path) -> Figures:
    """Measures one model with new processes, and run by run."""
    pair = Pair(name, threads, program, folder)
    found = [pair.round(KINDS[number % 2]) for number in range(rounds)]
    processes = ratio_of(each["C"] / each["Python"] for each in found)
    milliseconds = statistics.median(each["Python"] for each in found)
    return Figures(name, threads, milliseconds, processes, ratio_of(pair.run_by_run()))


def main() -> None:
    """Print a table, a row as soon as it is known."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", default=DEFAULT, metavar="MODEL")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    several = [name for name in given.models if len(MODELS[name].feeds("default", seed=0)) > 1]
    if several:
        parser.error(f"models with one input are measured: {', '.join(several)} has more")
    print("| model | threads | Python | C / Python, processes | runs |")
    print("| --- | ---: | ---: | ---: | ---: |")
    found = []
    with tempfile.TemporaryDirectory() as made:
        program = build(Path(made))
        for name in given.models:
            found.append(figures(name, given.threads, given.rounds, program, Path(made)))
            print(found[-1].row(), flush=True)
    if given.json:
        write_rows(given.json, [OURS, "numpy"], map(asdict, found))


if __name__ == "__main__":
    main()
