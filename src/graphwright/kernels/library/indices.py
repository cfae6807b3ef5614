"""Checks indices that come at run time, so that the kernels behind it may trust them."""

from __future__ import annotations

from typing import ClassVar, Final

from graphwright.ir.symbols import Dim, ceildiv, minimum
from graphwright.kernels.library.extent import FLAG, Extent, Reach, arguments, within
from graphwright.kernels.library.gather import SAYS
from graphwright.kernels.library.rows import MAX_RANK, SHARES
from graphwright.records import dataclass
from graphwright.targets.cpu.isa import Isa, prelude

_SHARE: Final = 1 << 13
_MAX_SHARES: Final = 64


@dataclass(frozen=True)
class CheckIndices:
    """Fails with ``INDEX_OUT_OF_RANGE`` unless every ``indices[row, k]`` is in ``[-sizes[k], sizes[k])``, or,
    of ``lengths``, in ``[0, sizes[k]]``.

    Operands: indices (int32 or int64, dense, of ``rows`` times ``len(sizes)``), guarded. What is guarded is
    not touched: it is what the kernels behind this one write, so that they wait for it.
    """

    SYMBOL: ClassVar[str] = "gw_check_indices"

    index_size: int
    rows: Dim
    sizes: tuple[Dim, ...]
    lengths: bool = False

    @property
    def args(self) -> tuple[Dim, ...]:
        padding = (0,) * (MAX_RANK - len(self.sizes))
        head = (self.index_size, self.grid, self.rows, len(self.sizes), int(self.lengths))
        return (*head, *self.sizes, *padding)

    @property
    def grid(self) -> Dim:
        return minimum(ceildiv(self.rows, _SHARE), _MAX_SHARES)

    @property
    def work_ns(self) -> Dim:
        return self.rows * len(self.sizes) // 2


_ARGS: Final = ("index_size", "shares", "rows", "depth", "lengths", *(f"size{k}" for k in range(MAX_RANK)))


def extents(isa: Isa) -> tuple[Extent, ...]:
    """How far ``gw_check_indices`` reaches."""
    a = arguments(*_ARGS)
    return (
        Extent(
            CheckIndices.SYMBOL,
            _ARGS,
            (Reach(a.index_size, ((a.rows, a.depth), (a.depth, 1))),),
            grid=a.shares,
            bounds=within(FLAG, "lengths") | within((0, MAX_RANK), "depth") | within(SHARES, "shares"),
            choices={"index_size": (4, 8)},
        ),
    )


def source(isa: Isa) -> str:
    """One C file with ``gw_check_indices``."""
    vectors = [
        _OUTSIDE.replace("@BITS@", bits).replace("@W@", str(isa.vector_bytes)) for bits in ("32", "64")
    ]
    return "\n".join([prelude(isa), *vectors, SAYS, _KERNEL])


_OUTSIDE: Final = """
typedef int@BITS@_t some@BITS@ __attribute__((vector_size(@W@)));
typedef int@BITS@_t some@BITS@_any __attribute__((vector_size(@W@), aligned(@BITS@ / 8), may_alias));

/* Whether any of count indices is outside of [-sizes[k], sizes[k]), or one of lengths outside of
   [0, sizes[k]], k their place modulo depth. Sizes beyond the type of the indices hold all of these. */
static int outside_@BITS@(const int@BITS@_t *x, int64_t count, const int64_t *sizes, int64_t depth,
                          int64_t lengths) {
    enum { L = @W@ * 8 / @BITS@ };
    const int64_t most = (int64_t)(~(uint@BITS@_t)0 >> 1);
    some@BITS@ low = {0}, high = {0}, found = {0};
    int64_t i = 0;
    for (int k = 0; k < L; k++) {
        const int64_t size = sizes[k % depth];
        low[k] = (int@BITS@_t)(lengths ? 0 : size > most ? -most - 1 : -size);
        high[k] = (int@BITS@_t)(size > most ? most : size - 1 + lengths);
    }
    for (; L % depth == 0 && i + L <= count; i += L) {
        const some@BITS@ now = *(const some@BITS@_any *)(x + i);
        found |= (now < low) | (now > high);
    }
    int any = 0;
    for (int k = 0; k < L; k++)
        any |= found[k] != 0;
    for (int64_t k = i % depth; i < count; i++, k = k + 1 == depth ? 0 : k + 1)
        any |= x[i] < (lengths ? 0 : -sizes[k]) || x[i] >= sizes[k] + lengths;
    return any;
}
"""

_KERNEL: Final = """
GW_EXPORT int32_t gw_check_indices(void *const *buf, const int64_t *arg, int64_t begin, int64_t end,
                                   void *scratch) {
    if (begin >= end) return 0;
    const int64_t grid = arg[1], rows = arg[2], depth = arg[3], lengths = arg[4], *sizes = arg + 5;
    const int64_t each = (rows + grid - 1) / grid;
    const int64_t first = begin * each, last = end * each < rows ? end * each : rows;
    if (first >= last || depth == 0) return 0;
    const int64_t from = first * depth, count = (last - first) * depth;
    const int outside =
        arg[0] == 4 ? outside_32((const int32_t *)buf[0] + from, count, sizes, depth, lengths)
                    : outside_64((const int64_t *)buf[0] + from, count, sizes, depth, lengths);
    for (int64_t k = 0; outside && k < count; k++) {
        const int64_t size = sizes[k % depth], at = from + k;
        const int64_t index = arg[0] == 4 ? ((const int32_t *)buf[0])[at] : ((const int64_t *)buf[0])[at];
        if (index < (lengths ? 0 : -size) || index >= size + lengths)
            return refuse(scratch, buf[0], arg[0], at, at + 1, lengths ? 0 : -size, size - 1 + lengths);
    }
    return 0;
}
"""
