"""The example in C, ``examples/native/classify.c``, beside the same runs in Python.

    python -m benchmarks.c_api [MODEL ...] [--threads 1] [--rounds 12] [--json FILE]

Models have one input and a first output of f32. In each round both are processes of their own, which open the
package and print the median time of their runs on the same input. They take turns of some runs, in which
the other is stopped, so that what else the machine does meets both alike. Shown are the median
milliseconds of Python's, and C's time over Python's within a round: the median, and the quartiles.
"""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

import graphwright as gw
from benchmarks.models import MODELS
from graphwright.native import compiler_flags, linker_flags

EXAMPLE = Path(__file__).parents[1] / "examples" / "native" / "classify.c"
DEFAULT = ("ppocr_cls", "mobilenet_v2", "ppocr_rec", "light_squeezenet", "light_resnet50")
SECONDS = 1.0
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
class Figures:
    """Of one model: milliseconds of a run in Python, and C's time over it, with quartiles."""

    model: str
    threads: int
    python_ms: float
    ratio: float
    lower: float
    upper: float

    def row(self) -> str:
        """Of a table in Markdown."""
        ratio = f"{self.ratio:.3f} ({self.lower:.3f}-{self.upper:.3f})"
        return f"| `{self.model}` | {self.threads} | {self.python_ms:.3g} ms | {ratio} |"


def build(folder: Path) -> Path:
    """The example."""
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
        self._shape, self._threads, self._program = ",".join(map(str, x.shape)), str(threads), str(program)
        self._runs = "5"
        once = in_turns({"Python": self.commands()["Python"]}, "Python", TURN)["Python"] / 1e3
        self._runs = str(max(3 * RUNS_OF_A_TURN, int(SECONDS / once)))
        self.turn = max(TURN, RUNS_OF_A_TURN * once)

    def commands(self) -> dict[str, list[str]]:
        """What runs the model, in C and in Python."""
        limits = [self._runs, self._threads]
        return {
            "C": [self._program, str(self._package), str(self._raw), self._shape, *limits],
            "Python": [sys.executable, "-c", _IN_PYTHON, str(self._package), str(self._array), *limits],
        }


def in_turns(commands: Mapping[str, Sequence[str]], first: str, turn: float) -> dict[str, float]:
    """The milliseconds that each prints; while one runs, for ``turn`` seconds, the others are stopped."""
    order = sorted(commands, key=lambda name: name != first)
    started = {name: subprocess.Popen(commands[name], stdout=subprocess.PIPE, text=True) for name in order}
    for process in started.values():
        process.send_signal(signal.SIGSTOP)
    while any(process.poll() is None for process in started.values()):
        for process in started.values():
            if process.poll() is None:
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
    """Both programs in turns."""
    pair, ratios, times = Pair(name, threads, program, folder), [], []
    for number in range(rounds):
        found = in_turns(pair.commands(), "C" if number % 2 else "Python", pair.turn)
        ratios.append(found["C"] / found["Python"])
        times.append(found["Python"])
    lower, middle, upper = statistics.quantiles(ratios, n=4)
    return Figures(name, threads, statistics.median(times), middle, lower, upper)


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
    print("| model | threads | Python | C / Python |\n| --- | ---: | ---: | ---: |")
    found = []
    with tempfile.TemporaryDirectory() as made:
        program = build(Path(made))
        for name in given.models:
            found.append(figures(name, given.threads, given.rounds, program, Path(made)))
            print(found[-1].row(), flush=True)
    if given.json:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        given.json.write_text(json.dumps([asdict(each) for each in found], indent=1) + "\n")


if __name__ == "__main__":
    main()
