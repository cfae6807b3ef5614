"""Compares single ops at realistic sizes with ONNX Runtime and OpenVINO, and checks their results.

    python -m benchmarks.ops                          # all; writes benchmarks/results/ops/1.json
    python -m benchmarks.ops transpose 'input column' --threads 2
    python -m benchmarks.ops --family rows --above 1  # only cases above this ratio in the results so far
    python -m benchmarks.ops --list

Each engine runs in its own process; they take turns while the others are stopped. A result is the median of
the rounds' ratios: graphwright's time relative to that of the best peer; below 1, graphwright is faster. One
thread is measured in CPU time, which other work on the machine hardly changes; several threads in wall-clock
time. Results are recorded if all cases run, or in the file of --results.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx

import graphwright as gw
from benchmarks import RESULTS
from benchmarks.op_cases import CASES, FAMILIES
from benchmarks.op_cases.case import Case
from benchmarks.records import write_record
from graphwright.errors import GraphwrightError
from graphwright.tools.arrays import read_npz
from graphwright.tools.measuring.bench import Worker, paired_ratio, take_turns, worker_process
from graphwright.tools.measuring.engines import ENGINES, ONNX_PEERS, OURS, EngineError, is_installed

Array = np.ndarray[Any, Any]
ROUND_SECONDS: Final = 0.01
LIMIT: Final = 1.05
"""Above it a case counts as slower than a peer."""


@dataclass
class Engines:
    """A process for each engine, started when it is first needed, and again if it ended."""

    names: Sequence[str]
    threads: int
    folder: Path
    stack: ExitStack

    def __post_init__(self) -> None:
        self._workers: dict[str, Worker] = {}

    def load(self, engine: str, model: Path, case: Case) -> tuple[Worker, list[Array]]:
        """The engine's worker with ``model`` loaded, and the results of the model. Raises EngineError."""
        if engine not in self._workers:
            options = gw.CompileOptions(threads=self.threads)
            self._workers[engine] = self.stack.enter_context(worker_process(engine, options))
        worker, outputs = self._workers[engine], self.folder / f"{engine}.outputs.npz"
        try:
            worker.load(model, case.arrays(inputs=True), self.threads, self.folder, outputs)
        except EngineError as error:
            if "process ended" in str(error):
                del self._workers[engine]
            raise
        return worker, list(read_npz(outputs).values())


def measure_case(case: Case, engines: Engines, rounds: int) -> dict[str, Any]:
    """The results for one case: times in ns, ratios to each peer and the best one, and differences of
    results.
    """
    workers, results, refused = {}, {}, {}
    files = _files(case, engines.folder)
    for engine in (OURS, *engines.names):
        try:
            workers[engine], results[engine] = engines.load(engine, files[engine == OURS], case)
        except EngineError as error:
            if engine == OURS:
                raise
            refused[engine] = error.diagnostics[0].message
    take_turns(list(workers.values()), rounds, ROUND_SECONDS)
    times = {engine: _times(worker, engines.threads) for engine, worker in workers.items()}
    ratios = {peer: vars(paired_ratio(times[OURS], times[peer])) for peer in times if peer != OURS}
    best = min(times.keys() - {OURS}, key=lambda peer: statistics.median(times[peer]), default="")
    return {
        "name": case.name,
        "family": case.family,
        "median_ns": {engine: statistics.median(taken) for engine, taken in times.items()},
        "ratios": ratios,
        "best_peer": best,
        "ratio": ratios[best]["median"] if best else None,
        "differs": {peer: difference(results[OURS], results[peer]) for peer in ratios},
        "tolerance": case.tolerance,
        "refused": refused,
    }


def _files(case: Case, folder: Path) -> tuple[Path, Path]:
    """The ONNX file and the package."""
    source, packed = folder / "case.onnx", folder / "case.om"
    onnx.save(case.model(), source)
    gw.compile(source).save(packed)
    return source, packed


def _times(worker: Worker, threads: int) -> list[float]:
    """The time of each round, in ns."""
    return worker.measured.processor if threads == 1 else worker.measured.round_medians


def difference(ours: Sequence[Array], theirs: Sequence[Array]) -> float:
    """The largest difference, relative to the largest element; infinite if shapes or dtypes differ."""
    if [(a.dtype, a.shape) for a in ours] != [(b.dtype, b.shape) for b in theirs]:
        return float("inf")
    return max((_apart(a, b) for a, b in zip(ours, theirs, strict=True) if a.size), default=0.0)


