"""Compares the memory that ``Model.memory`` predicts with the memory that the operating system reports.

    python -m benchmarks.memory_prediction              # writes benchmarks/results/memory/prediction.json
    python -m benchmarks.memory_prediction ppocr --threads 2

Each model is compiled and saved, then loaded and run once in a new process that has imported all of
graphwright before. ``off`` is the relative error of the prediction: prediction / median of three measured
peaks - 1.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import Any, Final

import graphwright as gw
from benchmarks import RESULTS
from benchmarks.models import MODELS, DevModel
from benchmarks.records import write_rows
from graphwright.records import dataclass
from graphwright.tools.measuring.engines import OURS
from graphwright.tools.measuring.footprint import measure

FILE: Final = RESULTS / "memory" / "prediction.json"
ROUNDS: Final = 3


@dataclass(frozen=True)
class Row:
    """The prediction and the measurement for one model, in bytes."""

    model: str
    threads: int
    weights: int
    arena: int
    predicted: int
    measured: int

    @property
    def off(self) -> float:
        """The relative error of the prediction; positive if it is too high."""
        return self.predicted / self.measured - 1

    def __str__(self) -> str:
        sizes = (self.weights, self.arena, self.predicted, self.measured)
        shown = "  ".join(f"{size / 2**20:8.2f}" for size in sizes)
        return f"{self.model:24} {shown}  {100 * self.off:+5.1f} %"

    def as_json(self) -> dict[str, Any]:
        """The row for JSON: all fields and the relative error."""
        return {**vars(self), "off": round(self.off, 4)}


def measured(model: DevModel, threads: int) -> Row:
    """The prediction for ``model`` at its default sizes, and the median of what was measured."""
    feeds = model.feeds()
    compiled = gw.compile(model.path(), options=gw.CompileOptions(threads=threads))
    used = compiled.memory({name: array.shape for name, array in feeds.items()}, threads=threads)
    with tempfile.TemporaryDirectory(prefix="graphwright-memory-") as folder:
        package = Path(folder) / "model.om"
        compiled.save(package)
        del compiled
        peaks = [
            measure("graphwright", package, feeds, threads, imported="runtime").increase
            for _ in range(ROUNDS)
        ]
    held = used.weights + used.packed
    return Row(model.name, threads, held, used.arena, used.process, int(statistics.median(peaks)))


def main() -> None:
    """Runs the command."""
    command = argparse.ArgumentParser(
        prog="python -m benchmarks.memory_prediction",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("names", nargs="*", metavar="NAME", help="part of a model's name")
    command.add_argument("--threads", type=int, default=1)
    command.add_argument("--results", type=Path, default=FILE)
    given = command.parse_args()
    print(f"{'MiB':24}  weights     arena  predicted  measured   off")
    rows: list[Row] = []
    for name, model in MODELS.items():
        if any(part in name for part in given.names or [""]):
            rows.append(measured(model, given.threads))
            print(rows[-1], flush=True)
    write_rows(given.results, [OURS, "numpy"], [row.as_json() for row in rows])


if __name__ == "__main__":
    main()
