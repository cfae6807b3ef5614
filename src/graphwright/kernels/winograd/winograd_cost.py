"""The cost of Winograd convolution on one core, compared with direct convolution."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, Literal

from graphwright.cost.images import bf16_direct_work, direct_work
from graphwright.cost.predict import Work, cycles_ns, overlapped, predict
from graphwright.ir.symbols import Dim, ceildiv, evaluate, floordiv, maximum, minimum, numbers
from graphwright.kernels.winograd.winograd import (
    Conv3x3,
    WinogradArgs,
    dense_args,
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


def _direct_ns(isa: Isa, conv: Conv3x3, in_bf16: bool = False) -> Dim:
    """The predicted time of direct convolution for the same sizes."""
    pixels = conv.images * conv.oh * conv.ow
    if in_bf16:
        return predict(bf16_direct_work(isa.lanes, pixels, conv.cin, conv.cout, 9, pixels), isa.machine)
    return predict(direct_work(isa.lanes, pixels, conv.cout, 9 * conv.cin), isa.machine)


def pays(m: int, isa: Isa, args: WinogradArgs) -> Dim:
    """1 if the kernel is predicted to be faster than direct convolution, else 0; for sizes known only at run
    time.
    """
    cin, cout = numbers((args.cin, args.cout))
    direct = _direct_ns(isa, Conv3x3(args.images, cin, cout, args.oh, args.ow))
    return minimum(1, maximum(0, direct - work_ns(m, isa, args)))


@lru_cache(maxsize=KEPT)
def ranked(isa: Isa, conv: Conv3x3, in_bf16: bool = False) -> Mapping[Literal["direct", 2, 4], int]:
    """The predicted nanoseconds of direct convolution and of Winograd with 2 x 2 and 4 x 4 tiles on dense
    blocked images of static sizes, fastest first. ``in_bf16``: the direct convolution is in bf16.
    """
    costs: dict[Literal["direct", 2, 4], Dim] = {"direct": _direct_ns(isa, conv, in_bf16)}
    forms: tuple[Literal[2, 4], ...] = (2, 4)
    for m in forms:
        costs[m] = work_ns(m, isa, dense_args(m, isa, conv, pads=(1, 1, 1, 1)))
    known = {form: evaluate(cost, {}) for form, cost in costs.items()}
    return {form: known[form] for form in sorted(known, key=known.__getitem__)}
