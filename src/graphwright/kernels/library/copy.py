"""Movement of elements of any dtype: strided N-d copies (transposition, slice, concat, expand), padding,
gather.

The kernels know an element only by its size: 1, 2, 4, 8 or 16 bytes. Each takes the grid as an argument and
splits its own blocks evenly over it, because how many blocks there are depends on which axes merge at run
time.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar, Final

from graphwright.ir.symbols import Dim, ceildiv, minimum, product
from graphwright.kernels.library.isa import Isa, prelude

MAX_RANK: Final = 8
ELEMENT_SIZES: Final = (1, 2, 4, 8, 16)
_SHARE_BYTES: Final = 1 << 14
_MAX_SHARES: Final = 256
_BYTES_PER_NS: Final = 8


class PadMode(IntEnum):
    """What an element outside of the source is."""

    CONSTANT = 0
    EDGE = 1
    REFLECT = 2
    WRAP = 3


INDEX_OUT_OF_RANGE: Final = 1
"""The error code of ``gw_gather`` when an index is not in ``[-n, n)``."""


def _shares(byte_count: Dim) -> Dim:
    return minimum(ceildiv(byte_count, _SHARE_BYTES), _MAX_SHARES)


def _pad_left(dims: tuple[Dim, ...], fill: Dim) -> tuple[Dim, ...]:
    if len(dims) > MAX_RANK:
        raise ValueError(f"{len(dims)} axes: the copy kernels take at most {MAX_RANK}")
    return (fill,) * (MAX_RANK - len(dims)) + dims


@dataclass(frozen=True)
class CopyNd:
    """``dst[i] = src[i]`` for every index ``i`` within ``shape``. Operands: src, dst. Strides and offsets in
    elements.

    A source stride may be 0 (expand) or negative; the elements of dst are distinct.
    """

    SYMBOL: ClassVar[str] = "gw_copy_nd"

    element_size: int
    shape: tuple[Dim, ...]
    dst_strides: tuple[Dim, ...]
    src_strides: tuple[Dim, ...]
    dst_offset: Dim = 0
    src_offset: Dim = 0

    @property
    def args(self) -> tuple[Dim, ...]:
        return (
            *(self.element_size, self.grid, self.dst_offset, self.src_offset),
            *_pad_left(self.shape, 1),
            *_pad_left(self.dst_strides, 0),
            *_pad_left(self.src_strides, 0),
        )

    @property
    def grid(self) -> Dim:
        return _shares(product(self.shape) * self.element_size)

    @property
    def scratch_bytes(self) -> Dim:
        return 0

    @property
    def work_ns(self) -> Dim:
        return product(self.shape) * (2 * self.element_size) // _BYTES_PER_NS


@dataclass(frozen=True)
class PadNd:
    """``dst`` of shape ``out_shape`` is ``src`` of ``in_shape`` behind ``before`` pads. Operands: src, fill,
    dst.

    ``before`` may be negative (crop). ``fill`` points at one element, absent for zeros. Reflect and wrap
    repeat as ``numpy.pad`` does when a pad is longer than the axis.
    """

    SYMBOL: ClassVar[str] = "gw_pad_nd"

    element_size: int
    mode: PadMode
    out_shape: tuple[Dim, ...]
    in_shape: tuple[Dim, ...]
    before: tuple[Dim, ...]
    dst_strides: tuple[Dim, ...]
    src_strides: tuple[Dim, ...]

    @property
    def args(self) -> tuple[Dim, ...]:
        return (
            *(self.element_size, self.grid, int(self.mode)),
            *_pad_left(self.out_shape, 1),
            *_pad_left(self.in_shape, 1),
            *_pad_left(self.before, 0),
            *_pad_left(self.dst_strides, 0),
            *_pad_left(self.src_strides, 0),
        )

    @property
    def grid(self) -> Dim:
        return _shares(product(self.out_shape) * self.element_size)

    @property
    def scratch_bytes(self) -> Dim:
        return 0

    @property
    def work_ns(self) -> Dim:
        return product(self.out_shape) * (2 * self.element_size) // _BYTES_PER_NS


@dataclass(frozen=True)
class Gather:
    """``dst[o, k, i] = src[o, indices[k], i]`` for o < outer, k < count, i < inner. Operands: src, indices,
    dst.

    Indices are int32 or int64, dense, and count from the end of the axis (of ``axis_size``) when negative;
    one out of range ends the kernel with ``INDEX_OUT_OF_RANGE``. The ``inner`` elements are contiguous in
    both.
    """

    SYMBOL: ClassVar[str] = "gw_gather"

    element_size: int
    index_size: int
    outer: Dim
    axis_size: Dim
    count: Dim
    inner: Dim
    dst_outer_stride: Dim
    dst_stride: Dim
    src_outer_stride: Dim
    src_stride: Dim

    @property
    def args(self) -> tuple[Dim, ...]:
        return (
            *(self.element_size, self.grid, self.index_size),
            *(self.outer, self.axis_size, self.count, self.inner),
            *(self.dst_outer_stride, self.dst_stride, self.src_outer_stride, self.src_stride),
        )

    @property
    def grid(self) -> Dim:
        return _shares(self.outer * self.count * self.inner * self.element_size)

    @property
    def scratch_bytes(self) -> Dim:
        return 0

    @property
    def work_ns(self) -> Dim:
        return self.outer * self.count * (self.inner * (2 * self.element_size) // _BYTES_PER_NS + 2)


def source(isa: Isa) -> str:
    """One C file with ``gw_copy_nd``, ``gw_pad_nd`` and ``gw_gather``."""
    elements = (_element(size, isa) for size in ELEMENT_SIZES)
    nest = _NEST.replace("@REG@", "v" if isa.vector_bytes == 64 else "x")
    return "\n".join([prelude(isa), nest, *elements, _COPY, _PAD, _GATHER])


def _element(size: int, isa: Isa) -> str:
    """The functions that depend on the element's size: a block of strided rows, and transposition."""
    if size == 16:
        declaration = "typedef struct { uint64_t half[2]; } __attribute__((may_alias)) e16;"
        return "\n".join([declaration, _FILL_PLAIN, _ROWS, _PICK, _TRANSPOSE_PLAIN]).replace("@S@", str(size))
    declaration = f"typedef uint{8 * size}_t e{size} __attribute__((may_alias));"
    widths = [width for width in (16, 32, 64) if width <= isa.vector_bytes]
    vectors = [_vector(size, width) for width in widths]
    tiles = [_transposing_tile(size, width) for width in (16, isa.vector_bytes)]
    text = "\n".join([declaration, *vectors, _FILL, _ROWS, _PICK, *tiles, _TRANSPOSE_TILES])
    return text.replace("@S@", str(size)).replace("@W@", str(isa.vector_bytes))


