"""Channels of one blocked f32 value to a place among the channels of another: concat, split and slice.

Called once per input of a concat, or per output of a split. Where both places have the same remainder modulo
VL whole vectors are copied; else every vector of y takes the end of one vector of x and the beginning of the
vector of the next block. Only the lanes of the copied channels are written.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from graphwright.ir.symbols import Dim, ceildiv, floordiv, symbol
from graphwright.kernels.library.extent import SIGNED, Extent, Reach, within
from graphwright.kernels.library.tile import HELPERS
from graphwright.targets.cpu.isa import Isa, args_struct, prelude

SYMBOL: Final = "gw_copy_channels_blocked_f32"

OPERANDS: Final = ("x", "y")

_CHUNK: Final = 1024
"""Pixels per unit: 64 KiB under AVX-512."""


class CopyChannelsArgs(NamedTuple):
    """The kernel's args in ABI order; strides in elements, of images, blocks of channels and rows."""

    images: Dim
    channels: Dim
    """How many are copied."""
    h: Dim
    w: Dim
    x_first: Dim
    """The first channel that is read, of those of x."""
    y_first: Dim
    """Where it goes, among those of y."""
    x_n: Dim
    x_cb: Dim
    x_h: Dim
    y_n: Dim
    y_cb: Dim
    y_h: Dim


def grid(isa: Isa, args: CopyChannelsArgs) -> Dim:
    """Units of work: images, blocks of y that are written to, chunks of pixels (fastest)."""
    blocks = ceildiv(args.y_first + args.channels, isa.lanes) - floordiv(args.y_first, isa.lanes)
    return args.images * blocks * ceildiv(args.h * args.w, _CHUNK)


def scratch_bytes(isa: Isa, args: CopyChannelsArgs) -> Dim:
    """None."""
    return 0


def work_ns(isa: Isa, args: CopyChannelsArgs) -> Dim:
    """Time on one core: 8 bytes a nanosecond, in and out together."""
    return args.images * args.h * args.w * args.channels


def extents(isa: Isa) -> tuple[Extent, ...]:
    """How far :data:`SYMBOL` reaches: whole blocks."""
    a = CopyChannelsArgs(*map(symbol, CopyChannelsArgs._fields))
    x_blocks, y_blocks = (ceildiv(first + a.channels, isa.lanes) for first in (a.x_first, a.y_first))
    pixels = (a.w * isa.lanes, 1)
    return (
        Extent(
            SYMBOL,
            CopyChannelsArgs._fields,
            (
                Reach(4, ((a.images, a.x_n), (x_blocks, a.x_cb), (a.h, a.x_h), pixels)),
                Reach(4, ((a.images, a.y_n), (y_blocks, a.y_cb), (a.h, a.y_h), pixels)),
            ),
            grid=grid(isa, a),
            bounds=within(SIGNED, *CopyChannelsArgs._fields[6:]),
        ),
    )


def source(isa: Isa) -> str:
    """One C11 file with :data:`SYMBOL`."""
    fields = args_struct(CopyChannelsArgs._fields)
    constants = f"#define CHUNK {_CHUNK} /* pixels of a unit */\n"
    return "\n".join([prelude(isa), constants, fields, HELPERS, _BODY.replace("@SYMBOL@", SYMBOL)])


_BODY: Final = """
/* Some lanes of a block of y: first_n from one block of x, then second_n from the next. */
struct lanes {
    const float *first, *second;
    float *y;
    int64_t first_n, second_n;
};

static void copy_pixels(const struct lanes *l, int64_t x, int64_t y, int64_t n) {
    const float *first = l->first + x, *second = l->second + x;
    float *to = l->y + y;
    const int64_t n1 = l->first_n, n2 = l->second_n;
    if (n1 == VL) {
        for (int64_t i = 0; i < n * VL; i += VL)
            vf_store(to + i, vf_load(first + i));
        return;
    }
    if (n2 == 0) {
        for (int64_t i = 0; i < n * VL; i += VL)
            vf_store_n(to + i, vf_load_n(first + i, n1), n1);
        return;
    }
    for (int64_t i = 0; i < n * VL; i += VL) {
        vf_store_n(to + i, vf_load_n(first + i, n1), n1);
        vf_store_n(to + i + n1, vf_load_n(second + i, n2), n2);
    }
}

GW_EXPORT int32_t @SYMBOL@(void *const *buf, const int64_t *arg, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    const float *const x = buf[0];
    float *const y = buf[1];
    struct args s;
    memcpy(&s, arg, sizeof s);
    if (s.x_h == s.w * VL && s.y_h == s.w * VL) {
        s.w *= s.h; /* the pixels are one row */
        s.h = 1;
    }
    const int64_t first_block = s.y_first / VL, blocks = parts(s.y_first + s.channels, VL) - first_block;
    const int64_t pixels = s.h * s.w, chunks = parts(pixels, CHUNK);
    for (; begin < end; begin++) {
        const int64_t plane = quotient(begin, chunks), chunk = begin - plane * chunks;
        const int64_t image = quotient(plane, blocks), block = first_block + plane - image * blocks;
        const int64_t from = block * VL > s.y_first ? block * VL : s.y_first;
        const int64_t count = smaller((block + 1) * VL, s.y_first + s.channels) - from;
        const int64_t channel = from - s.y_first + s.x_first, lane = channel % VL;
        const float *block_x = x + image * s.x_n + channel / VL * s.x_cb;
        const struct lanes l = {
            .first = block_x + lane,
            .second = block_x + s.x_cb,
            .y = y + image * s.y_n + block * s.y_cb + (from - block * VL),
            .first_n = smaller(count, VL - lane),
            .second_n = count - smaller(count, VL - lane),
        };
        const int64_t last = cut(pixels, chunk + 1, chunks);
        for (int64_t at = cut(pixels, chunk, chunks), n; at < last; at += n) {
            const int64_t row = quotient(at, s.w), column = at - row * s.w;
            n = smaller(s.w - column, last - at);
            copy_pixels(&l, row * s.x_h + column * VL, row * s.y_h + column * VL, n);
        }
    }
    return 0;
}
"""
