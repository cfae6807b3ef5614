"""Writes the results of ``benchmarks.torch_compile.speed`` as a table into docs/pytorch.md.

Run: ``python -m benchmarks.torch_compile.report``.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks import RESULTS, report
from benchmarks.pages import Part, table, threads_text

PAGE: Final = report.ROOT / "docs" / "pytorch.md"
FOLDER: Final = RESULTS / "torch"
PART: Final = Part("speed", "python -m benchmarks.torch_compile.report")
PEERS: Final = ("eager", "inductor")
Result = Mapping[str, Any]


def read_results(folder: Path = FOLDER) -> dict[int, dict[str, Result]]:
    """The results of each model, by number of threads."""
    found: dict[int, dict[str, Result]] = {}
    for result in (json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))):
        found.setdefault(result["threads"], {})[result["model"]] = result
    return dict(sorted(found.items()))


def speed_table(results: Mapping[int, Mapping[str, Result]]) -> str:
    """A row for each model: the time of a call, and its share of that of each peer, on as many threads."""
    names = sorted({name for found in results.values() for name in found})
    head = ["model"]
    for threads in results:
        head += [threads_text(threads), "of eager", "of Inductor"]
    rows = [
        [name, *(cell for found in results.values() for cell in _cells(found.get(name)))] for name in names
    ]
    means = [cell for found in results.values() for cell in _means(list(found.values()))]
    return table(head, [*rows, ["geometric mean", *means]])


def _cells(result: Result | None) -> list[str]:
    if result is None:
        return ["-"] * (1 + len(PEERS))
    ratios = [f"{result['ratios'][peer]:.2f}" for peer in PEERS]
    return [duration(result["median_ms"]["graphwright"]), *ratios]


def duration(ms: float) -> str:
    """Milliseconds with three significant digits: 9.35 ms, 1200 ms."""
    return f"{float(f'{ms:.3g}'):.0f} ms" if ms >= 99.95 else f"{ms:#.3g} ms"


def _means(results: Sequence[Result]) -> list[str]:
    ratios = [[result["ratios"][peer] for result in results] for peer in PEERS]
    return ["", *(f"{statistics.geometric_mean(each):.2f}" for each in ratios)]


def main() -> None:
    PAGE.write_text(PART.filled(PAGE.read_text(), speed_table(read_results())))


if __name__ == "__main__":
    main()
