"""Compares models whose kernels are split where a split is predicted to be faster with the same models
without splits: ``python -m benchmarks.fusion.splits [MODEL ...]``.

Both forms run alternately in one process, timed by the processor clock of the thread. The ratio is the median
over rounds, each of which keeps the shorter of a few runs; below 1, splitting is faster.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Mapping
from typing import Any, Final
from unittest.mock import patch

import graphwright as gw
from benchmarks.models import MODELS
from graphwright.fusion.decision_text import decode_decisions
from graphwright.fusion.splits import Splits
from graphwright.ir.refusal import Code

RUNS: Final = 3
LEAST_ROUNDS: Final = 5


def compiled(name: str) -> gw.Model:
    """A development model on one thread."""
    return gw.compile(MODELS[name].path(), options=gw.CompileOptions(threads=1))


def least_ns(model: gw.Model, feeds: Mapping[str, Any]) -> int:
    """The shortest of a few runs."""
    times = []
    for _ in range(RUNS):
        start = time.thread_time_ns()
        model(feeds)
        times.append(time.thread_time_ns() - start)
    return min(times)


def main(names: list[str], seconds: float) -> None:
    """Print a line for each model."""
    print(f"{'model':20} {'splits':>6} {'split / merged':>14} {'quartiles':>14}")
    for name in names:
        split = compiled(name)
        with patch.object(Splits, "best", lambda self, group, cuts: None):
            merged = compiled(name)
        count = sum(each.code is Code.PREDICTED for each in decode_decisions(split.entry.decisions))
        if not count:
            print(f"{name:20} {count:6}", flush=True)
            continue
        ratios: list[float] = []
        feeds, end = MODELS[name].feeds("default", seed=0), time.monotonic() + seconds
        while time.monotonic() < end or len(ratios) < LEAST_ROUNDS:
            if len(ratios) % 2:
                first, second = least_ns(merged, feeds), least_ns(split, feeds)
                ratios.append(second / first)
            else:
                first, second = least_ns(split, feeds), least_ns(merged, feeds)
                ratios.append(first / second)
        low, middle, high = statistics.quantiles(ratios, n=4)
        print(f"{name:20} {count:6} {middle:14.3f}    {low:.3f} {high:.3f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.fusion.splits",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    cached = [name for name, model in MODELS.items() if model.cached_file().exists()]
    parser.add_argument("models", nargs="*", default=cached, help="default: all that are fetched")
    parser.add_argument("--seconds", type=float, default=10.0, help="time for each model")
    chosen = parser.parse_args()
    main(chosen.models, chosen.seconds)