def _vector(size: int, width: int) -> str:
    """The type of vectors of ``width`` bytes, and their loading in runs of 16 bytes, ``step`` bytes apart."""
    name, half, count = f"t{size}x{width}", f"t{size}x{width // 2}", width // size
    if width == 16:
        body = f"    (void)step;\n    return *(const {name}_any *)p;"
    else:
        every = ", ".join(map(str, range(count)))
        body = (
            f"    {half} a = lanes_{half}(p, step), b = lanes_{half}(p + {width // 32} * step, step);\n"
            f"    return __builtin_shufflevector(a, b, {every});"
        )
    return f"""\
typedef uint{8 * size}_t {name} __attribute__((vector_size({width})));
typedef uint{8 * size}_t {name}_any __attribute__((vector_size({width}), aligned({size}), may_alias));
GW_INLINE {name} lanes_{name}(const char *p, int64_t step) {{
{body}
}}"""


def _transposing_tile(size: int, width: int) -> str:
    """T runs of 16 bytes in each lane of 16 bytes, transposed by perfect shuffles: log2(T) rounds interleave
    register i with register i + T/2."""
    name, runs, count = f"t{size}x{width}", 16 // size, width // size
    half = runs // 2
    low, high = (
        ", ".join(
            f"{lane + k}, {lane + k + count}" for lane in range(first, count, runs) for k in range(half)
        )
        for first in (0, half)
    )
    lines = [
        f"/* {count} x {runs} elements: column a of src (contiguous) becomes row a of dst. */",
        f"GW_INLINE void transpose_{size}x{width}(char *dst, int64_t dst_row, const char *src, "
        "int64_t src_col, int stream) {",
    ]
    lines += [
        f"    {name} r0_{i} = lanes_{name}(src + {i} * src_col, {runs} * src_col);" for i in range(runs)
    ]
    rounds = runs.bit_length() - 1
    for now, after in zip(range(rounds), range(1, rounds + 1), strict=True):
        for i in range(half):
            pair = f"r{now}_{i}, r{now}_{i + half}"
            lines.append(f"    {name} r{after}_{2 * i} = __builtin_shufflevector({pair}, {low});")
            lines.append(f"    {name} r{after}_{2 * i + 1} = __builtin_shufflevector({pair}, {high});")
    for i in range(runs):
        plain = f"*({name}_any *)(dst + {i} * dst_row) = r{rounds}_{i}"
        streamed = f"put_past_caches(dst + {i} * dst_row, (vi)r{rounds}_{i})"
        lines.append(f"    if (stream) {streamed}; else {plain};" if width > 16 else f"    {plain};")
    unused = [] if width > 16 else ["    (void)stream;"]
    return "\n".join([*lines, *unused, "}"])


