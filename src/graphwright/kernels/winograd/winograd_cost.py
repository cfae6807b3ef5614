"""The cost of Winograd convolution on one core."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from graphwright.cost.predict import Work, cycles_ns, overlapped, predict
from graphwright.ir.symbols import Dim, ceildiv, floordiv, maximum, minimum
from graphwright.kernels.winograd.winograd import (
    WinogradArgs,
    output_groups,
    scratch_bytes,
    tiles,
)
from graphwright.kernels.winograd.winograd_transforms import STORED
from graphwright.targets.cpu.isa import Isa

KEPT: Final = 512
"""The number of convolutions whose cost is cached: models repeat layers."""


_EFFICIENCY: Final = {"v3": 94, "v4": 97}
"""Percent of the peak that the products reach."""
_TRANSFORM_CYCLES: Final = {"v3": {4: 420, 2: 130}, "v4": {4: 690, 2: 210}}
"""The cycles of both transforms of a tile of VL channels, by the tile's size."""
_STREAMED: Final = 66
"""The percentage of the memory bandwidth at which weights are read, since they are read in pieces, one per
point.
"""
_MADE_CYCLES: Final = 32
"""The cycles for computing VL weights of a channel at a point that is not packed, for all lines."""


def _points(m: int, pixels: Dim) -> Dim:
    """The points of a line of ``pixels``."""
    # with m = 4, up to 2 remaining pixels take 4 points instead of 6
    last = pixels - (ceildiv(pixels, m) - 1) * m
    return (m + 2) * ceildiv(pixels, m) - (2 * (1 - floordiv(last, 3)) if m == 4 else 0)


@lru_cache(maxsize=KEPT)
def work_ns(m: int, isa: Isa, args: WinogradArgs) -> Dim:
    """The predicted time on one core, in nanoseconds: products while weights are streamed, and both
    transforms.
    """
    machine = isa.machine
    l2, l3, memory = machine.l2.bytes, machine.l3, machine.memory
    in_blocks, out_blocks = ceildiv(args.cin, isa.lanes), ceildiv(args.cout, isa.lanes)
    count = args.phases * tiles(m, args)
    fmas = args.phases * _points(m, args.height) * _points(m, args.width) * args.cin * out_blocks * isa.lanes
    weights = 4 * (m + 2) * STORED * args.cin * out_blocks * isa.lanes
    again = (args.phases * ceildiv(tiles(m, args), args.block_tiles) - 1) * weights
    again *= minimum(1, floordiv(weights, l2))
    kept = minimum(1, floordiv(l3.bytes, maximum(1, weights)))
    read = ceildiv(100 * (weights + (1 - kept) * again), memory.load * _STREAMED)
    stream = read + floordiv(kept * again, l3.load)
    # planes that exceed the L2 cache are written to L3 and reread for each group
    planes = scratch_bytes(m, isa, args) * (1 + output_groups(isa, args.cout))
    passes = floordiv(args.phases * tiles(m, args), maximum(1, args.block_tiles))
    beyond = minimum(1, floordiv(scratch_bytes(m, isa, args), l2))
    stream += beyond * floordiv(planes * passes, l3.moved)
    blocks = args.phases * ceildiv(tiles(m, args), args.block_tiles)
    made_cycles = blocks * args.cin * out_blocks * (m + 2 - STORED) * _MADE_CYCLES
    products = Work(fmas=fmas, efficiency=_EFFICIENCY[isa.name], cycles=made_cycles)
    transforms = floordiv(count * (in_blocks + out_blocks) * _TRANSFORM_CYCLES[isa.name][m], 2)
    return overlapped(predict(products, machine), stream) + cycles_ns(transforms, machine)
