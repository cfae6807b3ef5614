"""Gathering slices of elements of any size along one axis."""

from __future__ import annotations

from typing import ClassVar, Final

from graphwright.ir.symbols import Dim
from graphwright.kernels.library import rows
from graphwright.kernels.library.extent import SIGNED, Extent, Reach, arguments, within
from graphwright.kernels.library.rows import BYTES_PER_NS, ELEMENT_SIZES, SHARES, shares
from graphwright.records import dataclass
from graphwright.targets.cpu.isa import Isa, prelude

INDEX_OUT_OF_RANGE: Final = 1
"""The error code of ``gw_gather`` when an index is not in ``[-n, n)``."""


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
        return shares(self.outer * self.count * self.inner * self.element_size)

    @property
    def scratch_bytes(self) -> Dim:
        return 0

    @property
    def work_ns(self) -> Dim:
        return self.outer * self.count * (self.inner * (2 * self.element_size) // BYTES_PER_NS + 2)


_ARGS: Final = (
    *("size", "shares", "index_size", "outer", "axis", "count", "inner"),
    *("dst_outer", "dst", "src_outer", "src"),
)


def extents(isa: Isa) -> tuple[Extent, ...]:
    """How far ``gw_gather`` reaches."""
    a = arguments(*_ARGS)
    return (
        Extent(
            Gather.SYMBOL,
            _ARGS,
            (
                Reach(a.size, ((a.outer, a.src_outer), (a.axis, a.src), (a.inner, 1))),
                Reach(a.index_size, ((a.count, 1),)),
                Reach(a.size, ((a.outer, a.dst_outer), (a.count, a.dst), (a.inner, 1))),
            ),
            grid=a.shares,
            bounds=within(SIGNED, "dst_outer", "dst", "src_outer", "src") | within(SHARES, "shares"),
            choices={"size": ELEMENT_SIZES, "index_size": (4, 8)},
        ),
    )


def source(isa: Isa) -> str:
    """One C file with ``gw_gather``."""
    picks = (_PICK.replace("@S@", str(size)) for size in ELEMENT_SIZES)
    return "\n".join([prelude(isa), rows.c_text(isa), *picks, SAYS, _GATHER])


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

SAYS: Final = """
/* Ends a kernel for the first index of [first, last) that is outside of [least, most]; says which. */
static int32_t refuse(void *said, const void *indices, int64_t index_size, int64_t first, int64_t last,
                      int64_t least, int64_t most) {
    const int32_t *narrow = indices;
    const int64_t *wide = indices;
    for (int64_t k = first; said && k < last; k++) {
        int64_t index = index_size == 4 ? narrow[k] : wide[k];
        if (index >= least && index <= most) continue;
        memcpy(said, (int64_t[]){index, least, most}, 3 * sizeof index);
        break;
    }
    return @CODE@;
}
""".replace("@CODE@", str(INDEX_OUT_OF_RANGE))
"""C of what a kernel without scratch returns for an index out of range: its scratch takes three numbers."""

_GATHER: Final = """
/* Fetches the beginning of a row that is read soon: rows in no order are none that a CPU foresees. */
static void fetch_row(const char *row, int64_t bytes) {
    for (int64_t at = 0; at < bytes; at += 64)
        __builtin_prefetch(row + at);
    __builtin_prefetch(row + bytes - 1);
}

typedef int pick(char *dst, int64_t d, const char *src, int64_t s, const void *indices, int64_t index_size,
                 int64_t axis, int64_t first, int64_t last);
static pick *const PICK[] = {pick_1, pick_2, pick_4, pick_8, pick_16};

/* buf: src, indices, dst. arg: element size, grid, index size, outer, axis size, count, inner, dst outer
   stride,
   dst stride, src outer stride, src stride. */
GW_EXPORT int32_t gw_gather(void *const *buf, const int64_t *arg, int64_t begin, int64_t end, void *scratch) {
    enum { SHORT_RUN = 32, AHEAD_BYTES = 2048, FETCHED_BYTES = 512 };
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
                return refuse(scratch, buf[1], arg[2], k, stop, -axis, axis - 1);
            at += stop - k;
        }
        return 0;
    }
    int64_t part = first % blocks, k = first / blocks % count, o = first / blocks / count;
    int64_t row = inner * size, ahead = AHEAD_BYTES / row + 1;
    int64_t fetched = row < FETCHED_BYTES ? row : FETCHED_BYTES;
    for (int64_t item = first; item < last; item++) {
        if (row >= SHORT_RUN && part == 0 && k + ahead < count) {
            int64_t later = arg[2] == 4 ? narrow[k + ahead] : wide[k + ahead];
            later += later < 0 ? axis : 0;
            if ((uint64_t)later < (uint64_t)axis)
                fetch_row((const char *)buf[0] + o * src_outer + later * src_stride, fetched);
        }
        int64_t index = arg[2] == 4 ? narrow[k] : wide[k];
        index += index < 0 ? axis : 0;
        if (index < 0 || index >= axis) return refuse(scratch, buf[1], arg[2], k, k + 1, -axis, axis - 1);
        int64_t at = part * block, cols = inner - at < block ? inner - at : block;
        char *dst = (char *)buf[2] + o * dst_outer + k * dst_stride + at * size;
        const char *src = (const char *)buf[0] + o * src_outer + index * src_stride + at * size;
        if (cols * size >= SHORT_RUN)
            move_run(dst, src, cols * size);
        else
            copy(dst, strides, src, strides, 1, cols);
        if (++part < blocks) continue;
        part = 0;
        if (++k < count) continue;
        k = 0;
        o++;
    }
    return 0;
}
"""
