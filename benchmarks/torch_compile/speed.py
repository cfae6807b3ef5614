"""Compares models of the package transformers under torch.compile with eager mode and Inductor.

    python -m benchmarks.torch_compile.speed MODEL|all ... [--threads 1 2] [--rounds 10]

Weights are random, without gradients. Each model has a process of its own, in which the three take turns;
Inductor freezes the parameters, as graphwright does. Times are medians of rounds, ratios medians over the
rounds of ours to theirs. A JSON file per model and number of threads goes to ``benchmarks/results/torch``.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from statistics import geometric_mean, median
from typing import Any

import torch
import torch._inductor.config

from benchmarks.torch_compile.models import FULL
from benchmarks.torch_compile.report import FOLDER
from graphwright.tools.machine import machine, versions

ROUND_SECONDS = 0.4
OURS, PEERS = "graphwright", ("eager", "inductor")


def compare(name: str, threads: int, rounds: int) -> dict[str, Any]:
    """Measures a model in this process; returns the contents of the results file."""
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    model, feeds = FULL[name]()
    calls = _engines(model, threads, feeds)
    expected, made = calls["eager"](), calls[OURS]()
    tensors = {key: value for key, value in expected.items() if isinstance(value, torch.Tensor)}
    error = max(float((made[key] - value).abs().max()) for key, value in tensors.items())
    times: dict[str, list[float]] = {engine: [] for engine in calls}
    for _ in range(rounds):
        for engine, call in calls.items():
            times[engine].append(_round(call))
    ratios = {peer: median(a / b for a, b in zip(times[OURS], times[peer], strict=True)) for peer in PEERS}
    return {
        "model": name, "threads": threads, "rounds": rounds, "machine": machine(),
        "versions": versions([OURS, "torch", "transformers"]), "ratios": ratios,
        "median_ms": {engine: median(each) * 1e3 for engine, each in times.items()}, "error": error,
        "command": f"python -m benchmarks.torch_compile.speed {name} --threads {threads} --rounds {rounds}",
    }  # fmt: skip


def _engines(model: Any, threads: int, feeds: Mapping[str, Any]) -> dict[str, Callable[[], Any]]:
    """A call for each engine."""
    torch._inductor.config.freezing = True
    functions = {
        OURS: torch.compile(model, backend="graphwright", options={"threads": threads}),
        "eager": model,
        "inductor": torch.compile(model, backend="inductor"),
    }
    return {name: _call(function, feeds) for name, function in functions.items()}


def _call(function: Any, feeds: Mapping[str, Any]) -> Callable[[], Any]:
    def call() -> Any:
        with torch.no_grad():
            return function(**feeds)

    return call


def _round(call: Callable[[], Any]) -> float:
    """The median time of a call, in seconds, over a fraction of a second."""
    call()
    gc.collect()
    made: list[float] = []
    while sum(made) < ROUND_SECONDS or len(made) < 3:
        start = time.perf_counter()
        call()
        made.append(time.perf_counter() - start)
    return median(made)


def _in_process(name: str, threads: int, rounds: int) -> dict[str, Any]:
    """As :func:`compare`, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.torch_compile.speed", name, "--threads", str(threads)]
    command += ["--rounds", str(rounds), "--here"]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    text = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout
    made: dict[str, Any] = json.loads(text)
    return made


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.torch_compile.speed", description=__doc__)
    parser.add_argument("models", nargs="+", choices=["all", *FULL], metavar="all|MODEL")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--here", action="store_true", help="measure one in this process, and print the JSON")
    chosen = parser.parse_args()
    if chosen.here:
        print(json.dumps(compare(chosen.models[0], chosen.threads[0], chosen.rounds)))
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    for threads in chosen.threads:
        found = []
        for name in FULL if "all" in chosen.models else chosen.models:
            made = _in_process(name, threads, chosen.rounds)
            text = json.dumps(made, indent=1, sort_keys=True) + "\n"
            (FOLDER / f"{name}.{threads}.json").write_text(text)
            found.append(made)
            print(_line(made), flush=True)
        for peer in PEERS:
            mean = geometric_mean(made["ratios"][peer] for made in found)
            print(f"{threads} threads, of {peer}'s time: {mean:.3f}", flush=True)


def _line(made: Mapping[str, Any]) -> str:
    ratios = ", ".join(f"{ratio:.3f} of {peer}'s" for peer, ratio in made["ratios"].items())
    return f"{made['model']}: {made['median_ms'][OURS]:.2f} ms, {ratios}"


if __name__ == "__main__":
    main()
