"""Compares patterns of ops fused with one kernel per op, and with ONNX Runtime, OpenVINO and Inductor.

    python -m benchmarks.fusion.fused_patterns                # writes benchmarks/results/fusion/patterns.json
    python -m benchmarks.fusion.fused_patterns swiglu resize  # patterns with one of these in their names
    python -m benchmarks.fusion.fused_patterns --threads 2
    python -m benchmarks.fusion.fused_patterns --engines onnxruntime openvino

Ratios are the time of the fused model over that of the other: below 1, fusion is faster. Hints keep ops in
separate kernels; some patterns are also compared with the same pattern without one fusion rule. Patterns
named "bound" are upper bounds for fusions that graphwright does not implement: they compare a graph with one
that lacks the work that the fusion would save. Both sides run alternately in this process
(:mod:`benchmarks.fusion.paired`); runs on one thread are measured in CPU time. The confidence interval of a
ratio is in brackets. An engine that cannot load a pattern has no result for it.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx

import graphwright as gw
from benchmarks import RESULTS
from benchmarks.fusion import torch_graph
from benchmarks.fusion.feeds import random_feeds
from benchmarks.fusion.fused_graphs import PATTERNS
from benchmarks.fusion.paired import Blocks, Estimate, estimate
from benchmarks.records import write_rows
from graphwright.tools.measuring.engines import ENGINES, OURS, PEERS, EngineError, is_installed, start

Array = np.ndarray[Any, Any]
Run = Callable[[Mapping[str, Array]], Mapping[str, Array]]
FILE: Final = RESULTS / "fusion" / "patterns.json"


@dataclass(frozen=True)
class Row:
    """A pattern compared with ``apart``, with an engine, or with itself without a rule of this name."""

    pattern: str
    compared_with: str
    threads: int
    estimate: Estimate
    microseconds: float
    goal: float | None

    def as_json(self) -> dict[str, Any]:
        """The row for JSON, with ratios instead of logarithms."""
        low, ratio, high = (round(math.exp(x), 4) for x in self.interval)
        return {
            "pattern": self.pattern, "compared_with": self.compared_with, "threads": self.threads,
            "ratio": ratio, "low": low, "high": high, "goal": self.goal, "us": round(self.microseconds, 1),
        }  # fmt: skip

    @property
    def interval(self) -> tuple[float, float, float]:
        """The logarithms of the least, the median and the largest ratio."""
        return self.estimate.low, self.estimate.median, self.estimate.high

    def __str__(self) -> str:
        low, ratio, high = map(math.exp, self.interval)
        goal = "" if self.goal is None else f"  goal {self.goal:.2f}"
        span = f"{ratio:5.2f} [{low:.2f} {high:.2f}]"
        peer = f"compared with {self.compared_with:11}"
        return f"{self.pattern:52} {self.microseconds:9.1f} us  {peer} {span}{goal}"


def measured(name: str, threads: int, seconds: float, engines: Sequence[str] = PEERS) -> Iterator[Row]:
    """The pattern compared with separate ops, with itself without its rule, and with other engines."""
    pattern = PATTERNS[name]
    model = pattern.model()
    options = gw.CompileOptions(threads=threads)
    fused = gw.compile(model, options=options).run
    feeds = random_feeds(model)
    compared_with = "whole" if pattern.whole else "apart"
    yield _row(
        name, compared_with, gw.compile(pattern.other(), options=options).run, fused, feeds, threads, seconds
    )
    if pattern.whole:
        return
    if pattern.rule:
        without = gw.CompileOptions(threads=threads, fusion_rules=f"-{pattern.rule}")
        other = gw.compile(model, options=without).run
        yield _row(name, f"no {pattern.rule}", other, fused, feeds, threads, seconds)
    for engine in filter(is_installed, engines):
        with tempfile.TemporaryDirectory() as folder:
            try:
                peer = start(engine, _written(engine, model, feeds, Path(folder)), threads)
            except EngineError:
                continue
            yield _row(name, engine, peer, fused, feeds, threads, seconds)


def _written(engine: str, model: onnx.ModelProto, feeds: Mapping[str, Array], folder: Path) -> Path:
    """The file of ``model`` that ``engine`` reads, in ``folder``."""
    file = folder / f"pattern{ENGINES[engine].suffix}"
    if engine == "inductor":
        torch_graph.export(model, feeds, file)
    else:
        onnx.save(model, file)
    return file


def _row(
    name: str,
    compared_with: str,
    other: Run,
    fused: Run,
    feeds: Mapping[str, Array],
    threads: int,
    seconds: float,
) -> Row:
    if not PATTERNS[name].whole:
        for ours, theirs in zip(fused(feeds).values(), other(feeds).values(), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4)

    def runs(run: Run) -> Callable[[int], None]:
        def repeat(count: int) -> None:
            for _ in range(count):
                run(feeds)

        return repeat

    blocks = Blocks({"before": runs(other), "after": runs(fused)}, threads)
    made = estimate(blocks, seconds)
    pattern = PATTERNS[name]
    goal = pattern.apart if compared_with == "apart" else pattern.peer if compared_with in PEERS else None
    return Row(name, compared_with, threads, made, blocks.least_ns["after"] / 1e3, goal)


def write(rows: Sequence[Row], file: Path) -> None:
    """``rows`` in place of those of the same pattern, side and threads that ``file`` holds."""
    kept = json.loads(file.read_text())["rows"] if file.exists() else []
    by_case = {(row["pattern"], row["compared_with"], row["threads"]): row for row in kept}
    by_case |= {(row.pattern, row.compared_with, row.threads): row.as_json() for row in rows}
    packages = [OURS, "onnxruntime", "openvino", "torch", "numpy"]
    write_rows(file, packages, [by_case[case] for case in sorted(by_case)])


def main() -> None:
    """Runs the command."""
    command = argparse.ArgumentParser(
        prog="python -m benchmarks.fusion.fused_patterns",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    command.add_argument("names", nargs="*", metavar="NAME", help="part of a pattern's name")
    command.add_argument("--threads", type=int, default=1)
    command.add_argument("--seconds", type=float, default=5.0, help="most time for one comparison")
    command.add_argument("--results", type=Path, default=FILE)
    command.add_argument("--engines", nargs="*", default=PEERS, choices=PEERS)
    given = command.parse_args()
    rows: list[Row] = []
    for name in PATTERNS:
        if any(part in name for part in given.names or [""]):
            for row in measured(name, given.threads, given.seconds, given.engines):
                rows.append(row)
                print(row, flush=True)
    print(summary(rows))
    write(rows, given.results)


def summary(rows: Sequence[Row]) -> str:
    """The geometric mean of the ratios to the best engine of each pattern, and the largest."""
    best: dict[str, float] = {}
    for row in rows:
        if row.compared_with in PEERS:
            best[row.pattern] = max(row.interval[1], best.get(row.pattern, -math.inf))
    if not best:
        return "no other engine"
    worst = max(best, key=best.__getitem__)
    mean = math.exp(sum(best.values()) / len(best))
    return (
        f"{mean:.3f} of the best engine over {len(best)} patterns, most {math.exp(best[worst]):.3f}: {worst}"
    )


if __name__ == "__main__":
    main()
