"""Measures graphwright beside its peers on models of the zoo: a JSON file per model and number of threads."""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.build import build
from benchmarks.figures import memory_plan, operations
from benchmarks.models import MODELS, DevModel
from graphwright.tools.bench import measure, record
from graphwright.tools.engines import OURS, PEERS, EngineError, is_installed, start
from graphwright.tools.machine import machine, versions

RESULTS = Path(__file__).with_name("results")


def compare(model: DevModel, peers: Sequence[str], threads: int, rounds: int) -> dict[str, Any]:
    """Compile and measure one model at its default sizes; what a results file holds."""
    feeds = model.feeds()
    refused = {peer: reason for peer in peers if (reason := _refusal(peer, model, threads))}
    peers = [peer for peer in peers if peer not in refused]
    with tempfile.TemporaryDirectory() as folder:
        packed = Path(folder) / f"{model.name}.om"
        compiled = build(model.path(), packed)
        files = {OURS: (packed, feeds)} | {peer: (model.path(), feeds) for peer in peers}
        results = measure(files, threads, rounds)
        size = packed.stat().st_size
        plan = memory_plan(packed, feeds, threads)
    command = ["python", "-m", "benchmarks.compare", model.name]
    command += ["--threads", str(threads), "--rounds", str(rounds)]
    made = record(command, model.path(), threads, feeds, results)
    for engine in made["engines"].values():
        engine["rounds_ns"] = [round(statistics.median(taken)) for taken in engine["rounds_ns"]]
    software = versions([OURS, "numpy", *peers])
    figures = {"compile": compiled, "om_bytes": size, "memory_plan": plan, "operations": operations(model)}
    return {"machine": machine(), "versions": software, "refused": refused} | figures | made


def _refusal(peer: str, model: DevModel, threads: int) -> str:
    """Why ``peer`` cannot load the model; empty if it can."""
    try:
        start(peer, model.path(), threads)
    except EngineError as error:
        return error.diagnostics[0].message
    return ""


def summary(made: dict[str, Any]) -> str:
    """One line for the terminal."""
    engines = made["engines"]
    texts = [f"{OURS} {engines[OURS]['median_ns'] / 1e6:.3g} ms"]
    for peer, found in made["ratios"].items():
        texts.append(f"{peer} {engines[peer]['median_ns'] / 1e6:.3g} ms ({found['median']:.2f} x)")
    texts.append(f"{made['operations'] / engines[OURS]['median_ns']:.3g} GFLOP/s done directly")
    return ", ".join(texts)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description=__doc__)
    parser.add_argument("models", nargs="+", choices=list(MODELS), metavar="MODEL")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--against", nargs="*", choices=PEERS, default=[p for p in PEERS if is_installed(p)])
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the JSON files")
    chosen = parser.parse_args()
    chosen.results.mkdir(parents=True, exist_ok=True)
    for name in chosen.models:
        made = compare(MODELS[name], chosen.against, chosen.threads, chosen.rounds)
        text = json.dumps(made, indent=1, sort_keys=True) + "\n"
        (chosen.results / f"{name}.{chosen.threads}.json").write_text(text)
        print(f"{name}: {summary(made)}", flush=True)


if __name__ == "__main__":
    main()
