"""Measures the cost of gears: switching between them, loading, compiling, and their bytes.

    python -m benchmarks.gears [--gears 2 10 100] [--size 64]

The model is a small CNN (three convolutions, a gate, pooling, a dense layer). The cost of a switch is the
additional time of a run after a run of another gear: runs that alternate between two gears are compared with
runs of each gear alone, in one process, in CPU time of the thread; the result is the median of paired
differences over rounds. It includes cache misses, so the same difference is shown for two models without
gears.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import graphwright as gw
from graphwright.ir.graph import Module
from graphwright.ops.core.binary import Mul
from graphwright.ops.core.flatten import Flatten
from graphwright.ops.core.gemm import Gemm
from graphwright.ops.core.unary import Relu, Sigmoid
from graphwright.ops.nn.conv import Conv
from graphwright.ops.nn.global_pool import GlobalAveragePool
from graphwright.ops.nn.max_pool import MaxPool
from graphwright.ops.nn.softmax import Softmax

Array = np.ndarray[Any, Any]
ROUNDS = 300
RUNS = 20
"""In a row, of each kind in each round."""


def small_cnn() -> Module:
    """``x: f32[N, 3, H, W]`` to ten probabilities."""
    random = np.random.default_rng(0)

    def weight(*shape: int) -> Array:
        return (random.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)

    b = gw.GraphBuilder()
    x = b.input("x", "f32", ("N", 3, "H", "W"))
    x = b(Relu(), b(Conv(strides=(2, 2), pads=(1, 1, 1, 1)), x, weight(16, 3, 3, 3), weight(16)))
    x = b(Relu(), b(Conv(pads=(1, 1, 1, 1)), x, weight(32, 16, 3, 3), weight(32)))
    x = b(MaxPool((2, 2), (2, 2)), x)
    x = b(Conv(pads=(1, 1, 1, 1)), x, weight(64, 32, 3, 3), weight(64))
    x = b(GlobalAveragePool(), b(Mul(), x, b(Sigmoid(), x)))
    b.output("y", b(Softmax(), b(Gemm(), b(Flatten(), x), weight(64, 10), weight(10))))
    return b.build()


def image(batch: int, size: int) -> Array:
    """An input of the model."""
    return np.random.default_rng(1).standard_normal((batch, 3, size, size)).astype(np.float32)


def switch_cost(run: Callable[[int], object]) -> tuple[float, float, float]:
    """Returns microseconds of thread time: the first alone, the second alone, and the cost of a switch per
    run.
    """
    alone: list[list[float]] = [[], []]
    added = []
    for _ in range(ROUNDS):
        first, second = (_seconds(run, [which] * RUNS) for which in (0, 1))
        turns = _seconds(run, [0, 1] * RUNS)
        alone[0].append(first)
        alone[1].append(second)
        added.append(turns - first - second)
    return (*(1e6 * min(times) / RUNS for times in alone), 1e6 * median(added) / (2 * RUNS))  # type: ignore[return-value]  # two numbers, and one


def _seconds(run: Callable[[int], object], order: Sequence[int]) -> float:
    start = time.clock_gettime(time.CLOCK_THREAD_CPUTIME_ID)
    for which in order:
        run(which)
    return time.clock_gettime(time.CLOCK_THREAD_CPUTIME_ID) - start


def show_switches(size: int) -> None:
    """Gears of one batch and of two, and two models of these shapes."""
    feeds = [image(1, size), image(2, size)]
    model = gw.compile(small_cnn(), gears={"x": [feed.shape for feed in feeds]})
    pair = [gw.compile(small_cnn(), shapes={"x": feed.shape}) for feed in feeds]
    model.threads = 1
    for each in pair:
        each.threads = 1
    print(f"{'':20} {'first':>9} {'second':>9} {'a switch adds':>14}  (us of thread time, {size}x{size})")
    for title, run in (
        ("one model, two gears", lambda which: model(feeds[which])),
        ("two models", lambda which: pair[which](feeds[which])),
    ):
        first, second, added = switch_cost(run)
        print(f"{title:20} {first:9.2f} {second:9.2f} {added:14.2f}")


def show_sizes(counts: Sequence[int], size: int) -> None:
    """Compiling (without the C compiler), the file, loading, memory and switches, by the number of gears."""
    titles = ("compile s", "file KiB", "load ms", "arena KiB", "a switch adds us")
    print(f"{'gears':>5} {' '.join(f'{title:>{len(title) + 1}}' for title in titles)}")
    with tempfile.TemporaryDirectory() as folder:
        for count in counts:
            start = time.process_time()
            shapes = [(1 + k % 10, 3, size + 16 * (k // 10), size) for k in range(count)]
            model = gw.compile(small_cnn(), gears={"x": shapes})
            compiled = time.process_time() - start
            path = Path(folder) / "gears.om"
            model.save(path)
            loads = [_load_seconds(path) for _ in range(5)]
            model.threads = 1
            feeds = [np.zeros(shape, np.float32) for shape in shapes]
            added = round_cost(model, feeds)
            arena = model.stats()["arena_bytes"] / 1024
            print(
                f"{count:5} {compiled:10.2f} {path.stat().st_size / 1024:9.0f} {1e3 * min(loads):8.2f} "
                f"{arena:10.0f} {added:17.2f}"
            )


def round_cost(model: gw.Model, feeds: Sequence[Array]) -> float:
    """Returns the microseconds that a run takes longer after a run of another gear: means of least thread
    times.
    """

    def run(which: int) -> object:
        return model(feeds[which])

    numbers = range(len(feeds))
    alone, turns = [float("inf")] * len(feeds), [float("inf")] * len(feeds)
    for _ in range(ROUNDS // len(feeds) + 10):
        for which in numbers:
            turns[which] = min(turns[which], _seconds(run, [which]))  # behind a run of another gear
        for which in numbers:
            run(which)
            alone[which] = min(alone[which], _seconds(run, [which]))
    return 1e6 * (sum(turns) - sum(alone)) / len(feeds)


def _load_seconds(path: Path) -> float:
    start = time.process_time()
    gw.load(path)
    return time.process_time() - start


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gears", type=int, nargs="*", default=[2, 10, 100], metavar="COUNT")
    parser.add_argument("--size", type=int, default=16, help="height and width of the images that take turns")
    arguments = parser.parse_args()
    show_switches(arguments.size)
    if arguments.gears:
        show_sizes(arguments.gears, 32)


if __name__ == "__main__":
    main()
