"""Depthwise convolution: y[n, c] = act(conv(x[n, c // cout], w[c]) + bias[c]), f32, any memory order.

A unit of the grid is a band of output rows of one channel. Its input rows are copied to scratch, with
padding, and with columns sorted by their remainder modulo the stride. So every tap reads contiguous elements
for any stride and dilation. Kernels for common windows compute several rows at once, which share loads of
input rows.
"""

from __future__ import annotations

from typing import Final

from graphwright.cost.images import planar_depthwise_work
from graphwright.cost.predict import predict
from graphwright.ir.symbols import Dim, ceildiv, floordiv, maximum, minimum
from graphwright.kernels.conv.arguments import StridedConvolutionArgs
from graphwright.kernels.library.abi import Abi
from graphwright.kernels.library.extent import (
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

SYMBOL: Final = "gw_depthwise_f32"


_BAND: Final = 16
"""Output rows per unit."""


@dataclass(frozen=True)
class DepthwiseArgs(StridedConvolutionArgs):
    """The arguments of the kernel. Each input channel is a group (``cin`` is 1) with ``cout`` output
    channels. Strides are in elements.
    """

    @property
    def channels(self) -> Dim:
        """The number of output channels."""
        return self.groups * self.cout


ABI: Final = Abi("depthwise", ("x", "w", "bias", "y"), DepthwiseArgs.names())
"""``w`` [channels, kd, kh, kw] is not packed; ``bias`` [channels] may be absent; ``y`` is ignored if there is
a hook. The hook, or a null pointer, comes next; a tile is one channel (row) by the pixels of some image rows
(columns).
"""


def grid(args: DepthwiseArgs) -> Dim:
    """The number of units of work: images, channels, planes of the output, bands of rows (fastest)."""
    return args.images * args.channels * args.od * ceildiv(args.oh, _BAND)


def scratch_bytes(isa: Isa, args: DepthwiseArgs) -> Dim:
    """The bytes of the input rows of a band, and of its output rows for one plane of taps and in total."""
    band = minimum(args.oh, _BAND)
    rows = window_span(band, args.stride_h, args.kh, args.dilation_h)
    last_tap = floordiv((args.kw - 1) * args.dilation_w, args.stride_w)
    columns = (ceildiv(args.ow, isa.lanes) + ceildiv(last_tap, isa.lanes) + 2) * isa.lanes
    planes = 1 + minimum(1, maximum(args.kd, 1) - 1)
    return 4 * (rows * args.stride_w * columns + planes * band * args.ow)


def work_ns(isa: Isa, args: DepthwiseArgs) -> Dim:
    """The predicted time on one core, in nanoseconds."""
    planes = args.images * args.channels * args.od
    vectors = planes * args.oh * ceildiv(args.ow, isa.lanes)
    work = planar_depthwise_work(planes, vectors, args.taps)
    moved = 4 * args.images * args.channels * (args.pixels + args.d * args.h * args.w)
    return predict(replace(work, moved=moved), isa.machine)


@dataclass(frozen=True)
class _Window:
    """A window of ``size`` x ``size`` with equal strides and no dilation; ``rows`` output rows at once."""

    size: int
    stride: int
    rows: int

    @property
    def name(self) -> str:
        return f"{self.size}x{self.size}s{self.stride}"

    def weight(self, i: int, j: int) -> str:
        """The weight of a tap in all lanes: in a register, or loaded at each use if there are too many."""
        return f"w{i}_{j}" if self.size <= 5 else f"vf_set1(b->w[{i * self.size + j}])"


_WINDOWS: Final = (_Window(3, 1, 4), _Window(3, 2, 2), _Window(5, 1, 4), _Window(5, 2, 2), _Window(7, 1, 4))


def extents(isa: Isa) -> tuple[Extent, ...]:
    """The memory that :data:`SYMBOL` accesses: taps outside the image are not read."""
    a = DepthwiseArgs.symbols()
    x = ((a.images, a.x_n), (a.groups, a.x_c), (a.d, a.x_d), (a.h, a.x_h), (a.w, a.x_w))
    y = ((a.images, a.y_n), (a.channels, a.y_c), (a.od, a.y_d), (a.oh, a.y_h), (a.ow, a.y_w))
    return (
        Extent(
            SYMBOL,
            ABI.args,
            ABI.ordered(
                x=Reach(4, x),
                w=dense(4, a.channels, a.taps),
                bias=dense(4, a.channels, optional=True),
                y=Reach(4, y, unhooked=True),
            ),
            grid=grid(a),
            scratch=scratch_bytes(isa, a),
            bounds=window_bounds(ABI.args)
            | stride_bounds(ABI.args, "x", "y")
            | within(STEP, "groups", "cout", "kd", "kh", "kw"),
            choices={"cin": (1,)},
            tiles=Tiles(a.images, a.channels, a.pixels),
        ),
    )


def _band(window: _Window) -> str:
    """The function for one window: ``rows`` output rows at once, then fewer for the rest."""
    size = window.size
    weights = "\n".join(
        f"    const vf {', '.join(f'w{i}_{j} = vf_set1(b->w[{i * size + j}])' for j in range(size))};"
        for i in range(size)
        if size <= 5
    )
    steps = "\n".join(
        f"    for (; row + {rows} <= b->rows; row += {rows}) {{\n{_rows(window, rows)}\n    }}"
        for rows in (4, 2, 1)
        if rows <= window.rows
    )
    return f"""\
static void band_{window.name}(const struct band *b) {{
{weights}
    int64_t row = 0;
{steps}
}}
"""


def _rows(window: _Window, rows: int) -> str:
    """One step of ``rows`` output rows: each input vector is loaded once for all of them."""
    size, stride = window.size, window.stride
    lines = [
        f"const float *in = b->planes + row * {stride} * b->row_pitch;",
        "float *to = b->to + row * b->to_ld;",
        "for (int64_t x = 0; x < b->ow; x += VL, in += VL, to += VL) {",
        f"    vf {', '.join(f'y{r} = {{0}}' for r in range(rows))};",
    ]
    for i in range((rows - 1) * stride + size):
        for j in range(size):
            plane = f" + {j % stride} * b->plane" if stride > 1 else ""
            reached = [(r, i - r * stride) for r in range(rows) if 0 <= i - r * stride < size]
            lines += [
                "    {",
                f"        const vf v = vf_load(in + {i} * b->row_pitch{plane} + {j // stride});",
            ]
            lines += [f"        y{r} = vf_fma({window.weight(k, j)}, v, y{r});" for r, k in reached]
            lines += ["    }"]
    lines += [f"    finish(b, x, y{r}, to + {r} * b->to_ld);" for r in range(rows)]
    return "\n".join(" " * 8 + line for line in [*lines, "}"])


def header(isa: Isa) -> str:
    """The generated header of ``depthwise.c``."""
    windows = " ".join(f"W({window.size}, {window.stride})" for window in _WINDOWS)
    constants = f"""
#define BAND {_BAND} /* output rows of a unit */
#define WINDOWS(W) {windows} /* sizes and strides with specialized functions */

#include "conv/depthwise.h"
"""
    return "\n".join([ABI.c_text(), constants, *map(_band, _WINDOWS)])
