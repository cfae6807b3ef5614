"""Random graphs under random legal partitions into kernels, compared with the unfused graph and with NumPy.

    python -m tests.fuzz.partitions [--graphs 1250] [--partitions 8] [--seed 0] [--jobs 2]
    python -m tests.fuzz.partitions --show SEED    # the partitions of one graph, and what is wrong

A fusion rule merges each legal candidate or leaves it, at random. The partitions of a graph are entries of
one package, so that one C file has the kernels of all. Each partition runs on arrays that begin or end at
inaccessible pages. Runs on one and on two threads must give the same bits, and a run in which memory is
filled with NaN after its last use must give the same results.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import graphwright as gw
from graphwright.config import Options
from graphwright.fusion.candidate import Candidate
from graphwright.fusion.rules import registry
from graphwright.fusion.rules.base import FusionRule
from graphwright.ir.clone import clone_module
from graphwright.ir.evaluate import evaluate_module
from graphwright.runtime.devices.cpu import Cpu
from graphwright.runtime.model import Model
from tests.hostile_data.guarded import guarded
from tests.random_graphs.generate import Case, case

Array = np.ndarray[Any, Any]
STEPS = 16
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Of the legal merges, how many are made: of each partition one of these."""


class Chance:
    """Decides about merges at random, for one partition after the other."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._share: dict[object, float] = {}

    def reason(self, candidate: Candidate) -> str | None:
        """Why ``candidate``, which is legal, is not merged."""
        graph = candidate.partition.graph
        share = self._share.setdefault(graph, self._random.choice(SHARES))
        return None if self._random.random() < share else "by chance"


@contextmanager
def merging(chance: Chance) -> Iterator[None]:
    """Let ``chance`` alone decide which legal merges are made."""
    rule = FusionRule("chance", "", lambda candidate: True, chance.reason, constraints=())
    held = registry._GUARDED.copy()
    registry._GUARDED.clear()
    registry._GUARDED[rule.name] = rule
    try:
        yield
    finally:
        registry._GUARDED.clear()
        registry._GUARDED.update(held)


@dataclass(frozen=True)
class Tried:
    """The result for one graph: the ``partitions`` that differ, and the faults."""

    seed: int
    partitions: int
    faults: tuple[str, ...]


def tried(seed: int, count: int, cache: Path) -> Tried:
    """Tries the graph of ``seed`` with the given number of partitions."""
    made = case(Random(seed), steps=STEPS)
    options = Options(cache_dir=cache, verify=True)
    plain = gw.compile(clone_module(made.module), options=Options(cache_dir=cache, fusion_rules="none"))
    with merging(Chance(seed)):
        names = [f"p{k}" for k in range(count)]
        partitions = gw.compile({name: clone_module(made.module) for name in names}, options=options)
    entries = [partitions.entries[name] for name in names]
    faults: list[str] = []
    for number, sizes in enumerate(made.sizes):
        feeds = made.feeds(sizes, number)
        wanted = evaluate_module(made.module, feeds, wide=True)
        sides = {"in f64": wanted, "without fusion": plain(*feeds)}
        for k, entry in enumerate(entries):
            faults += [f"partition {k} at {sizes}: {fault}" for fault in _faults(entry, feeds, sides, made)]
    return Tried(seed, len({str(entry.entry.graph) for entry in entries}), tuple(faults))


def _faults(entry: Model, feeds: Sequence[Array], sides: dict[str, Any], made: Case) -> Iterator[str]:
    """The faults in the results of one partition."""
    entry.threads = 1
    first = entry(*(guarded(feed) for feed in feeds))
    for name, results in sides.items():
        for k, (wanted, given, error) in enumerate(zip(results, first, made.errors, strict=True)):
            if (off := _distance(wanted, given)) > (8 * error + 1e-12 if error else 0):
                yield f"output {k} is off by {off} of {name}, {8 * error} are allowed"
    entry.threads = 2
    runs = {"on two threads": entry(*(guarded(feed, behind=False) for feed in feeds))}
    if isinstance(entry.executor, Cpu):
        arrays = [np.asarray(feed, order="C") for feed in feeds]
        runs["with poison"] = entry.executor.run(arrays, None, 2, poison=True)
    for name, results in runs.items():
        for k, (one, other) in enumerate(zip(first, results, strict=True)):
            if one.tobytes() != other.tobytes():
                yield f"output {k} has other bits {name}"


def _distance(wanted: Array, given: Array) -> float:
    """The largest difference; infinite where shapes or places of NaN differ."""
    a, b = wanted.astype(np.float64), given.astype(np.float64)
    if a.shape != b.shape or not np.array_equal(np.isnan(a), np.isnan(b)):
        return np.inf
    same = a == b
    return float(np.max(np.abs(np.where(same | np.isnan(a), 0.0, a - b)), initial=0.0))


def _one(job: tuple[int, int, Path]) -> Tried:
    seed, count, cache = job
    try:
        return tried(seed, count, cache)
    except Exception as error:  # a fault like any other: the seed shows it
        return Tried(seed, 0, (f"{type(error).__name__}: {error}",))


def main() -> int:
    """The command. Returns 1 if there is a fault."""
    command = argparse.ArgumentParser(
        prog="python -m tests.fuzz.partitions",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    command.add_argument("--graphs", type=int, default=1250)
    command.add_argument("--partitions", type=int, default=8, help="of each graph")
    command.add_argument("--seed", type=int, default=0, help="the first of them")
    command.add_argument("--jobs", type=int, default=2, help="processes")
    command.add_argument("--show", type=int, metavar="SEED", help="one graph")
    given = command.parse_args()
    seeds = range(given.seed, given.seed + given.graphs) if given.show is None else [given.show]
    results = []
    with tempfile.TemporaryDirectory() as cache, ProcessPoolExecutor(given.jobs) as pool:
        for result in pool.map(_one, ((seed, given.partitions, Path(cache)) for seed in seeds)):
            results.append(result)
            for fault in result.faults:
                print(f"seed {result.seed}: {fault}", flush=True)
    runs, differing = len(results) * given.partitions, sum(result.partitions for result in results)
    wrong = sum(bool(result.faults) for result in results)
    print(f"{runs} partitions of {len(results)} graphs, {differing} of them differ: {wrong} graphs are wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
