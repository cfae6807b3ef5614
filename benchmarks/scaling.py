"""Measures how compile time and memory grow with the number of nodes, the depth of scopes and the bytes of
weights.

    python -m benchmarks.scaling nodes [--sizes 100 1000 10000] [--only "residual blocks"] [--rounds 3]
    python -m benchmarks.scaling depth
    python -m benchmarks.scaling weights [--gib 0.25 0.5 1 2.25]

The creation of an ONNX Runtime session for the same file is measured as well. Every sample is a new
process; the engines take turns; kernels are in the cache already. Time is CPU time of the process and of
the compilers that it starts, from the call on (imports are not counted), the least of the rounds. Memory is
the peak resident memory that the kernel counts (``VmHWM``): anonymous memory, and pages of mapped files.

The exponent is the slope between the two largest sizes in a plot of log(cost) over log(size). The cost is
that of the model minus that of a model of one node. Results go to ``benchmarks/results/scaling``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import log
from pathlib import Path
from typing import Any, Final

from benchmarks import RESULTS
from benchmarks.records import write_record
from benchmarks.synthetic_models import NODES, SCOPES, write_weights

FOLDER: Final = RESULTS / "scaling"
ENGINES = ("graphwright", "onnxruntime")
GIB = 1 << 30

_SCRIPT = """
import json, os, sys
from pathlib import Path

def status(key):
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(key + ":"))

def cpu():
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system

engine, path, saved = sys.argv[1:]
if engine == "onnxruntime":
    import onnxruntime
    call = lambda: onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
else:
    import onnx, numpy
    import graphwright as gw
    gw.compile
    call = lambda: gw.compile(path)
before, start = status("VmRSS"), cpu()
model = call()
made = {"seconds": cpu() - start, "before": before, "peak": status("VmHWM")}
if saved and engine == "graphwright":
    start = cpu()
    model.save(saved)
    made |= {"save_seconds": cpu() - start, "save_peak": status("VmHWM")}
print(json.dumps(made))
"""
"""Compiles one model, and saves it where a path is given; prints seconds and bytes."""

Sample = dict[str, float]


def sample(engine: str, model: Path, folder: Path, saved: str = "") -> Sample:
    """Compiles ``model`` with ``engine`` in a process of its own. Raises RuntimeError if it fails."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GRAPHWRIGHT_")}
    environment |= {
        "GRAPHWRIGHT_CACHE_DIR": str(folder / "cache"),
        "GRAPHWRIGHT_KEY_DIR": str(folder / "key"),
    }
    command = [sys.executable, "-c", _SCRIPT, engine, str(model), saved]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise RuntimeError(ended.stderr.strip().splitlines()[-1])
    made: Sample = json.loads(ended.stdout.splitlines()[-1])
    return made


def least(engine: str, model: Path, folder: Path, rounds: int) -> Sample:
    """The least of each figure over ``rounds``, after one round that fills graphwright's cache."""
    if engine == "graphwright":
        sample(engine, model, folder)
    samples = [sample(engine, model, folder) for _ in range(rounds)]
    return {key: min(each[key] for each in samples) for key in samples[0]}


def exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """The slope of the line through the logarithms, by least squares."""
    points = [(log(size), log(max(cost, 1e-9))) for size, cost in zip(sizes, costs, strict=True)]
    x, y = (sum(axis) / len(points) for axis in zip(*points, strict=True))
    return sum((a - x) * (b - y) for a, b in points) / sum((a - x) ** 2 for a, _ in points)


