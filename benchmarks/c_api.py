"""The example in C, ``examples/native/classify.c``, beside the same runs in Python.

    python -m benchmarks.c_api [MODEL ...] [--threads 1] [--rounds 20] [--json FILE]

Models have one input and a first output of f32. Each sample is a process of its own: it opens the package,
and prints the median time of its runs on the same input. Both take turns, in another order in each round;
shown are the median milliseconds of Python's, and C's time over Python's within a round: the median, and the
quartiles.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

import graphwright as gw
from benchmarks.models import MODELS
from graphwright.native import compiler_flags, linker_flags

EXAMPLE = Path(__file__).parents[1] / "examples" / "native" / "classify.c"
DEFAULT = ("ppocr_cls", "mobilenet_v2", "ppocr_rec", "light_squeezenet", "light_resnet50")
SECONDS = 0.5
"""Of one sample, about."""
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
        self._runs = str(max(5, int(1e3 * SECONDS / self.in_python())))

    def in_c(self) -> float:
        """Milliseconds of a run."""
        files = [str(self._package), str(self._raw), self._shape]
        return _milliseconds([self._program, *files, self._runs, self._threads])

    def in_python(self) -> float:
        """Milliseconds of a run."""
        files = [str(self._package), str(self._array)]
        return _milliseconds([sys.executable, "-c", _IN_PYTHON, *files, self._runs, self._threads])


def _milliseconds(command: Sequence[str]) -> float:
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout.splitlines()[-1].removesuffix(" ms"))


def figures(name: str, threads: int, rounds: int, program: Path, folder: Path) -> Figures:
    """Both programs in turns."""
    pair, order = Pair(name, threads, program, folder), random.Random(0)
    ratios, times = [], []
    for _ in range(rounds):
        found: dict[str, float] = {}
        for which in order.sample(("in_c", "in_python"), 2):
            found[which] = getattr(pair, which)()
        ratios.append(found["in_c"] / found["in_python"])
        times.append(found["in_python"])
    lower, middle, upper = statistics.quantiles(ratios, n=4)
    return Figures(name, threads, statistics.median(times), middle, lower, upper)


def main() -> None:
    """Print a table, a row as soon as it is known."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", default=DEFAULT, metavar="MODEL")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=20)
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