_NEST: Final = """
/* A transposed block is a cache line by TRANSPOSED elements: a line of src, which writes long runs of dst,
   or, of results of STREAMED_BYTES or more, a line of dst, which goes past the caches. */
enum { RANK = 8, BLOCK_BYTES = 1 << 14, TRANSPOSED = 256, LINE_BYTES = 64, STREAMED_BYTES = 1 << 22 };

/* p is aligned to the vector. */
GW_INLINE void put_past_caches(char *p, vi x) {
    __asm__("vmovntps %1, %0" : "=m"(*(vi_any *)p) : "@REG@"(x));
}
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
/* Streamed stores are seen by other threads after this. */
GW_INLINE void end_stream(void) { __asm__ volatile("sfence" ::: "memory"); }

/* Loops over n[0] .. n[rank-1]; strides in bytes. */
typedef struct {
    int rank;
    int64_t n[RANK], d[RANK], s[RANK];
    char *dst;
    const char *src;
} nest;

/* The part [first, last) of count that belongs to shares [begin, end) of grid. */
GW_INLINE void share(int64_t count, int64_t grid, int64_t begin, int64_t end, int64_t *first, int64_t *last) {
    int64_t each = count / grid, rest = count % grid;
    *first = each * begin + (begin < rest ? begin : rest);
    *last = each * end + (end < rest ? end : rest);
}

/* Drops axes of size 1, turns negative destination strides, orders axes by destination stride, merges
   neighbours. */
static void nest_normalise(nest *t) {
    int kept = 0;
    for (int i = 0; i < t->rank; i++) {
        int64_t n = t->n[i], d = t->d[i], s = t->s[i];
        if (n == 1) continue;
        if (d < 0) {
            t->dst += (n - 1) * d;
            t->src += (n - 1) * s;
            d = -d;
            s = -s;
        }
        int at = kept++;
        for (; at > 0 && t->d[at - 1] < d; at--) {
            t->n[at] = t->n[at - 1];
            t->d[at] = t->d[at - 1];
            t->s[at] = t->s[at - 1];
        }
        t->n[at] = n;
        t->d[at] = d;
        t->s[at] = s;
    }
    int last = 0;
    for (int i = 1; i < kept; i++) {
        if (t->d[last] == t->d[i] * t->n[i] && t->s[last] == t->s[i] * t->n[i]) {
            t->n[last] *= t->n[i];
        } else {
            last++;
            t->n[last] = t->n[i];
        }
        t->d[last] = t->d[i];
        t->s[last] = t->s[i];
    }
    t->rank = kept ? last + 1 : 0;
}

static void nest_swap(nest *t, int a, int b) {
    int64_t n = t->n[a], d = t->d[a], s = t->s[a];
    t->n[a] = t->n[b];
    t->d[a] = t->d[b];
    t->s[a] = t->s[b];
    t->n[b] = n;
    t->d[b] = d;
    t->s[b] = s;
}

static void nest_prepend(nest *t) {
    for (int i = t->rank++; i > 0; i--) {
        t->n[i] = t->n[i - 1];
        t->d[i] = t->d[i - 1];
        t->s[i] = t->s[i - 1];
    }
    t->n[0] = 1;
    t->d[0] = t->s[0] = 0;
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
    for (int64_t i = 0; i < rows; i++) {
        char *to = dst + i * d[0];
        const char *from = src + i * s[0];
        if (d[1] == @S@ && s[1] == 0) {
            fill_@S@(to, *(const e@S@ *)from, cols);
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

_PICK: Final = """
/* dst[k] = src[index k] for k in [first, last); false if one is out of range. */
static int pick_@S@(char *dst, int64_t d, const char *src, int64_t s, const void *indices, int64_t index_size,
                    int64_t axis, int64_t first, int64_t last) {
    const int32_t *narrow = indices;
    const int64_t *wide = indices;
    for (int64_t k = first; k < last; k++) {
        int64_t index = index_size == 4 ? narrow[k] : wide[k];
        index += index < 0 ? axis : 0;
        if ((uint64_t)index >= (uint64_t)axis) return 0;
        *(e@S@ *)(dst + k * d) = *(const e@S@ *)(src + index * s);
    }
    return 1;
}
"""

_TRANSPOSE_PLAIN: Final = """
/* dst contiguous along columns, src along rows: squares of one cache line keep both sides in L1. */
static void transpose_@S@(char *dst, const int64_t *d, const char *src, const int64_t *s, int64_t rows,
                          int64_t cols) {
    enum { LINE = 64 / @S@ };
    for (int64_t i = 0; i < rows; i += LINE)
        for (int64_t j = 0; j < cols; j += LINE)
            rows_@S@(dst + i * d[0] + j * @S@, d, src + i * @S@ + j * s[1], s,
                     rows - i < LINE ? rows - i : LINE, cols - j < LINE ? cols - j : LINE);
}
"""

_TRANSPOSE_TILES: Final = """
/* dst contiguous along columns, src along rows: registers transpose tiles, a line of dst is written at once.
 */
