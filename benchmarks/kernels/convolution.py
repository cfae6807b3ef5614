"""Compares the kernels of convolutions with the FMA limit:
``python -m benchmarks.kernels.convolution [v3|v4] [direct|im2col|depthwise]``.

The shapes are those of resnet50; those of depthwise convolutions are of mobilenet_v2, and two are windows of
5x5. ``direct`` reads channel-blocked images except for the first, the others read planes. A line shows
GFLOP/s, and the fraction of the rate of an FMA loop that is measured right before and after, in CPU time. The
fraction is the median of the best quarter of such pairs, because a busy hyperthread slows the kernel more
than the loop. The last line of each kernel has the geometric mean of the fractions.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Final, NamedTuple

from benchmarks.kernels.calls import call, library, room, scratch_room
from benchmarks.limits import fma_gflops, thread_seconds
from graphwright.kernels.conv import conv, depthwise, direct
from graphwright.records import replace
from graphwright.runtime.devices.this_cpu import usable_isas
from graphwright.targets.cpu.isa import ISAS, Isa

_PATIENCE: Final = 1.5
"""Seconds of wall time for one shape."""


class Shape(NamedTuple):
    """``cin`` channels of a group to ``cout`` channels of a square image; a square window, pads of half its
    size.
    """

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
    """The 23 shapes of ResNet-50, in order."""
    yield Shape(3, 64, 224, 7, 2)
    yield from (Shape(64, 64, 56), Shape(64, 64, 56, 3), Shape(64, 256, 56), Shape(256, 64, 56))
    for width, size in ((128, 56), (256, 28), (512, 14)):
        yield Shape(2 * width, width, size)
        yield Shape(width, width, size, 3, 2)
        yield Shape(width, 4 * width, size // 2)
        yield Shape(2 * width, 4 * width, size, 1, 2)
        yield Shape(4 * width, width, size // 2)
        yield Shape(width, width, size // 2, 3)


def mobilenet_v2() -> Iterable[Shape]:
    """Depthwise convolutions of MobileNetV2 with 3x3 windows, then some with 5x5."""
    for channels, size, stride in ((32, 112, 1), (96, 112, 2), (144, 56, 1), (144, 56, 2), (192, 28, 1)):
        yield Shape(1, channels, size, 3, stride)
    yield from (Shape(1, 384, 14, 3), Shape(1, 960, 7, 3), Shape(1, 120, 28, 5), Shape(1, 240, 28, 5, 2))


def direct_call(isa: Isa, shape: Shape) -> Callable[[], None]:
    """A run of the direct kernel on channel-blocked images; a few channels are read from planes."""
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
    return call(kernel, operands, args, direct.grid(isa, args), scratch_room(scratch))


def im2col_call(isa: Isa, shape: Shape) -> Callable[[], None]:
    """A run of the im2col kernel on planes."""
    cin, cout, size, k, _ = shape
    planes = *_planes(cin, size), *_planes(cout, shape.out)
    args = conv.ConvArgs(*(*_sizes(shape, 1), *planes, 0, 1, 1))
    args = replace(args, block_panels=conv.block_panels(isa, args))
    args = replace(args, unit_tiles=conv.unit_tiles(isa, args))
    rows = conv.panel_rows(isa)
    operands = [
        room(cin * size**2, 0),
        room(-(-cout // rows) * rows * cin * k * k, 256),
        room(cout, 512),
        room(cout * shape.out**2, 768),
    ]
    scratch = scratch_room(conv.scratch_bytes(isa, args))
    return call(library(conv, isa)[conv.SYMBOL], operands, args, conv.grid(isa, args), scratch)


def depthwise_call(isa: Isa, shape: Shape) -> Callable[[], None]:
    """A run of the depthwise kernel on planes: ``cout`` groups of one channel."""
    _, channels, size, k, _ = shape
    planes = *_planes(channels, size), *_planes(channels, shape.out)
    args = depthwise.DepthwiseArgs(*(*_sizes(shape._replace(cout=1), channels), *planes, 0))
    operands = [
        room(channels * size**2, 0),
        room(channels * k * k, 256),
        room(channels, 512),
        room(channels * shape.out**2, 768),
    ]
    scratch = scratch_room(depthwise.scratch_bytes(isa, args))
    return call(library(depthwise, isa)[depthwise.SYMBOL], operands, args, depthwise.grid(args), scratch)


def _sizes(shape: Shape, groups: int) -> tuple[int, ...]:
    """The arguments of a convolution of one image up to the strides of its operands."""
    cin, cout, size, k, stride = shape
    image, pads = (1, size, size, 1, shape.out, shape.out, 1, k, k), (0, k // 2, k // 2)
    return (1, groups, cin, cout, *image, 1, stride, stride, *pads, 1, 1, 1)


def _planes(channels: int, size: int) -> tuple[int, ...]:
    return (channels * size**2, size**2, 0, size, 1)


KERNELS: Final = {
    "direct": (direct_call, resnet50),
    "im2col": (im2col_call, resnet50),
    "depthwise": (depthwise_call, mobilenet_v2),
}


def measure(run: Callable[[], None], flops: float, isa: Isa) -> tuple[float, float]:
    """The highest GFLOP/s, and its share of the limit."""
    run()
    limits, speeds = [fma_gflops(isa, 1)], list[float]()
    begin = time.monotonic()
    while len(speeds) < 8 or time.monotonic() - begin < _PATIENCE:
        speeds.append(flops / thread_seconds(run) / 1e9)
        limits.append(fma_gflops(isa, 1))
    parts = [speed / ((a + b) / 2) for speed, (a, b) in zip(speeds, pairwise(limits), strict=True)]
    best = sorted(parts)[-max(1, len(parts) // 4) :]
    return max(speeds), statistics.median(best)


def main(arguments: list[str]) -> None:
    """Prints a line per shape."""
    isas = [isa for name, isa in ISAS.items() if name in arguments] or [ISAS[usable_isas()[-1]]]
    for isa in isas:
        for name in [name for name in KERNELS if name in arguments] or KERNELS:
            kernel_call, shapes = KERNELS[name]
            parts = []
            for shape in shapes():
                speed, part = measure(kernel_call(isa, shape), shape.flops, isa)
                parts.append(part)
                print(f"{isa.name} {name:9} {shape!s:24} {speed:6.0f} GFLOP/s {part:5.2f}", flush=True)
            mean = f"geometric mean {statistics.geometric_mean(parts):.3f}, least {min(parts):.3f}"
            print(f"{isa.name} {name:9} {mean}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
