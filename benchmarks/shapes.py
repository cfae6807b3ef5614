"""Measures the cost of new shapes: planning, memory, correctness, and the gain of specialize="hot".

    python -m benchmarks.shapes [plan | memory | right | hot ...] [--models MODEL ...] [--shapes 200]

``plan``: CPU time of planning a shape that was not seen before (the shape program, sizes, offsets, arguments)
on a package that was loaded, and whether the compiler was imported meanwhile. ``memory``: anonymous memory
after 100 and after all random shapes, and after ``trim()``. ``right``: the largest difference from ONNX
Runtime at random sizes, relative to the largest output or 1. ``hot``: a run before and after the static
variant took over, and runs while it was made. All on one thread, sizes drawn with one seed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import graphwright as gw
from benchmarks.models import MODELS, audio, normal, page
from graphwright.runtime.devices.cpu import Cpu
from graphwright.runtime.dispatch.tier_up import TierUp
from graphwright.tools.measuring.engines import start

Array = np.ndarray[Any, Any]
Feeds = dict[str, Array]
MIB = 2**20
ONE_THREAD = gw.CompileOptions(threads=1)
WAIT = 300.0
"""Seconds that a variant may take to be made."""


def _det(random: np.random.Generator, large: bool) -> Feeds:
    height, width = (32 * int(n) for n in random.integers(1, 65 if large else 11, 2))
    return {
        "x": np.empty((1, 3, height, width), np.float32) if large else page(random, (1, 3, height, width))
    }


def _rec(random: np.random.Generator, large: bool) -> Feeds:
    batch, width = random.integers(1, 9 if large else 3), random.integers(8, 2048 if large else 400)
    return {"x": normal(random, (int(batch), 3, 48, int(width)))}


def _cls(random: np.random.Generator, large: bool) -> Feeds:
    batch, width = random.integers(1, 17 if large else 5), random.integers(8, 1024 if large else 300)
    return {"x": normal(random, (int(batch), 3, 48, int(width)))}


def _vad(random: np.random.Generator, large: bool) -> Feeds:
    rate, samples = ((16000, 576), (8000, 288))[random.integers(2)]
    batch = int(random.integers(1, 1000 if large else 100))
    shape = (batch, samples)
    return {"input": audio(random, shape), "state": normal(random, (2, batch, 128)), "sr": np.array(rate)}


SIZES: dict[str, Callable[[np.random.Generator, bool], Feeds]] = {
    "ppocr_det": _det,
    "ppocr_rec": _rec,
    "ppocr_cls": _cls,
    "silero_vad": _vad,
}
"""Random feeds of each model: large ones for planning, which allocates nothing, small ones for runs."""


def drawn(name: str, count: int, large: bool) -> Iterator[Feeds]:
    """``count`` feeds of one model, the same each time."""
    random = np.random.default_rng(0)
    return (SIZES[name](random, large) for _ in range(count))


def package(name: str, folder: Path) -> Path:
    """The model's package, compiled once for all sizes."""
    path = folder / f"{name}.om"
    if not path.exists():
        gw.compile(str(MODELS[name].path()), options=ONE_THREAD).save(path)
    return path


# -- planning -------------------------------------------------------------------------------------------

_PLANS = "import sys; from benchmarks.shapes import plan_times; plan_times(*sys.argv[1:])"


def plan(name: str, count: int, folder: Path) -> None:
    """Measures plans in a process that only loads the package: this one has imported the compiler."""
    subprocess.run([sys.executable, "-c", _PLANS, name, str(package(name, folder)), str(count)], check=True)


def plan_times(name: str, path: str, count: str) -> None:
    """Print the time of planning ``count`` new shapes, without that of looking a plan up and showing it."""
    model = gw.load(path, options=ONE_THREAD)
    assert isinstance(model.executor, Cpu)
    misses, hits = [], []
    for feeds in drawn(name, int(count), large=True):
        shapes = [feeds[spec.name].shape for spec in model.inputs]
        before = model.executor.stats()["plan_misses"]
        first, again = _cpu_ms(model.executor, shapes), _cpu_ms(model.executor, shapes)
        if model.executor.stats()["plan_misses"] > before:
            misses.append(first)
            hits.append(again)
    times = np.maximum(np.array(misses) - np.median(hits), 0)
    compiled = "imported" if "graphwright.compiler" in sys.modules else "not imported"
    median, high = np.percentile(times, (50, 95))
    print(
        f"plan    {name:12} {len(times)} new shapes: median {median:.3f} ms, 95 % {high:.3f} ms, "
        f"most {times.max():.3f} ms; the compiler was {compiled}"
    )