GW_INLINE void tiles_@S@(char *dst, const int64_t *d, const char *src, const int64_t *s, int64_t rows,
                         int64_t cols, int stream) {
    enum { T = 16 / @S@, WIDE = @W@ / @S@ };
    int64_t whole_rows = rows - rows % T, wide_cols = cols - cols % WIDE, whole_cols = cols - cols % T;
    if (stream) { /* a line of dst is complete before the next */
        for (int64_t i = 0; i < whole_rows; i += T)
            for (int64_t j = 0; j < wide_cols; j += WIDE)
                transpose_@S@x@W@(dst + i * d[0] + j * @S@, d[0], src + i * @S@ + j * s[1], s[1], 1);
    } else { /* lines of src are read once */
        for (int64_t j = 0; j < wide_cols; j += WIDE)
            for (int64_t i = 0; i < whole_rows; i += T)
                transpose_@S@x@W@(dst + i * d[0] + j * @S@, d[0], src + i * @S@ + j * s[1], s[1], 0);
    }
    for (int64_t j = wide_cols; j < whole_cols; j += T)
        for (int64_t i = 0; i < whole_rows; i += T)
            transpose_@S@x16(dst + i * d[0] + j * @S@, d[0], src + i * @S@ + j * s[1], s[1], 0);
    if (whole_cols < cols)
        rows_@S@(dst + whole_cols * @S@, d, src + whole_cols * s[1], s, whole_rows, cols - whole_cols);
    if (whole_rows < rows)
        rows_@S@(dst + whole_rows * d[0], d, src + whole_rows * @S@, s, rows - whole_rows, cols);
}
static void transpose_@S@(char *dst, const int64_t *d, const char *src, const int64_t *s, int64_t rows,
                          int64_t cols) {
    tiles_@S@(dst, d, src, s, rows, cols, 0);
}
static void streamed_@S@(char *dst, const int64_t *d, const char *src, const int64_t *s, int64_t rows,
                         int64_t cols) {
    if (((uintptr_t)dst | (uintptr_t)d[0]) % @W@)
        tiles_@S@(dst, d, src, s, rows, cols, 0);
    else
        tiles_@S@(dst, d, src, s, rows, cols, 1);
}
"""

_COPY: Final = """
static int size_index(int64_t size) {
    return size == 1 ? 0 : size == 2 ? 1 : size == 4 ? 2 : size == 8 ? 3 : 4;
}

static block_copy *const ROWS[] = {rows_1, rows_2, rows_4, rows_8, rows_16};
static block_copy *const TRANSPOSE[] = {transpose_1, transpose_2, transpose_4, transpose_8, transpose_16};
static block_copy *const STREAMED[] = {streamed_1, streamed_2, streamed_4, streamed_8, transpose_16};

/* Brings the axis along which src is contiguous next to the one along which dst is; false if there is none.
 */
