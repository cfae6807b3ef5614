"""Writes the results of ``benchmarks.ops`` as tables into docs/performance.md.

Run: ``python -m benchmarks.op_report``.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks import RESULTS
from benchmarks.op_cases.reasons import REASONS
from benchmarks.ops import LIMIT
from benchmarks.pages import Part, table, threads_text
from benchmarks.report import ROOT

PAGE: Final = ROOT / "docs" / "performance.md"
PART: Final = Part("single ops", "python -m benchmarks.op_report")
Entries = Sequence[Mapping[str, Any]]


def read_entries(folder: Path = RESULTS / "ops") -> dict[int, Entries]:
    """The entries that have a peer, by number of threads."""
    found: dict[int, Entries] = {}
    for file in sorted(folder.glob("*.json")):
        result = json.loads(file.read_text())
        found[result["threads"]] = [entry for entry in result["ops"] if entry["ratio"]]
    return found


def families_table(entries: Mapping[int, Entries]) -> str:
    """For each family: the number of cases, the geometric mean, and how many are slower than a peer."""
    names = dict.fromkeys(entry["family"] for found in entries.values() for entry in found)
    head = ["family", "cases"]
    for threads in entries:
        head += [threads_text(threads), "slower"]
    rows = [[name, *_figures(entries, name)] for name in names]
    rows.append(["all", *_figures(entries, "")])
    return table(head, rows)


def _figures(entries: Mapping[int, Entries], family: str) -> list[str]:
    chosen = [[e for e in found if family in ("", e["family"])] for found in entries.values()]
    figures = [str(max(map(len, chosen), default=0))]
    for found in chosen:
        ratios = [entry["ratio"] for entry in found]
        mean = f"{statistics.geometric_mean(ratios):.2f}" if ratios else "-"
        figures += [mean, str(sum(ratio > LIMIT for ratio in ratios))]
    return figures


def slower_table(entries: Mapping[int, Entries]) -> str:
    """Cases above the limit on any number of threads, the slowest first, and why."""
    ratios = {threads: {e["name"]: e["ratio"] for e in found} for threads, found in entries.items()}
    worst: dict[str, float] = {}
    for found in ratios.values():
        for name, ratio in found.items():
            worst[name] = max(ratio, worst.get(name, 0))
    slower = sorted((name for name in worst if worst[name] > LIMIT), key=lambda name: -worst[name])
    rows = [[name, *(_ratio(found, name) for found in ratios.values()), reason_of(name)] for name in slower]
    return table(["case", *map(threads_text, ratios), "why"], rows, (0, len(ratios) + 1))


def _ratio(found: Mapping[str, float], name: str) -> str:
    return f"{found[name]:.2f}" if name in found else "-"


def reason_of(name: str) -> str:
    """Why the case is slower than a peer."""
    return next((reason for part, reason in REASONS.items() if part in name), "not examined yet")


def main() -> None:
    entries = read_entries()
    PAGE.write_text(PART.filled(PAGE.read_text(), f"{families_table(entries)}\n{slower_table(entries)}"))


if __name__ == "__main__":
    main()
