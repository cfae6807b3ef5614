"""What Winograd convolution costs on a core, and where it beats direct convolution."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, Literal

from graphwright.ir.symbols import Dim, ceildiv, evaluate, floordiv, maximum, minimum
from graphwright.kernels.conv.winograd import (
    L2_BYTES,
    WinogradArgs,
    dense_args,
    output_groups,
    scratch_bytes,
    tiles,
)
from graphwright.kernels.conv.winograd_transforms import STORED
from graphwright.records import dataclass
from graphwright.targets.cpu.isa import Isa

KEPT: Final = 512
"""Convolutions whose cost is kept: those of a model repeat."""


@dataclass(frozen=True)
class _Speeds:
    """What one core does: products in GFLOP/s, nanoseconds to transform a tile of VL channels in and out."""

    gflops: int
    direct_gflops: int
    transforms_ns: dict[int, int]


_SPEEDS: Final = {
    "v4": _Speeds(gflops=125, direct_gflops=133, transforms_ns={4: 300, 2: 90}),
    "v3": _Speeds(gflops=58, direct_gflops=60, transforms_ns={4: 260, 2: 80}),
}
"""Cascade Lake at 2.3 GHz under AVX-512, whose limit is 148 GFLOP/s, and under AVX2."""

_MEMORY_GBS: Final = 12
"""Weights come from memory, since a model's other layers have gone through the caches since. Cascade Lake."""

_MADE_NS: Final = 14
"""To make VL weights of a channel at a point that is not packed, in all lines."""
_L3_GBS: Final = 25
_L3_BYTES: Final = 24 << 20
"""Weights that the L3 cache keeps come from there for the blocks after the first. Cascade Lake, 36 MiB."""


def _overlapped(compute_ns: Dim, stream_ns: Dim) -> Dim:
    """Weights stream by while products are formed; measured, the shorter still costs 0.2 of itself."""
    return maximum(compute_ns, stream_ns) + floordiv(minimum(compute_ns, stream_ns), 5)


def _points(m: int, pixels: Dim) -> Dim:
    """Points of a line of so many pixels."""
    last = pixels - (ceildiv(pixels, m) - 1) * m  # where m is 4, up to 2 pixels take 4 points and not 6
    return (m + 2) * ceildiv(pixels, m) - (2 * (1 - floordiv(last, 3)) if m == 4 else 0)


@lru_cache(maxsize=KEPT)
def work_ns(m: int, isa: Isa, args: WinogradArgs) -> Dim:
    """Time on one core: products and the stream of weights, then both transforms."""
    speeds = _SPEEDS[isa.name]
    in_blocks, out_blocks = ceildiv(args.cin, isa.lanes), ceildiv(args.cout, isa.lanes)
    count = args.images * tiles(m, args)
    flops = 2 * args.images * _points(m, args.oh) * _points(m, args.ow) * args.cin * out_blocks * isa.lanes
    weights = 4 * (m + 2) * STORED * args.cin * out_blocks * isa.lanes
    again = (args.images * ceildiv(tiles(m, args), args.block_tiles) - 1) * weights
    again *= minimum(1, floordiv(weights, L2_BYTES))
    kept = minimum(1, floordiv(_L3_BYTES, maximum(1, weights)))
    stream = ceildiv(weights + (1 - kept) * again, _MEMORY_GBS) + floordiv(kept * again, _L3_GBS)
    # planes that the L2 cache does not hold are written to the next one and read again for each group
    planes = scratch_bytes(m, isa, args) * (1 + output_groups(isa, args.cout))
    passes = floordiv(args.images * tiles(m, args), maximum(1, args.block_tiles))
    beyond = minimum(1, floordiv(scratch_bytes(m, isa, args), L2_BYTES))
    stream += beyond * floordiv(planes * passes, _L3_GBS)
    transforms = floordiv(count * (in_blocks + out_blocks) * speeds.transforms_ns[m], 2)
    blocks = args.images * ceildiv(tiles(m, args), args.block_tiles)
    made = blocks * args.cin * out_blocks * (m + 2 - STORED) * _MADE_NS
    return _overlapped(ceildiv(flops, speeds.gflops) + made, stream) + transforms


def _direct_ns(isa: Isa, images: Dim, cin: int, cout: int, oh: Dim, ow: Dim) -> Dim:
    """What direct convolution of the same sizes takes."""
    outputs = -(-cout // isa.lanes) * isa.lanes
    flops, weights = 18 * images * oh * ow * cin * outputs, 36 * cin * outputs
    return _overlapped(floordiv(flops, _SPEEDS[isa.name].direct_gflops), weights // _MEMORY_GBS)


def pays(m: int, isa: Isa, args: WinogradArgs) -> Dim:
    """1 where the kernel should be faster than direct convolution, else 0; for sizes known at run time."""
    assert isinstance(args.cin, int) and isinstance(args.cout, int)
    direct = _direct_ns(isa, args.images, args.cin, args.cout, args.oh, args.ow)
    return minimum(1, maximum(0, direct - work_ns(m, isa, args)))


@lru_cache(maxsize=KEPT)
def choose(isa: Isa, images: int, cin: int, cout: int, oh: int, ow: int) -> Literal["direct", 2, 4]:
    """Which takes least on dense blocked images: direct, or Winograd with tiles of 2 x 2 or of 4 x 4."""
    costs: dict[Literal["direct", 2, 4], Dim] = {"direct": _direct_ns(isa, images, cin, cout, oh, ow)}
    forms: tuple[Literal[2, 4], ...] = (2, 4)
    for m in forms:
        costs[m] = work_ns(m, isa, dense_args(m, isa, images, cin, cout, oh, ow, pads=(1, 1, 1, 1)))
    return min(costs, key=lambda form: evaluate(costs[form], {}))
