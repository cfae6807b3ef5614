"""Row-major f32 activations to and from channel blocks: [N, C, H, W] <-> [N, ceil(C / VL), H, W, VL].

A unit of the grid is a block of channels by a chunk of pixels. Squares of VL channels x VL pixels are
transposed in registers; the last square of a row overlaps the one before it, so that only rows shorter than
a vector need masks. The channels that a last block lacks are written as zeros.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from graphwright.ir.symbols import Dim, ceildiv, floordiv, symbol
from graphwright.kernels.library.extent import SIGNED, Extent, Reach, within
from graphwright.kernels.library.tile import HELPERS, transpose
from graphwright.targets.cpu.isa import Isa, args_struct, prelude

BLOCK: Final = "gw_block_f32"
"""Row-major to blocked."""
UNBLOCK: Final = "gw_unblock_f32"
"""Blocked to row-major."""

OPERANDS: Final = ("x", "y")

_CHUNK: Final = 1024
"""Pixels per unit: 64 KiB of blocked values under AVX-512."""


class ReblockArgs(NamedTuple):
    """The args of both kernels in ABI order; strides in elements, pixels of a row are neighbours."""

    images: Dim
    channels: Dim
    h: Dim
    w: Dim
    plain_n: Dim
    plain_c: Dim
    plain_h: Dim
    """Strides of images, channels and rows of the row-major operand."""
    blocked_n: Dim
    blocked_cb: Dim
    blocked_h: Dim
    """Strides of images, blocks of channels and rows of the blocked one."""


def grid(isa: Isa, args: ReblockArgs) -> Dim:
    """Units of work: images, blocks of channels, chunks of pixels (fastest)."""
    return args.images * ceildiv(args.channels, isa.lanes) * ceildiv(args.h * args.w, _CHUNK)


def scratch_bytes(isa: Isa, args: ReblockArgs) -> Dim:
    """None."""
    return 0


def work_ns(isa: Isa, args: ReblockArgs) -> Dim:
    """Time on one core: 8 bytes a nanosecond, in and out together."""
    blocked = ceildiv(args.channels, isa.lanes) * isa.lanes
    return floordiv(args.images * args.h * args.w * (args.channels + blocked), 2)


def extents(isa: Isa) -> tuple[Extent, ...]:
    """How far both kernels reach."""
    a = ReblockArgs(*map(symbol, ReblockArgs._fields))
    blocks = ceildiv(a.channels, isa.lanes)
    plain = ((a.images, a.plain_n), (a.channels, a.plain_c), (a.h, a.plain_h), (a.w, 1))
    blocked = ((a.images, a.blocked_n), (blocks, a.blocked_cb), (a.h, a.blocked_h), (a.w * isa.lanes, 1))
    operands = {BLOCK: (plain, blocked), UNBLOCK: (blocked, plain)}
    return tuple(
        Extent(
            name,
            ReblockArgs._fields,
            tuple(Reach(4, axes) for axes in touched),
            grid=grid(isa, a),
            bounds=within(SIGNED, *ReblockArgs._fields[4:]),
        )
        for name, touched in operands.items()
    )


def source(isa: Isa) -> str:
    """One C11 file with :data:`BLOCK` and :data:`UNBLOCK`."""
    fields = args_struct(ReblockArgs._fields)
    constants = f"#define CHUNK {_CHUNK} /* pixels of a unit */\n"
    body = _BODY.replace("@BLOCK@", BLOCK).replace("@UNBLOCK@", UNBLOCK)
    return "\n".join([prelude(isa), constants, fields, HELPERS, transpose(isa), body])


_BODY: Final = """
/* n pixels of a row of some channels, 1 <= channels <= VL. */
typedef void (*row_fn)(float *plain, int64_t plain_c, float *blocked, int64_t channels, int64_t n);

static void block_row(float *plain, int64_t plain_c, float *blocked, int64_t channels, int64_t n) {
    if (n < VL) {
        if (n == 1 && plain_c == 1)
            vf_store(blocked, vf_load_n(plain, channels));
        else
            transpose(plain, plain_c, channels, n, blocked, VL);
        return;
    }
    for (int64_t i = 0; i < n; i += VL) {
        const int64_t at = smaller(i, n - VL);
        transpose(plain + at, plain_c, channels, VL, blocked + at * VL, VL);
    }
}

static void unblock_row(float *plain, int64_t plain_c, float *blocked, int64_t channels, int64_t n) {
    if (n < VL) {
        float part[VL * VL] __attribute__((aligned(64)));
        if (n == 1 && plain_c == 1) {
            vf_store_n(plain, vf_load_n(blocked, channels), channels);
            return;
        }
        transpose(blocked, VL, n, channels, part, VL);
        for (int64_t c = 0; c < channels; c++)
            vf_store_n(plain + c * plain_c, vf_load(part + c * VL), n);
        return;
    }
    for (int64_t i = 0; i < n; i += VL) {
        const int64_t at = smaller(i, n - VL);
        transpose(blocked + at * VL, VL, VL, channels, plain + at, plain_c);
    }
}

/* Images of one pixel: a unit is so short that finding its place would take longer. */
GW_INLINE void pixel(float *plain, float *blocked, const struct args *s, int64_t begin, int64_t end,
                     row_fn row) {
    const int64_t blocks = parts(s->channels, VL);
    int64_t image = quotient(begin, blocks), block = begin - image * blocks;
    for (; begin < end; begin++) {
        row(plain + image * s->plain_n + block * VL * s->plain_c, s->plain_c,
            blocked + image * s->blocked_n + block * s->blocked_cb, smaller(s->channels - block * VL, VL), 1);
        if (++block == blocks) {
            block = 0;
            image++;
        }
    }
}

GW_INLINE void run(float *plain, float *blocked, const int64_t *arg, int64_t begin, int64_t end, row_fn row) {
    struct args s;
    memcpy(&s, arg, sizeof s);
    if (s.plain_h == s.w && s.blocked_h == s.w * VL) {
        s.w *= s.h; /* the pixels are one row */
        s.h = 1;
    }
    const int64_t pixels = s.h * s.w, chunks = parts(pixels, CHUNK), blocks = parts(s.channels, VL);
    if (pixels == 1) {
        pixel(plain, blocked, &s, begin, end, row);
        return;
    }
    for (; begin < end; begin++) {
        const int64_t plane = quotient(begin, chunks), chunk = begin - plane * chunks;
        const int64_t image = quotient(plane, blocks), block = plane - image * blocks;
        const int64_t channels = smaller(s.channels - block * VL, VL), last = cut(pixels, chunk + 1, chunks);
        float *const from = plain + image * s.plain_n + block * VL * s.plain_c;
        float *const to = blocked + image * s.blocked_n + block * s.blocked_cb;
        for (int64_t at = cut(pixels, chunk, chunks), n; at < last; at += n) {
            const int64_t y = quotient(at, s.w), x = at - y * s.w;
            n = smaller(s.w - x, last - at);
            row(from + y * s.plain_h + x, s.plain_c, to + y * s.blocked_h + x * VL, channels, n);
        }
    }
}

GW_EXPORT int32_t @BLOCK@(void *const *buf, const int64_t *arg, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    run(buf[0], buf[1], arg, begin, end, block_row);
    return 0;
}

GW_EXPORT int32_t @UNBLOCK@(void *const *buf, const int64_t *arg, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    run(buf[1], buf[0], arg, begin, end, unblock_row);
    return 0;
}
"""