static int nest_find_transposition(nest *t, int64_t size) {
    int inner = t->rank - 1;
    if (t->d[inner] != size || t->s[inner] == size || t->n[inner] < 4) return 0;
    for (int i = 0; i < inner; i++) {
        if (t->s[i] == size && t->n[i] >= 4) {
            for (; i < inner - 1; i++) /* the other axes keep their order */
                nest_swap(t, i, i + 1);
            return 1;
        }
    }
    return 0;
}

/* Large results, run by run: brings the axis along which src advances least next to the runs, so that src is
   read in order. */
static void nest_follow_source(nest *t, int64_t size) {
    int64_t total = size, near = t->rank - 2;
    for (int i = 0; i < t->rank; i++)
        total *= t->n[i];
    if (total < STREAMED_BYTES) return;
    for (int i = t->rank - 3; i >= 0; i--)
        if (t->s[i] > 0 && t->s[i] < t->s[near]) near = i;
    for (; near < t->rank - 2; near++)
        nest_swap(t, (int)near, (int)near + 1);
}

/* Copies shares [begin, end) of grid, in blocks of the two inner axes. */
static void nest_copy(nest *t, int64_t size, int64_t grid, int64_t begin, int64_t end) {
    for (int i = 0; i < t->rank; i++)
        if (t->n[i] == 0) return;
    nest_normalise(t);
    while (t->rank < 2)
        nest_prepend(t);
    int r = t->rank - 2;
    int transposed = nest_find_transposition(t, size);
    int contiguous = t->d[r + 1] == size && t->s[r + 1] == size;
    if (!transposed && !contiguous && t->n[r] > t->n[r + 1])
        nest_swap(t, r, r + 1); /* the longer loop inside */
    if (contiguous) nest_follow_source(t, size);
    int64_t total = size, shift = 0;
    for (int i = 0; i < t->rank; i++)
        total *= t->n[i];
    int stream = transposed && total >= STREAMED_BYTES;
    block_copy *copy = (!transposed ? ROWS : stream ? STREAMED : TRANSPOSE)[size_index(size)];

    int64_t rows = t->n[r], cols = t->n[r + 1], block_rows = LINE_BYTES / size, block_cols = TRANSPOSED;
    int row_axis = transposed && !stream ? r + 1 : r; /* which of both the blocks' order counts last */
    int col_axis = 2 * r + 1 - row_axis;
    if (stream) {
        block_rows = TRANSPOSED;
        block_cols = LINE_BYTES / size;
    }
    if (!transposed) {
        block_cols = cols * size < BLOCK_BYTES ? cols : BLOCK_BYTES / size;
        block_rows = BLOCK_BYTES / (block_cols * size);
        block_rows = block_rows < 1 ? 1 : block_rows;
    } else {
        int64_t strides = 0;
        for (int i = 0; i <= r; i++)
            strides |= t->d[i];
        if (strides % LINE_BYTES == 0) /* blocks begin with cache lines of dst */
            shift = (int64_t)((uintptr_t)t->dst % LINE_BYTES) / size;
    }
    int64_t counts[RANK], index[RANK], items = 1, first, last;
    for (int i = 0; i < r; i++)
        counts[i] = t->n[i];
    counts[row_axis] = (rows + block_rows - 1) / block_rows;
    counts[col_axis] = (cols + shift + block_cols - 1) / block_cols;
    for (int i = 0; i < r + 2; i++)
        items *= counts[i];
    share(items, grid, begin, end, &first, &last);
    int64_t rest = first;
    for (int i = r + 1; i >= 0; i--) {
        index[i] = rest % counts[i];
        rest /= counts[i];
    }
    for (int64_t item = first; item < last; item++) {
        char *dst = t->dst;
        const char *src = t->src;
        for (int i = 0; i < r; i++) {
            dst += index[i] * t->d[i];
            src += index[i] * t->s[i];
        }
        int64_t row = index[row_axis] * block_rows;
        int64_t col = index[col_axis] * block_cols - shift, stop = col + block_cols;
        col = col < 0 ? 0 : col;
        copy(dst + row * t->d[r] + col * t->d[r + 1], t->d + r, src + row * t->s[r] + col * t->s[r + 1],
             t->s + r, rows - row < block_rows ? rows - row : block_rows, (stop < cols ? stop : cols) - col);
        for (int i = r + 1; i >= 0 && ++index[i] == counts[i]; i--)
            index[i] = 0;
    }
    if (stream) end_stream();
}