def grown(
    kind: str,
    make: Callable[[int], Any],
    sizes: Sequence[int],
    folder: Path,
    rounds: int,
) -> Iterator[dict[str, Any]]:
    """A record for each engine: figures by size, exponents, and milliseconds and bytes of one more node."""
    figures: dict[str, dict[int, Sample]] = {engine: {} for engine in ENGINES}
    for size in (1, *sizes):
        path = folder / "model.onnx"
        path.write_bytes(make(size).SerializeToString())
        for engine in ENGINES:
            figures[engine][size] = least(engine, path, folder, rounds)
    for engine, found in figures.items():
        seconds = [found[size]["seconds"] - found[1]["seconds"] for size in sizes]
        memory = [found[size]["peak"] - found[1]["peak"] for size in sizes]
        yield {
            "kind": kind,
            "engine": engine,
            "sizes": list(sizes),
            "seconds": [found[size]["seconds"] for size in sizes],
            "peak": [found[size]["peak"] for size in sizes],
            "smallest": found[1],
            "time_exponent": exponent(sizes[-2:], seconds[-2:]),
            "memory_exponent": exponent(sizes[-2:], memory[-2:]),
            "ms_of_one": 1e3 * seconds[-1] / sizes[-1],
            "kib_of_one": memory[-1] / sizes[-1] / 1024,
        }


def weighed(gib: Sequence[float], folder: Path) -> Iterator[dict[str, Any]]:
    """A record for each engine, size and place of the weights: seconds, and the peak over the files' size."""
    for external in (True, False):
        for size in gib:
            if not external and size >= 2:  # one protobuf holds less
                continue
            path = folder / "large.onnx"
            total = write_weights(path, int(size * GIB), external)
            for engine in ENGINES:
                saved = folder / "large.om"
                found = sample(engine, path, folder, str(saved))
                saved.unlink(missing_ok=True)
                yield {
                    "kind": "external data" if external else "one file",
                    "engine": engine,
                    "bytes": total,
                    **found,
                    "peak_over_size": found["peak"] / total,
                    "save_peak_over_size": found.get("save_peak", 0) / total,
                }
            for each in folder.glob("large.*"):
                each.unlink()


GROWN = """\
| what repeats | engine | {sizes} | exponent of time | of memory | ms each | KiB each |
| --- | --- | {rules} | ---: | ---: | ---: | ---: |"""
WEIGHED = """\
| weights | GiB | engine | CPU s | s/GiB | peak / size | saving, CPU s | peak / size |
| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: |"""


def _grown_row(record: Mapping[str, Any]) -> str:
    seconds = " | ".join(f"{s:.2f} s" for s in record["seconds"])
    return (
        f"| {record['kind']} | {record['engine']} | {seconds} | {record['time_exponent']:.2f} "
        f"| {record['memory_exponent']:.2f} | {record['ms_of_one']:.2f} | {record['kib_of_one']:.1f} |"
    )


def _weighed_row(record: Mapping[str, Any]) -> str:
    gib = record["bytes"] / GIB
    saving = "- | -"
    if "save_seconds" in record:
        saving = f"{record['save_seconds']:.1f} | {record['save_peak_over_size']:.2f}"
    return (
        f"| {record['kind']} | {gib:.2f} | {record['engine']} | {record['seconds']:.1f} "
        f"| {record['seconds'] / gib:.1f} | {record['peak_over_size']:.2f} | {saving} |"
    )


def _measure(chosen: argparse.Namespace, folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Lines to print, with the record that each shows."""
    if chosen.what == "weights":
        print(WEIGHED)
        for record in weighed(chosen.gib, folder):
            yield _weighed_row(record), record
        return
    kinds = {kind: (make, chosen.sizes) for kind, make in NODES.items()} if chosen.what == "nodes" else SCOPES
    for kind, (make, sizes) in kinds.items():
        if chosen.only and kind not in chosen.only:
            continue
        rules = " | ".join(["---:"] * len(sizes))
        print(GROWN.format(sizes=" | ".join(map(str, sizes)), rules=rules))
        for record in grown(kind, make, sizes, folder, chosen.rounds):
            yield _grown_row(record), record


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=["nodes", "depth", "weights"])
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 1000, 10000])
    parser.add_argument("--gib", type=float, nargs="+", default=[0.25, 0.5, 1, 2.25])
    parser.add_argument("--only", nargs="*", metavar="KIND")
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args(arguments)
    records: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="graphwright-scaling-") as folder:
        for line, record in _measure(chosen, Path(folder)):
            print(line, flush=True)
            records.append(record)
            # what was measured stays if the rest is not waited for
            write_record(FOLDER / f"{chosen.what}.json", [*ENGINES, "numpy"], {"records": records})


if __name__ == "__main__":
    main()
