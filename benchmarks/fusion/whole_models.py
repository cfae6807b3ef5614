"""Compares whole models with fusion, without fusion, and with each op as it is written.

    python -m benchmarks.fusion.whole_models                  # writes benchmarks/results/fusion/models.json
    python -m benchmarks.fusion.whole_models ppocr --threads 2

Ratios are the time of the other side over that of the default compile: above 1, fusion is faster. ``off``
has all fusion rules switched off; ``op by op`` is ``opt_level`` 0, which simplifies nothing, lays out nothing
and fuses nothing. Sides run in turns in this process (:mod:`benchmarks.fusion.paired`); in brackets is the
interval of the ratio.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

import graphwright as gw
from benchmarks import RESULTS
from benchmarks.fusion.paired import Blocks, Estimate, estimate
from benchmarks.models import MODELS, DevModel
from benchmarks.records import write_rows
from graphwright.records import dataclass
from graphwright.tools.measuring.engines import OURS

FILE: Final = RESULTS / "fusion" / "models.json"
SIDES: Final[Mapping[str, Mapping[str, Any]]] = {
    "off": {"fusion_rules": "none"},
    "op by op": {"opt_level": 0},
}


@dataclass(frozen=True)
class Row:
    """One model compared with another way to compile it."""

    model: str
    compared_with: str
    threads: int
    estimate: Estimate
    microseconds: float
    """The least time of the default compile."""

    @property
    def ratios(self) -> tuple[float, float, float]:
        """The low, median and high ratio of the other time to that of the default compilation."""
        found = self.estimate
        return math.exp(-found.high), math.exp(-found.median), math.exp(-found.low)

    def __str__(self) -> str:
        low, ratio, high = self.ratios
        span = f"{ratio:5.2f} [{low:.2f} {high:.2f}]"
        return f"{self.model:22} {self.microseconds:10.1f} us  {self.compared_with:9} {span}"

    def as_json(self) -> dict[str, Any]:
        """The row for JSON, without the samples."""
        low, ratio, high = (round(each, 4) for each in self.ratios)
        about = {"model": self.model, "compared_with": self.compared_with, "threads": self.threads}
        return {**about, "us": round(self.microseconds, 1), "low": low, "ratio": ratio, "high": high}


def measured(model: DevModel, threads: int, seconds: float) -> Iterator[Row]:
    """``model`` compared with each of :data:`SIDES`."""
    feeds = model.feeds()
    fused = gw.compile(model.path(), options=gw.CompileOptions(threads=threads))
    results = fused.run(feeds)
    for compared_with, options in SIDES.items():
        other = gw.compile(model.path(), options=gw.CompileOptions(threads=threads, **options))
        for name, expected in other.run(feeds).items():
            np.testing.assert_allclose(results[name], expected, rtol=1e-2, atol=1e-3)
        blocks = Blocks({"before": _runs(other, feeds), "after": _runs(fused, feeds)}, threads)
        made = estimate(blocks, seconds)
        yield Row(model.name, compared_with, threads, made, blocks.least_ns["after"] / 1e3)


def _runs(model: gw.Model, feeds: Mapping[str, Any]) -> Callable[[int], None]:
    def repeat(count: int) -> None:
        for _ in range(count):
            model.run(feeds)

    return repeat


def summary(rows: Sequence[Row]) -> str:
    """The geometric mean and the least of each side."""
    lines = []
    for compared_with in SIDES:
        ratios = {row.model: row.ratios[1] for row in rows if row.compared_with == compared_with}
        if ratios:
            least = min(ratios, key=ratios.__getitem__)
            mean = statistics.geometric_mean(ratios.values())
            lines.append(
                f"{compared_with}: {mean:.3f} over {len(ratios)} models, least {ratios[least]:.3f} {least}"
            )
    return "\n".join(lines)


def main() -> None:
    """Runs the command."""
    command = argparse.ArgumentParser(
        prog="python -m benchmarks.fusion.whole_models",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("names", nargs="*", metavar="NAME", help="part of a model's name")
    command.add_argument("--threads", type=int, default=1)
    command.add_argument("--seconds", type=float, default=5.0, help="most time for one comparison")
    command.add_argument("--results", type=Path, default=FILE)
    given = command.parse_args()
    rows: list[Row] = []
    for name, model in MODELS.items():
        if any(part in name for part in given.names or [""]):
            for row in measured(model, given.threads, given.seconds):
                rows.append(row)
                print(row, flush=True)
    print(summary(rows))
    write_rows(given.results, [OURS, "numpy"], [row.as_json() for row in rows])


if __name__ == "__main__":
    main()