def _cpu_ms(executor: Cpu, shapes: Sequence[tuple[int, ...]]) -> float:
    begin = time.thread_time()
    executor.plan(shapes, 1)
    return (time.thread_time() - begin) * 1e3


# -- memory ---------------------------------------------------------------------------------------------


def memory(name: str, count: int, folder: Path) -> None:
    """Measures memory during runs of ``count`` shapes, most of them new."""
    model = gw.load(package(name, folder), options=ONE_THREAD)
    seen = {}
    for turn, feeds in enumerate(drawn(name, count, large=False), 1):
        model.run(feeds)
        if turn in (100, count):
            seen[turn] = resident()
    stats = model.stats()
    given = model.trim()
    steps = ", ".join(f"{size / MIB:.1f} MiB after {turn}" for turn, size in seen.items())
    print(
        f"memory  {name:12} {steps} shapes, {resident() / MIB:.1f} after trim() of {given / MIB:.1f}; "
        f"{stats['plans']} plans kept, {stats['plan_evictions']} dropped, {stats['plan_hits']} found"
    )


def resident() -> int:
    """Anonymous memory of this process in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("RssAnon")).split()[1]) * 1024


# -- results --------------------------------------------------------------------------------------------


def right(name: str, count: int, folder: Path) -> None:
    """Compares results with ONNX Runtime."""
    model = gw.load(package(name, folder), options=ONE_THREAD)
    peer = start("onnxruntime", MODELS[name].path(), 1)
    worst = 0.0
    for feeds in drawn(name, count, large=False):
        found, expected = model.run(feeds), peer(feeds)
        theirs = list(expected.values()) if isinstance(expected, dict) else list(expected)
        for here, there in zip(found.values(), theirs, strict=True):
            worst = max(worst, float(np.abs(here - there).max() / max(np.abs(there).max(), 1.0)))
    print(f"right   {name:12} {count} shapes: at most {worst:.1e} from ONNX Runtime")


# -- variants -------------------------------------------------------------------------------------------


def hot(name: str, count: int, folder: Path) -> None:
    """Runs one shape repeatedly: ``count`` runs before a variant is requested, and after it is in use."""
    options = replace(ONE_THREAD, specialize="hot", hot_after=count)
    model = gw.load(package(name, folder), options=options)
    assert isinstance(model.executor, TierUp)
    feeds = MODELS[name].feeds()
    before, begin = _runs(model, feeds, count), time.perf_counter()
    meanwhile = np.empty((2, 0))
    while not model.stats()["hot_variants"] and time.perf_counter() - begin < WAIT:
        if model.stats()["hot_failed"]:
            raise SystemExit(f"no variant of {name}: {model.executor.faults[-1]}")
        meanwhile = np.concatenate([meanwhile, _runs(model, feeds, 10)], axis=1)
    made = time.perf_counter() - begin
    after = _runs(model, feeds, count)
    cpu = [float(np.median(runs[0])) for runs in (before, meanwhile, after)]
    late = [float(np.percentile(runs[1], 99)) for runs in (before, meanwhile)]
    print(
        f"hot     {name:12} CPU time of a run {cpu[0]:.3f} ms before, {cpu[2]:.3f} after "
        f"({cpu[0] / cpu[2]:.2f} x), made in {made:.1f} s; {cpu[1]:.3f} meanwhile, "
        f"99 % within {late[1]:.1f} ms of wall time (before: {late[0]:.1f})"
    )


def _runs(model: gw.Model, feeds: Feeds, count: int) -> Array:
    """CPU and wall time of each run, in ms."""
    times = []
    for _ in range(count):
        begin = time.thread_time(), time.perf_counter()
        model.run(feeds)
        times.append((time.thread_time() - begin[0], time.perf_counter() - begin[1]))
    return 1e3 * np.array(times).T


PARTS: dict[str, Callable[[str, int, Path], None]] = {
    "plan": plan,
    "memory": memory,
    "right": right,
    "hot": hot,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; all if none is named"
    )
    parser.add_argument("--models", nargs="*", default=list(SIZES), choices=list(SIZES), metavar="MODEL")
    parser.add_argument("--shapes", type=int, default=200, help="shapes of each part")
    chosen = parser.parse_args(arguments)
    if unknown := set(chosen.parts) - PARTS.keys():
        parser.error(f"there is no part {min(unknown)}: they are {', '.join(PARTS)}")
    with tempfile.TemporaryDirectory(prefix="graphwright-shapes-") as folder:
        for part in chosen.parts or PARTS:
            for name in chosen.models:
                PARTS[part](name, chosen.shapes, Path(folder))


if __name__ == "__main__":
    main()