/* buf: src, dst. arg: element size, grid, offsets of dst and src, shape[8], dst strides[8], src strides[8].
 */
GW_EXPORT int32_t gw_copy_nd(void *const *buf, const int64_t *arg, int64_t begin, int64_t end,
                             void *scratch) {
    (void)scratch;
    int64_t size = arg[0];
    nest t = {
        .rank = RANK, .dst = (char *)buf[1] + arg[2] * size, .src = (const char *)buf[0] + arg[3] * size};
    for (int i = 0; i < RANK; i++) {
        t.n[i] = arg[4 + i];
        t.d[i] = arg[4 + RANK + i] * size;
        t.s[i] = arg[4 + 2 * RANK + i] * size;
    }
    nest_copy(&t, size, arg[1], begin, end);
    return 0;
}
"""

_PAD: Final = """
enum { CONSTANT, EDGE, REFLECT, WRAP };

/* The source index of position i of an axis of n elements; -1 where the fill stands. */
static int64_t padded_index(int64_t mode, int64_t i, int64_t n) {
    if (i >= 0 && i < n) return i;
    if (mode == CONSTANT || n == 0) return -1;
    if (mode == EDGE || n == 1) return i < 0 ? 0 : n - 1;
    int64_t period = mode == REFLECT ? 2 * (n - 1) : n;
    i %= period;
    i += i < 0 ? period : 0;
    return i < n ? i : period - i;
}

typedef struct {
    int64_t size, mode, n, inside, before, d, s; /* the innermost axis; strides in bytes */
    const char *fill;
} row_pad;

/* Elements [from, to) of a row, one by one. */
static void pad_elements(const row_pad *t, char *dst, const char *src, int64_t from, int64_t to) {
    for (int64_t j = from; j < to; j++) {
        int64_t k = src ? padded_index(t->mode, j - t->before, t->inside) : -1;
        memcpy(dst + j * t->d, k < 0 ? t->fill : src + k * t->s, (size_t)t->size);
    }
}

/* A run of the fill: the rows of a copy whose source stands still. */
GW_INLINE void pad_fill(const row_pad *t, char *dst, int64_t from, int64_t to) {
    int64_t d[2] = {0, t->d}, s[2] = {0, 0};
    if (to - from > 4) {
        ROWS[size_index(t->size)](dst + from * t->d, d, t->fill, s, 1, to - from);
        return;
    }
    for (int64_t j = from; j < to; j++) {
        if (t->size == 4)
            memcpy(dst + j * t->d, t->fill, 4);
        else
            memcpy(dst + j * t->d, t->fill, (size_t)t->size);
    }
}

/* One row; src is NULL where an outer axis stands in its pad. */
static void pad_row(const row_pad *t, char *dst, const char *src) {
    int64_t from = t->before < 0 ? 0 : t->before < t->n ? t->before : t->n;
    int64_t to = t->before + t->inside;
    to = !src || to < from ? from : to < t->n ? to : t->n;
    if (t->mode == CONSTANT || !src) {
        pad_fill(t, dst, 0, from);
        pad_fill(t, dst, to, t->n);
    } else {
        pad_elements(t, dst, src, 0, from);
        pad_elements(t, dst, src, to, t->n);
    }
    int64_t d[2] = {0, t->d}, s[2] = {0, t->s};
    if (to > from && t->d == t->size && t->s == t->size)
        move_run(dst + from * t->d, src + (from - t->before) * t->s, (to - from) * t->size);
    else if (to > from)
        ROWS[size_index(t->size)](dst + from * t->d, d, src + (from - t->before) * t->s, s, 1, to - from);
}

/* buf: src, fill or NULL, dst. arg: element size, grid, mode, out shape[8], in shape[8], before[8], dst
   strides[8],
   src strides[8]. */