def _apart(a: Array, b: Array) -> float:
    wide, other = a.astype(np.float64), b.astype(np.float64)
    if not np.array_equal(np.isfinite(wide), np.isfinite(other)):
        return float("inf")
    if not np.array_equal(wide[~np.isfinite(wide)], other[~np.isfinite(wide)], equal_nan=True):
        return float("inf")
    wide, other = wide[np.isfinite(wide)], other[np.isfinite(wide)]
    apart, largest = np.abs(wide - other).max(initial=0), np.abs(other).max(initial=0)
    return float(apart / largest) if largest else float(apart)


def summary(entries: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The geometric mean of the ratios to the best peer, the median, and how many are above the limit."""
    ratios = [entry["ratio"] for entry in entries if entry["ratio"]]
    return {
        "cases": len(ratios),
        "geometric_mean": round(statistics.geometric_mean(ratios), 4),
        "median": round(statistics.median(ratios), 4),
        "above": sum(ratio > LIMIT for ratio in ratios),
    }


def line(entry: Mapping[str, Any]) -> str:
    """The line for the terminal."""
    times = entry["median_ns"]
    peers = [f"{peer} {times[peer] / 1e3:10.1f}" for peer in times if peer != OURS]
    apart = min(entry["differs"].values(), default=0)
    wrong = f"  DIFFERS by {apart:.0e}" if apart > entry["tolerance"] else ""
    ratio = f"{entry['ratio']:6.2f} x" if entry["ratio"] else "  alone "
    return f"{entry['name']:36} {times[OURS] / 1e3:10.1f} us {ratio}  {'  '.join(peers)}{wrong}"


def run(cases: Sequence[Case], peers: Sequence[str], threads: int, rounds: int) -> Iterator[dict[str, Any]]:
    """The results for ``cases``; cases that graphwright rejects are printed and left out."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        engines = Engines(peers, threads, Path(folder), stack)
        for case in cases:
            try:
                yield measure_case(case, engines, rounds)
            except GraphwrightError as error:
                print(f"{case.name:36} REFUSED: {error.diagnostics[0].message}", flush=True)


def selected(names: Sequence[str], families: Sequence[str], slower: Mapping[str, float]) -> list[Case]:
    """Cases whose names contain one of ``names``, of ``families`` and in ``slower``; an empty filter takes
    all.
    """
    return [
        case
        for case in CASES.values()
        if (not names or any(name in case.name for name in names))
        and (not families or case.family in families)
        and (not slower or case.name in slower)
    ]


def slower_cases(file: Path, limit: float) -> dict[str, float]:
    """Ratios above ``limit`` in a file of results."""
    entries = json.loads(file.read_text())["ops"]
    return {entry["name"]: entry["ratio"] for entry in entries if (entry["ratio"] or 0) > limit}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.ops", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="part of a case's name")
    parser.add_argument("--family", nargs="*", choices=list(FAMILIES), default=[])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--above", type=float, help="only cases above this ratio in the results so far")
    installed = [peer for peer in ONNX_PEERS if is_installed(peer)]
    parser.add_argument("--against", nargs="*", choices=ONNX_PEERS, default=installed)
    parser.add_argument("--results", type=Path, help="folder of the JSON file, also of a part of the cases")
    parser.add_argument("--list", action="store_true", help="only the names of the cases")
    chosen = parser.parse_args()
    results = chosen.results or RESULTS / "ops"
    file = results / f"{chosen.threads}.json"
    slower = slower_cases(file, chosen.above) if chosen.above is not None else {}
    cases = selected(chosen.names, chosen.family, slower)
    if chosen.list or not cases:
        print("\n".join(case.name for case in cases) or "no such case")
        return
    entries = []
    for entry in run(cases, chosen.against, chosen.threads, chosen.rounds):
        entries.append(entry)
        print(line(entry), flush=True)
    totals = summary(entries)
    print(", ".join(f"{key} {value}" for key, value in totals.items()))
    if (chosen.results and chosen.above is None) or len(cases) == len(CASES):
        packages = [OURS, "numpy", *(ENGINES[peer].package for peer in chosen.against)]
        write_record(file, packages, {"threads": chosen.threads, "summary": totals, "ops": entries})


if __name__ == "__main__":
    main()
