"""Depthwise convolution of blocked activations: y = act(conv(x[n, c], w[c]) + bias[c] + residual), f32.

A vector holds the channels of a block, so each tap of a pixel is one FMA. A tile is a few output pixels of a
row, whose accumulators stay in registers for all taps. Tiles at the sides of an image with horizontal padding
read a copy of their columns together with the padding, in a ring buffer of as many rows as a window spans. So
tiles need no border code, and each row is copied once. For common windows, the loop over columns is unrolled
so that each input vector is loaded once per row of taps. Taps in rows outside the image are skipped.
"""

from __future__ import annotations

from typing import Final

from graphwright.cost.images import blocked_depthwise_work
from graphwright.cost.predict import predict
from graphwright.ir.symbols import Dim, ceildiv, maximum, minimum, mod
from graphwright.kernels.conv.arguments import BlockedOperandArgs, Convolution2dArgs
from graphwright.kernels.library.abi import Abi
from graphwright.kernels.library.extent import (
    BITS,
    STEP,
    Extent,
    Reach,
    Tiles,
    dense,
    stride_bounds,
    window_bounds,
    within,
)
from graphwright.kernels.library.windows import window_span
from graphwright.records import dataclass, replace
from graphwright.targets.cpu.isa import Isa

SYMBOL: Final = "gw_depthwise_blocked_f32"
NHWC_SYMBOL: Final = "gw_depthwise_nhwc_f32"
"""The kernel for channels-last images whose channels fill whole blocks: pixels are ``groups`` elements apart,
and a block is the lanes of one vector.
"""


_BAND: Final = 16
"""Output rows per unit."""

_HOOK_PIXELS: Final = 64
"""A hook receives as many whole rows as reach this number of pixels, 4 KiB with AVX-512."""

_LINE: Final = 16
"""Elements per cache line."""

_AHEAD: Final = 512
"""The prefetch distance to L1 while rows are copied, in elements."""


@dataclass(frozen=True)
class BlockedDepthwiseArgs(BlockedOperandArgs, Convolution2dArgs):
    """The arguments of the kernel: sizes, then strides. Each channel is a group, so ``cin`` and ``cout`` are
    1.
    """


ABI: Final = Abi("blocked_depthwise", ("x", "w", "bias", "residual", "y"), BlockedDepthwiseArgs.names())
"""``w`` [CB, 1, kh, kw, VL] and ``bias`` [CB * VL] are zero padded; ``bias`` and ``residual`` may be absent.
If there is a hook, ``y`` is absent, or is where tiles are stored and where the hook stores its result. The
hook, or a null pointer, comes next: its batch is image * CB + block, its rows are output pixels, its columns
the VL channels. For :data:`NHWC_SYMBOL`, the batch is the image, the columns are all channels, and there is
no residual.
"""


def grid(isa: Isa, args: BlockedDepthwiseArgs) -> Dim:
    """The number of units of work: images, blocks of channels, bands of rows (fastest)."""
    return args.images * ceildiv(args.groups, isa.lanes) * ceildiv(args.oh, _BAND)


def nhwc_grid(isa: Isa, args: BlockedDepthwiseArgs) -> Dim:
    """The grid of :data:`NHWC_SYMBOL`: blocks that share cache lines form one unit."""
    return args.images * ceildiv(args.groups, _line_blocks(isa) * isa.lanes) * ceildiv(args.oh, _BAND)


