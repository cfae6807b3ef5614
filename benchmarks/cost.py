"""Predicted beside measured time of each task, by kernel family: ``python -m benchmarks.cost MODEL...``.

The prediction is the ``work`` of a launch at the shapes of the run: nanoseconds of one core. The measured
time is the least of some traced runs on one thread. An error is max(predicted, measured) /
min(predicted, measured).
"""

from __future__ import annotations

import argparse
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import median

import numpy as np

import graphwright as gw
from benchmarks.models import MODELS
from graphwright.executable.nodes import programs_of
from graphwright.lower.tasks import TaskKind
from graphwright.runtime.cpu import Cpu

RUNS = 7
LEAST_NS = 2000
"""Shorter tasks are left out: the clock and the cache's state decide their time."""
GENERATED = "generated"


def main(names: Sequence[str]) -> None:
    """Print a table of families: tasks, share of the measured time, median error, bias."""
    found: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for name in names:
        for family, pairs in pairs_of(name).items():
            found[family] += pairs
    total = sum(measured for pairs in found.values() for _, measured in pairs)
    print(f"{'family':24} {'tasks':>6} {'share':>7} {'median error':>13} {'median bias':>12}")
    for family, pairs in sorted(found.items(), key=lambda item: -sum(m for _, m in item[1])):
        share = sum(measured for _, measured in pairs) / total
        print(f"{family:24} {len(pairs):6} {share:7.1%} {error(pairs):13.2f} {bias(pairs):12.2f}")
    everything = [pair for pairs in found.values() for pair in pairs]
    print(f"{'all':24} {len(everything):6} {'':7} {error(everything):13.2f} {bias(everything):12.2f}")


def pairs_of(name: str) -> Mapping[str, list[tuple[int, int]]]:
    """Predicted and measured nanoseconds of the tasks of a model, by family."""
    zoo = MODELS[name]
    model = gw.compile(zoo.path(), options={"threads": 1})
    executor = model.executor
    if not isinstance(executor, Cpu):
        return {}
    feeds = zoo.feeds("default", seed=0)
    arrays = [np.ascontiguousarray(feeds[spec.name]) for spec in model.inputs]
    plan = executor.plan([array.shape for array in arrays], 1)
    least: dict[int, int] = {}
    for _ in range(RUNS):
        for task in executor.traced(arrays, 1)[1]:
            least[task.task] = min(least.get(task.task, task.end - task.start), task.end - task.start)
    assert model.package.main is not None
    (program,) = programs_of(model.package.main)
    (target,) = program.targets.values()
    pairs: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for number, task in enumerate(target.task_graph.tasks):
        if task.kind is not TaskKind.LAUNCH or least.get(number, 0) < LEAST_NS:
            continue
        kernel = target.task_graph.kernels[task.kernel]
        family = GENERATED if kernel.module else family_of(kernel.symbol)
        pairs[family].append((plan["registers"][task.work], least[number]))
    return pairs


def family_of(symbol: str) -> str:
    """``direct`` of ``gw_direct_planar_f32``: the kernel without what it works on."""
    return re.sub(r"_(f32|f64|u8|i8|i32|planar|packed|rows|[a-z]*\d+)+$", "", symbol.removeprefix("gw_"))


def error(pairs: Sequence[tuple[int, int]]) -> float:
    """The median of how many times off predictions are."""
    return median(max(max(p, 1) / m, m / max(p, 1)) for p, m in pairs)


def bias(pairs: Sequence[tuple[int, int]]) -> float:
    """The median of predicted over measured."""
    return median(p / m for p, m in pairs)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="+", choices=[*MODELS, "all"], metavar="MODEL")
    given = parser.parse_args().models
    main(list(MODELS) if "all" in given else given)
