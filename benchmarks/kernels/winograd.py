"""Compares the Winograd kernel with direct convolution: ``python -m benchmarks.kernels.winograd [v3|v4]
[CHANNELSxSIZE...]``.

A shape such as 256x14 is a 3x3 convolution of one image of 14x14 pixels, with 256 channels before and after.
GFLOP/s count the operations of the direct algorithm for all kernels. "warm": each call reads the weights of
the call before. "cold": calls read copies of the weights in turn, which together are three times as large as
the largest cache, as if the other layers of a model had evicted them. Kernels take turns with a loop of FMAs
and with a loop that reads the weights of the direct kernel. Times are processor time; speeds are the best of
many runs, ratios to the direct kernel the median of the turns.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from itertools import cycle
from typing import Any, Final

from benchmarks.kernels.calls import call, library, room, scratch_room
from benchmarks.limits import fma_gflops, read_gbps, thread_seconds
from graphwright.kernels.conv import direct
from graphwright.kernels.conv.blocked_algorithm import ranked
from graphwright.kernels.winograd import winograd
from graphwright.runtime.devices.this_cpu import usable_isas
from graphwright.targets.cpu.isa import ISAS, Isa

SHAPES: Final = ("64x56", "128x28", "256x14", "512x7")
_COLD_BYTES: Final = 108 << 20
_PATIENCE: Final = 3.0
"""Seconds of wall time for one shape."""


def _direct_args(isa: Isa, channels: int, size: int) -> direct.DirectArgs:
    row = size * isa.lanes
    blocks = -(-channels // isa.lanes)
    strides = (blocks * size * row, size * row, row)
    return direct.DirectArgs(
        1, 1, channels, channels, size, size, size, size, 3, 3, 1, 1, 1, 1, 1, 1,
        *strides, isa.lanes, *strides, *strides, isa.lanes, isa.lanes, 1, 1, 0, 0, 0,
    )  # fmt: skip


def calls(isa: Isa, channels: int, size: int) -> dict[str, list[Callable[[], None]]]:
    """Each kernel's runs, one for each copy of its weights."""
    blocks = -(-channels // isa.lanes)
    pixels = blocks * size * size * isa.lanes
    x, bias, y = room(pixels, 0), room(blocks * isa.lanes, 512), room(pixels, 768)

    def runs(kernel: Any, points: int, args: Any, grid: Any, scratch: Any) -> list[Callable[[], None]]:
        own = scratch_room(scratch)
        weights = points * (blocks * isa.lanes) ** 2
        packed = [room(weights, 256) for _ in range(max(2, -(-_COLD_BYTES // (4 * weights))))]
        return [call(kernel, [x, w, bias, None, y], args, grid, own) for w in packed]

    straight = _direct_args(isa, channels, size)
    found = {
        "direct": runs(
            library(direct, isa)[direct.SYMBOL], 9, straight,
            direct.grid(isa, straight), direct.scratch_bytes(isa, straight),
        )
    }  # fmt: skip
    for m, symbol in winograd.SYMBOLS.items():
        args = winograd.dense_args(m, isa, _conv(channels, size), pads=(1, 1, 1, 1))
        found[f"F{m}"] = runs(
            library(winograd, isa)[symbol], (m + 2) * 4, args,
            winograd.grid(m, isa, args), winograd.scratch_bytes(m, isa, args),
        )  # fmt: skip
    return found


def _conv(channels: int, size: int) -> winograd.Conv3x3:
    """One square image, with as many output channels as input channels."""
    return winograd.Conv3x3(1, channels, channels, size, size)


def measure(isa: Isa, channels: int, size: int) -> Iterator[str]:
    """The figures of one shape, with warm and with cold caches."""
    flops, weights = 18.0 * (channels * size) ** 2, 36 * channels**2
    runs = calls(isa, channels, size)
    turns = {name: cycle(each) for name, each in runs.items()}
    seconds: dict[tuple[str, str], list[float]] = {}
    limits, read = list[float](), list[float]()
    begin = time.monotonic()
    while len(limits) < 3 or time.monotonic() - begin < _PATIENCE:
        limits.append(fma_gflops(isa, 1))
        read.append(read_gbps(weights, isa, 1))
        for name in runs:
            run = next(turns[name])
            seconds.setdefault((name, "cold"), []).append(thread_seconds(run))
            seconds.setdefault((name, "warm"), []).append(min(thread_seconds(run) for _ in range(3)))
    yield f"limit {max(limits):.0f} GFLOP/s, median {statistics.median(limits):.0f}, L3 {max(read):.1f} GB/s"
    for state in ("warm", "cold"):
        words = []
        for name in runs:
            pairs = zip(seconds["direct", state], seconds[name, state], strict=True)
            ratio = statistics.median(d / w for d, w in pairs)
            speed = flops / min(seconds[name, state]) / 1e9
            words.append(f"{name} {speed:4.0f} GFLOP/s ({ratio:4.2f} x)")
        yield f"{state}: {', '.join(words)}"


def main(arguments: list[str]) -> None:
    """Prints a line per shape."""
    isas = [isa for name, isa in ISAS.items() if name in arguments] or [ISAS[usable_isas()[-1]]]
    shapes = [word for word in arguments if word not in ISAS] or SHAPES
    for isa in isas:
        for shape in shapes:
            channels, size = map(int, shape.split("x"))
            chosen = next(iter(ranked(isa, _conv(channels, size))))
            print(
                f"{isa.name} {shape}, chosen {chosen}: {'; '.join(measure(isa, channels, size))}", flush=True
            )


if __name__ == "__main__":
    main(sys.argv[1:])
