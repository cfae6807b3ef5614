"""Compares graphwright with its peers on models of the zoo; writes a JSON file per model and number of
threads.

The engines take turns, each in a process of its own on as many cores as threads; between rounds the machine's
limits are measured. With ``--busy`` another process computes on the first of those cores meanwhile.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from benchmarks import MODEL_RESULTS
from benchmarks.build import build
from benchmarks.figures import memory_plan, work
from benchmarks.models import MODELS, DevModel
from benchmarks.neighbor import busy
from benchmarks.roofline import Roofline
from graphwright.tools.machine import machine, usable_cores, versions
from graphwright.tools.measuring.bench import ROUND_SECONDS, measure, record
from graphwright.tools.measuring.engines import ENGINES, OURS, PEERS, is_installed


def compare(
    model: DevModel,
    peers: Sequence[str],
    threads: int,
    rounds: int,
    neighbor: bool = False,
    round_seconds: float = ROUND_SECONDS,
) -> dict[str, Any]:
    """Compiles and measures one model at its default sizes; returns the contents of the results file."""
    feeds, roofline = model.feeds(), Roofline(work(model), threads)
    refused = {peer: reason for peer in peers if (reason := _obstacle(peer, model))}
    core = usable_cores(threads)[0]
    with tempfile.TemporaryDirectory() as folder, busy(core) if neighbor else nullcontext():
        packed = Path(folder) / f"{model.name}.om"
        compiled = build(model.path(), packed)
        files = {OURS: (packed, feeds)}
        files |= {p: (model.path(ENGINES[p].suffix), feeds) for p in peers if p not in refused}
        results = measure(
            files, threads, rounds, round_seconds, lambda done: roofline.sample(), refused=refused
        )
        size = packed.stat().st_size
        plan = memory_plan(packed, feeds, threads)
    command = ["python", "-m", "benchmarks.peers", model.name]
    command += ["--threads", str(threads), "--rounds", str(rounds), *(["--busy"] if neighbor else [])]
    made = record(command, model.path(), threads, feeds, results)
    for engine, measured in results.items():
        made["engines"][engine]["rounds_ns"] = list(map(round, measured.round_medians))
    software = versions([OURS, "numpy", *(ENGINES[peer].package for peer in results if peer != OURS)])
    figures = {"compile": compiled, "om_bytes": size, "memory_plan": plan}
    figures |= {"roofline": roofline.record(results), "busy": neighbor}
    return {"machine": machine(), "versions": software, "refused": refused} | figures | made


def _obstacle(peer: str, model: DevModel) -> str:
    """The reason why ``peer`` cannot run the model; empty if it may be able to."""
    if not is_installed(peer):
        return f"{ENGINES[peer].package} is not installed"
    if ENGINES[peer].suffix not in model.suffixes:
        return f"there is no {ENGINES[peer].suffix} of the model"
    return ""


def summary(made: dict[str, Any]) -> str:
    """The line for the terminal."""
    engines, limits = made["engines"], made["roofline"]
    texts = [f"{OURS} {engines[OURS]['median_ns'] / 1e6:.3g} ms"]
    for peer, found in made["ratios"].items():
        spread = f"{found['median']:.2f} x, {found['low']:.2f} to {found['high']:.2f}"
        texts.append(f"{peer} {engines[peer]['median_ns'] / 1e6:.3g} ms ({spread})")
    texts.append(f"limit {limits['ns'] / 1e6:.3g} ms")
    texts += [f"without {peer}: {reason}" for peer, reason in made["refused"].items()]
    return ", ".join(texts)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("models", nargs="+", choices=["all", *MODELS], metavar="all|MODEL")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--round-seconds", type=float, default=ROUND_SECONDS)
    parser.add_argument("--busy", action="store_true", help="another process computes on one of the cores")
    parser.add_argument("--against", nargs="*", choices=PEERS, default=list(PEERS))
    parser.add_argument("--results", type=Path, default=MODEL_RESULTS, help="folder of the JSON files")
    chosen = parser.parse_args()
    chosen.results.mkdir(parents=True, exist_ok=True)
    for name in MODELS if "all" in chosen.models else chosen.models:
        made = compare(
            MODELS[name], chosen.against, chosen.threads, chosen.rounds, chosen.busy, chosen.round_seconds
        )
        text = json.dumps(made, indent=1, sort_keys=True) + "\n"
        kind = f"{chosen.threads}.busy" if chosen.busy else str(chosen.threads)
        (chosen.results / f"{name}.{kind}.json").write_text(text)
        print(f"{name}: {summary(made)}", flush=True)


if __name__ == "__main__":
    main()