GW_EXPORT int32_t gw_pad_nd(void *const *buf, const int64_t *arg, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    static const char zeros[16];
    int64_t size = arg[0], mode = arg[2], n[RANK], inside[RANK], before[RANK], d[RANK], s[RANK];
    for (int i = 0; i < RANK; i++) {
        n[i] = arg[3 + i];
        inside[i] = arg[3 + RANK + i];
        before[i] = arg[3 + 2 * RANK + i];
        d[i] = arg[3 + 3 * RANK + i] * size;
        s[i] = arg[3 + 4 * RANK + i] * size;
        if (n[i] == 0) return 0;
    }
    int last = RANK - 1; /* constant pads: whole inner axes join the axis outside of them */
    while (mode == CONSTANT && last > 0 && before[last] == 0 && n[last] == inside[last] &&
           d[last - 1] == d[last] * n[last] && s[last - 1] == s[last] * n[last]) {
        n[last - 1] *= n[last];
        inside[last - 1] *= n[last];
        before[last - 1] *= n[last];
        d[last - 1] = d[last];
        s[last - 1] = s[last];
        last--;
    }
    row_pad t = {size, mode, n[last], inside[last], before[last], d[last], s[last], buf[1] ? buf[1] : zeros};
    int top = 0; /* the first axis that is walked */
    while (top < last && n[top] == 1 && inside[top] == 1 && before[top] == 0)
        top++;
    int64_t rows = 1, first, stop, index[RANK];
    for (int i = top; i < last; i++)
        rows *= n[i];
    /* One long row alone is not split: pads of such tensors are not worth more code. */
    share(rows, arg[1], begin, end, &first, &stop);
    int64_t rest = first;
    for (int i = last - 1; i >= top; i--) {
        index[i] = rest % n[i];
        rest /= n[i];
    }
    for (int64_t row = first; row < stop; row++) {
        char *dst = buf[2];
        const char *src = buf[0];
        for (int i = top; i < last; i++) {
            int64_t k = padded_index(mode, index[i] - before[i], inside[i]);
            dst += index[i] * d[i];
            src = src && k >= 0 ? src + k * s[i] : NULL;
        }
        pad_row(&t, dst, src);
        for (int i = last - 1; i >= top && ++index[i] == n[i]; i--)
            index[i] = 0;
    }
    return 0;
}
"""

_GATHER: Final = """
typedef int pick(char *dst, int64_t d, const char *src, int64_t s, const void *indices, int64_t index_size,
                 int64_t axis, int64_t first, int64_t last);
static pick *const PICK[] = {pick_1, pick_2, pick_4, pick_8, pick_16};

/* buf: src, indices, dst. arg: element size, grid, index size, outer, axis size, count, inner, dst outer
   stride,
   dst stride, src outer stride, src stride. */
GW_EXPORT int32_t gw_gather(void *const *buf, const int64_t *arg, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    enum { OUT_OF_RANGE = 1 };
    int64_t size = arg[0], outer = arg[3], axis = arg[4], count = arg[5], inner = arg[6];
    int64_t dst_outer = arg[7] * size, dst_stride = arg[8] * size;
    int64_t src_outer = arg[9] * size, src_stride = arg[10] * size;
    const int32_t *narrow = buf[1];
    const int64_t *wide = buf[1];
    block_copy *copy = ROWS[size_index(size)];
    if (outer == 0 || count == 0 || inner == 0) return 0;

    int64_t strides[2] = {0, size}, block = inner * size < BLOCK_BYTES ? inner : BLOCK_BYTES / size;
    int64_t blocks = (inner + block - 1) / block, first, last;
    share(outer * count * blocks, arg[1], begin, end, &first, &last);
    if (inner == 1) {
        for (int64_t at = first; at < last;) {
            int64_t o = at / count, k = at % count, stop = count - k < last - at ? count : k + last - at;
            char *dst = (char *)buf[2] + o * dst_outer;
            const char *src = (const char *)buf[0] + o * src_outer;
            if (!PICK[size_index(size)](dst, dst_stride, src, src_stride, buf[1], arg[2], axis, k, stop))
                return OUT_OF_RANGE;
            at += stop - k;
        }
        return 0;
    }
    int64_t part = first % blocks, k = first / blocks % count, o = first / blocks / count;
    for (int64_t item = first; item < last; item++) {
        int64_t index = arg[2] == 4 ? narrow[k] : wide[k];
        index += index < 0 ? axis : 0;
        if (index < 0 || index >= axis) return OUT_OF_RANGE;
        int64_t at = part * block, cols = inner - at < block ? inner - at : block;
        copy((char *)buf[2] + o * dst_outer + k * dst_stride + at * size, strides,
             (const char *)buf[0] + o * src_outer + index * src_stride + at * size, strides, 1, cols);
        if (++part < blocks) continue;
        part = 0;
        if (++k < count) continue;
        k = 0;
        o++;
    }
    return 0;
}
"""
