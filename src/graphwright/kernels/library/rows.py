"""What the kernels that move elements share: rows of elements of 1, 2, 4, 8 or 16 bytes as C, and how much
of the work a unit of the grid has.

Each of these kernels takes the grid as an argument and splits its own blocks evenly over it, because how many
blocks there are depends on which axes merge at run time.
"""

from __future__ import annotations

from typing import Final

from graphwright.ir.symbols import Dim, ceildiv, minimum
from graphwright.kernels.library import strided
from graphwright.targets.cpu.isa import Isa

MAX_RANK: Final = 8
"""Axes of a strided operand."""
ELEMENT_SIZES: Final = (1, 2, 4, 8, 16)
"""Bytes of an element: all that the kernels know of it."""
BYTES_PER_NS: Final = 8
"""Speed on one core, in and out together."""
_SHARE_BYTES: Final = 1 << 14
_MAX_SHARES: Final = 256
SHARES: Final = (0, _MAX_SHARES)
"""What the grid of a kernel that takes it as an argument may be."""


def shares(byte_count: Dim) -> Dim:
    """The grid of a kernel that writes ``byte_count`` bytes."""
    return minimum(ceildiv(byte_count, _SHARE_BYTES), _MAX_SHARES)


def pad_left(dims: tuple[Dim, ...], fill: Dim) -> tuple[Dim, ...]:
    """``MAX_RANK`` dims, ``fill`` before those given. Raises ValueError where there are more."""
    if len(dims) > MAX_RANK:
        raise ValueError(f"{len(dims)} axes: the copy kernels take at most {MAX_RANK}")
    return (fill,) * (MAX_RANK - len(dims)) + dims


def element_type(size: int) -> str:
    """The C type ``e{size}`` of an element, which may alias any other."""
    if size == 16:
        return "typedef struct { uint64_t half[2]; } __attribute__((may_alias)) e16;"
    return f"typedef uint{8 * size}_t e{size} __attribute__((may_alias));"


def c_text(isa: Isa) -> str:
    """``share``, ``move_run``, and the ``block_copy`` of each element size, ``ROWS[size_index(size)]``."""
    elements = (_rows(size, isa) for size in ELEMENT_SIZES)
    return "\n".join([_RUNS, *elements, _TABLE])


def _rows(size: int, isa: Isa) -> str:
    if size == 16:
        text = "\n".join([element_type(size), _FILL_PLAIN, _ANY_STEP, _ROWS])
    else:
        steps = strided.c_text(size, isa)
        text = "\n".join([element_type(size), _vector_types(size, isa), _FILL, steps, _ROWS])
    return text.replace("@S@", str(size)).replace("@W@", str(isa.vector_bytes))


def _vector_types(size: int, isa: Isa) -> str:
    """``t{size}x{width}``: vectors of 16 bytes and of the register's width, aligned and anywhere."""
    lines = []
    for width in (16, isa.vector_bytes):
        name, lane = f"t{size}x{width}", f"uint{8 * size}_t"
        lines += [
            f"typedef {lane} {name} __attribute__((vector_size({width})));",
            f"typedef {lane} {name}_any __attribute__((vector_size({width}), aligned({size}), may_alias));",
        ]
    return "\n".join(lines)


_RUNS: Final = """
enum { RANK = 8, BLOCK_BYTES = 1 << 14, LINE_BYTES = 64 };

/* Short runs: a call of memcpy takes as long as moving 256 bytes. */
GW_INLINE void move_run(char *to, const char *from, int64_t bytes) {
    enum { W = sizeof(vi) };
    if (bytes < W || bytes > 1024) {
        memcpy(to, from, (size_t)bytes);
        return;
    }
    vi last = vi_load((const int32_t *)(from + bytes - W));
    for (int64_t i = 0; i < bytes - W; i += W)
        vi_store((int32_t *)(to + i), vi_load((const int32_t *)(from + i)));
    vi_store((int32_t *)(to + bytes - W), last);
}
/* The part [first, last) of count that belongs to shares [begin, end) of grid. */
GW_INLINE void share(int64_t count, int64_t grid, int64_t begin, int64_t end, int64_t *first, int64_t *last) {
    int64_t each = count / grid, rest = count % grid;
    *first = each * begin + (begin < rest ? begin : rest);
    *last = each * end + (end < rest ? end : rest);
}

/* A block of rows x cols elements: dst + i * d[0] + j * d[1] = src + i * s[0] + j * s[1]. */
typedef void block_copy(char *dst, const int64_t *d, const char *src, const int64_t *s, int64_t rows,
                        int64_t cols);
"""

_ROWS: Final = """
/* Row by row, whatever the strides. */
static void rows_@S@(char *dst, const int64_t *d, const char *src, const int64_t *s, int64_t rows,
                     int64_t cols) {
    if (d[1] == @S@ && s[1] == @S@ && cols * @S@ >= 32) {
        for (int64_t i = 0; i < rows; i++)
            move_run(dst + i * d[0], src + i * s[0], cols * @S@);
        return;
    }
    if (d[0] == @S@ && d[1] == rows * @S@ && s[1] == @S@ && woven_@S@(dst, src, s[0], rows, cols)) return;
    for (int64_t i = 0; i < rows; i++) {
        char *to = dst + i * d[0];
        const char *from = src + i * s[0];
        if (d[1] == @S@ && s[1] == 0) {
            fill_@S@(to, *(const e@S@ *)from, cols);
        } else if (d[1] == @S@ && strided_@S@(to, from, s[1], cols)) {
            continue;
        } else if (d[1] == @S@) {
            for (int64_t j = 0; j < cols; j++)
                ((e@S@ *)to)[j] = *(const e@S@ *)(from + j * s[1]);
        } else {
            for (int64_t j = 0; j < cols; j++)
                *(e@S@ *)(to + j * d[1]) = *(const e@S@ *)(from + j * s[1]);
        }
    }
}
"""

_FILL_PLAIN: Final = """
GW_INLINE void fill_@S@(char *to, e@S@ value, int64_t n) {
    for (int64_t j = 0; j < n; j++)
        ((e@S@ *)to)[j] = value;
}
"""

_ANY_STEP: Final = """
GW_INLINE int strided_@S@(char *to, const char *from, int64_t s, int64_t n) {
    return (void)to, (void)from, (void)s, (void)n, 0;
}
GW_INLINE int woven_@S@(char *to, const char *from, int64_t s, int64_t rows, int64_t n) {
    return (void)to, (void)from, (void)s, (void)rows, (void)n, 0;
}
"""

_FILL: Final = """
/* Whole vectors; the last one ends where the run does. */
GW_INLINE void fill_@S@(char *to, e@S@ value, int64_t n) {
    enum { L = @W@ / @S@ };
    t@S@x@W@ all = (t@S@x@W@){0} + value;
    int64_t j = 0;
    for (; j + L <= n; j += L)
        *(t@S@x@W@_any *)(to + j * @S@) = all;
    if (j < n && n >= L)
        *(t@S@x@W@_any *)(to + (n - L) * @S@) = all;
    else
        for (; j < n; j++)
            ((e@S@ *)to)[j] = value;
}
"""

_TABLE: Final = """
static int size_index(int64_t size) {
    return size == 1 ? 0 : size == 2 ? 1 : size == 4 ? 2 : size == 8 ? 3 : 4;
}

static block_copy *const ROWS[] = {rows_1, rows_2, rows_4, rows_8, rows_16};
"""