def _line_blocks(isa: Isa) -> int:
    """Channel blocks per cache line."""
    return max(1, _LINE // isa.lanes)


def nhwc_scratch_bytes(isa: Isa, args: BlockedDepthwiseArgs) -> Dim:
    """:func:`scratch_bytes` for all blocks of a unit."""
    return _line_blocks(isa) * scratch_bytes(isa, args)


def scratch_bytes(isa: Isa, args: BlockedDepthwiseArgs) -> Dim:
    """The bytes of the ring buffer, of the output rows for a hook, and of pointers to the rows of taps."""
    ring = ((args.kh - 1) * args.dilation_h + 1) * _row_pixels(args)
    out = args.ow * minimum(args.oh, ceildiv(_HOOK_PIXELS, maximum(args.ow, 1)))
    return isa.vector_bytes * (ring + out) + 16 * args.kh


def _row_pixels(args: BlockedDepthwiseArgs) -> Dim:
    """The pixels of a padded row that taps read."""
    return window_span(maximum(args.ow, 1), args.stride_w, args.kw, args.dilation_w)


def work_ns(isa: Isa, args: BlockedDepthwiseArgs) -> Dim:
    """The predicted time on one core, in nanoseconds."""
    planes = args.images * ceildiv(args.groups, isa.lanes)
    work = blocked_depthwise_work(isa.lanes, planes * args.oh * args.ow, args.kh * args.kw)
    moved = 4 * isa.lanes * planes * (args.oh * args.ow + args.h * args.w)
    return predict(replace(work, moved=moved), isa.machine)


@dataclass(frozen=True)
class _Columns:
    """How tiles read columns: ``kw`` adjacent taps, unrolled, or 0 for a loop over any taps. ``stride`` is
    that between output pixels, 0 for any.
    """

    kw: int
    stride: int

    @property
    def name(self) -> str:
        return f"columns{self.kw}s{self.stride}"

    def width(self, isa: Isa) -> int:
        """Output pixels of the widest tile: accumulators, the weights of a row of taps, and one input fill
        the registers.
        """
        if self.stride == 0:
            return 4
        if isa.vector_bytes == 64:
            return 14
        return min(12, 16 - self.kw - 2)


_COLUMNS: Final = (
    *(_Columns(3, 1), _Columns(3, 2), _Columns(5, 1), _Columns(5, 2), _Columns(7, 1)),
    *(_Columns(0, 1), _Columns(0, 2), _Columns(0, 0)),
)
"""In order of preference: the first applicable one is used."""


def extents(isa: Isa) -> tuple[Extent, ...]:
    """The memory that both kernels access; rows and columns outside the image are not read."""
    a = BlockedDepthwiseArgs.symbols()
    blocks = ceildiv(a.groups, isa.lanes)
    return (
        _extent(isa, grid(isa, a), Tiles(a.images * blocks, a.oh * a.ow, isa.lanes)),
        _extent(isa, nhwc_grid(isa, a), Tiles(a.images, a.oh * a.ow, a.groups), nhwc=True),
    )


def _extent(isa: Isa, units: Dim, tiles: Tiles, *, nhwc: bool = False) -> Extent:
    a = BlockedDepthwiseArgs.symbols()
    blocks, lanes, pixel = ceildiv(a.groups, isa.lanes), (isa.lanes, 1), a.groups if nhwc else isa.lanes
    x = ((a.images, a.x_n), (blocks, a.x_cb), (a.h, a.x_h), (a.w, pixel), lanes)
    residual = ((a.images, a.r_n), (blocks, a.r_cb), (a.oh, a.r_h), (a.ow, pixel), lanes)
    y = ((a.images, a.y_n), (blocks, a.y_cb), (a.oh, a.y_h), (a.ow, pixel), lanes)
    return Extent(
        NHWC_SYMBOL if nhwc else SYMBOL,
        ABI.args,
        ABI.ordered(
            x=Reach(4, x),
            w=dense(4, blocks * isa.lanes, a.kh * a.kw),
            bias=dense(4, blocks * isa.lanes, optional=True),
            residual=Reach(4, residual, optional=True),
            y=Reach(4, y, in_place=True),
        ),
        grid=units,
        scratch=(nhwc_scratch_bytes if nhwc else scratch_bytes)(isa, a),
        bounds=window_bounds(ABI.args)
        | stride_bounds(ABI.args, "x", "r", "y")
        | within(BITS, "lo", "hi")
        | within(STEP, "kh", "kw"),
        choices={"cin": (1,), "cout": (1,)},
        multiples=(mod(a.groups, isa.lanes),) if nhwc else (),
        tiles=tiles,
    )


def _table(columns: _Columns, isa: Isa) -> str:
    names = ", ".join(f"{columns.name}_{n}" for n in range(1, columns.width(isa) + 1))
    return f"static const tile_fn {columns.name}_of[] = {{{names}}};\n"


def _tile(columns: _Columns, width: int) -> str:
    """The micro-kernel for ``width`` pixels from ``ox`` on. The order of taps in a sum does not depend on the
    width.
    """
    pixels = range(width)
    return "\n".join(
        [
            f"static void {columns.name}_{width}(const struct row *r, int64_t ox) {{",
            "    const float *w = r->w;",
            f"    vf {', '.join(f'c{t} = {{0}}' for t in pixels)};",
            *(_unrolled_taps(columns, width) if columns.kw else _any_taps(columns, width)),
            *(f"    c{t} += r->bias;" for t in pixels),
            "    if (r->add) {",
            "        const float *add = r->add + ox * VL;",
            *(f"        c{t} += vf_load(add + {t} * VL);" for t in pixels),
            "    }",
            "    if (r->act) {",
            *(f"        c{t} = at_least(r->lo, c{t});" for t in pixels),
            "    }",
            "    if (r->act == 2) {",
            *(f"        c{t} = at_most(r->hi, c{t});" for t in pixels),
            "    }",
            "    float *to = r->to + ox * VL;",
            *(f"    vf_store(to + {t} * VL, c{t});" for t in pixels),
            "}",
            "",
        ]
    )


def _unrolled_taps(columns: _Columns, width: int) -> list[str]:
    taps = range(columns.kw)
    lines = [
        f"    for (int64_t i = 0; i < r->taps; i++, w += {columns.kw} * VL) {{",
        f"        const float *x = r->rows[i] + (ox * {columns.stride} * VL - r->left);",
        f"        const vf {', '.join(f'w{j} = vf_load(w + {j} * VL)' for j in taps)};",
    ]
    for p in range((width - 1) * columns.stride + columns.kw):
        reached = [(t, p - t * columns.stride) for t in range(width) if p - t * columns.stride in taps]
        if reached:
            lines += [f"        vf x{p} = vf_load(x + {p} * VL);", f"        HOLD(x{p});"]
            lines += [f"        ADD(c{t}, x{p}, w{j});" for t, j in reached]
    return [*lines, "    }"]


def _any_taps(columns: _Columns, width: int) -> list[str]:
    step = f"{columns.stride} * VL" if columns.stride else "r->step"
    return [
        f"    const int64_t step = {step}, tap = r->tap;",
        "    for (int64_t i = 0; i < r->taps; i++) {",
        "        const float *x = r->rows[i] + (ox * step - r->left);",
        "        for (int64_t j = 0; j < r->kw; j++, x += tap, w += VL) {",
        "            const vf k = vf_load(w);",
        *(f"            c{t} = vf_fma(vf_load(x + {t} * step), k, c{t});" for t in range(width)),
        "        }",
        "    }",
    ]


def header(isa: Isa) -> str:
    """The generated header of ``blocked_depthwise.c``."""
    columns = " ".join(f"C({c.kw}, {c.stride}, {c.width(isa)})" for c in _COLUMNS)
    constants = f"""
#define BAND {_BAND} /* output rows of a unit */
#define HOOK_PIXELS {_HOOK_PIXELS}
#define AHEAD {_AHEAD}
#define LINE_BLOCKS {_line_blocks(isa)} /* blocks of channels in a cache line */
#define COLUMNS(C) {columns} /* taps, stride and pixels of the widest tile; the first that serves is taken */

#include "conv/blocked_depthwise.h"
"""
    tiles = [
        tile
        for c in _COLUMNS
        for tile in (*(_tile(c, n) for n in range(1, c.width(isa) + 1)), _table(c, isa))
    ]
    return "\n".join([ABI.c_text(), constants, *tiles])
