"""Compares the kernel of direct convolution with the FMA limit: ``python -m benchmarks.direct [v3|v4]``.

The shapes are those of resnet50, on channel-blocked images except for the first. A line shows GFLOP/s, and
the fraction of the rate of an FMA loop that is measured right before and after, in CPU time. The fraction is
the median of the best quarter of such pairs, because a busy hyperthread slows the kernel more than the loop.
The last line is the geometric mean.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Final, NamedTuple

from benchmarks.calls import call, library, room
from benchmarks.limits import fma_gflops, thread_seconds
from graphwright.kernels.conv import direct
from graphwright.runtime.devices.target import usable_isas
from graphwright.targets.cpu.isa import ISAS, Isa

_PATIENCE: Final = 1.5
"""Seconds of wall time for one shape."""


class Shape(NamedTuple):
    """``cin`` to ``cout`` channels of a square image, a square window with pads of half its size."""

    cin: int
    cout: int
    size: int
    kernel: int = 1
    stride: int = 1

    @property
    def out(self) -> int:
        return (self.size - 1) // self.stride + 1

    @property
    def flops(self) -> float:
        return 2.0 * self.cin * self.cout * (self.kernel * self.out) ** 2

    def __str__(self) -> str:
        return f"{self.cin}->{self.cout} {self.size}x{self.size} {self.kernel}x{self.kernel}/{self.stride}"


def resnet50() -> Iterable[Shape]:
    """Its 23 shapes, in the order in which they come."""
    yield Shape(3, 64, 224, 7, 2)
    yield from (Shape(64, 64, 56), Shape(64, 64, 56, 3), Shape(64, 256, 56), Shape(256, 64, 56))
    for width, size in ((128, 56), (256, 28), (512, 14)):
        yield Shape(2 * width, width, size)
        yield Shape(width, width, size, 3, 2)
        yield Shape(width, 4 * width, size // 2)
        yield Shape(2 * width, 4 * width, size, 1, 2)
        yield Shape(4 * width, width, size // 2)
        yield Shape(width, width, size // 2, 3)


def kernel_call(isa: Isa, shape: Shape) -> Callable[[], None]:
    """A run of the kernel; a few channels are read from planes."""
    cin, cout, size, k, stride = shape
    lanes, out, planar = isa.lanes, shape.out, cin < isa.lanes
    blocks = -(-cout // lanes)
    unit = 1 if planar else lanes
    channels = -(-cin // unit)
    args = direct.DirectArgs(
        1, 1, cin, cout, size, size, out, out, k, k, stride, stride, k // 2, k // 2, 1, 1,
        channels * size * size * unit, size * size * unit, size * unit, unit, 0, 0, 0,
        blocks * out * out * lanes, out * out * lanes, out * lanes, lanes, lanes, 1, 1, 1, 0, 0,
    )  # fmt: skip
    operands = [
        room(channels * size * size * unit, 0),
        room(blocks * lanes * channels * unit * k * k, 256),
        room(blocks * lanes, 512),
        None,
        room(blocks * out * out * lanes, 768),
    ]
    kernel = library(direct, isa)[direct.PLANAR_SYMBOL if planar else direct.SYMBOL]
    scratch = (direct.planar_scratch_bytes if planar else direct.scratch_bytes)(isa, args)
    return call(kernel, operands, args, direct.grid(isa, args), room(int(scratch) // 4 + 16, 128))


def measure(isa: Isa, shape: Shape) -> tuple[float, float]:
    """GFLOP/s at best, and the part of the limit."""
    run = kernel_call(isa, shape)
    run()
    limits, speeds = [fma_gflops(isa, 1)], list[float]()
    begin = time.monotonic()
    while len(speeds) < 8 or time.monotonic() - begin < _PATIENCE:
        speeds.append(shape.flops / thread_seconds(run) / 1e9)
        limits.append(fma_gflops(isa, 1))
    parts = [speed / ((a + b) / 2) for speed, (a, b) in zip(speeds, pairwise(limits), strict=True)]
    best = sorted(parts)[-max(1, len(parts) // 4) :]
    return max(speeds), statistics.median(best)


def main(arguments: list[str]) -> None:
    """A line per shape."""
    for isa in [ISAS[name] for name in arguments] or [ISAS[usable_isas()[-1]]]:
        parts = []
        for shape in resnet50():
            speed, part = measure(isa, shape)
            parts.append(part)
            print(f"{isa.name} {shape!s:24} {speed:6.0f} GFLOP/s {part:5.2f}", flush=True)
        print(f"{isa.name} geometric mean {statistics.geometric_mean(parts):.3f}, least {min(parts):.3f}")


if __name__ == "__main__":
    main(sys.argv[1:])
