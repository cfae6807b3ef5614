"""Checks indices that come at run time, so that the kernels behind it may trust them."""

from __future__ import annotations

from typing import ClassVar, Final

from graphwright.ir.symbols import Dim, ceildiv, minimum
from graphwright.kernels.library.gather import INDEX_OUT_OF_RANGE
from graphwright.kernels.library.isa import Isa, prelude
from graphwright.kernels.library.rows import MAX_RANK
from graphwright.records import dataclass

_SHARE: Final = 1 << 13
_MAX_SHARES: Final = 64


@dataclass(frozen=True)
class CheckIndices:
    """Fails with ``INDEX_OUT_OF_RANGE`` unless every ``indices[row, k]`` is in ``[-sizes[k], sizes[k])``.

    Operands: indices (int32 or int64, dense, of ``rows`` times ``len(sizes)``), guarded. What is guarded is
    not touched: it is what the kernels behind this one write, so that they wait for it.
    """

    SYMBOL: ClassVar[str] = "gw_check_indices"

    index_size: int
    rows: Dim
    sizes: tuple[Dim, ...]

    @property
    def args(self) -> tuple[Dim, ...]:
        padding = (0,) * (MAX_RANK - len(self.sizes))
        return (self.index_size, self.grid, self.rows, len(self.sizes), *self.sizes, *padding)

    @property
    def grid(self) -> Dim:
        return minimum(ceildiv(self.rows, _SHARE), _MAX_SHARES)

    @property
    def work_ns(self) -> Dim:
        return self.rows * len(self.sizes) // 2


def source(isa: Isa) -> str:
    """One C file with ``gw_check_indices``."""
    return prelude(isa) + _KERNEL.replace("@CODE@", str(INDEX_OUT_OF_RANGE))


_KERNEL: Final = """
GW_EXPORT int32_t gw_check_indices(void *const *buf, const int64_t *arg, int64_t begin, int64_t end,
                                   void *scratch) {
    (void)scratch;
    if (begin >= end) return 0;
    const int64_t grid = arg[1], rows = arg[2], depth = arg[3], *sizes = arg + 4;
    const int64_t each = (rows + grid - 1) / grid;
    const int64_t first = begin * each, last = end * each < rows ? end * each : rows;
    const int32_t *narrow = arg[0] == 4 ? buf[0] : NULL;
    const int64_t *wide = arg[0] == 8 ? buf[0] : NULL;
    for (int64_t row = first; row < last; row++) {
        for (int64_t k = 0; k < depth; k++) {
            const int64_t index = narrow ? narrow[row * depth + k] : wide[row * depth + k];
            if (index < -sizes[k] || index >= sizes[k]) return @CODE@;
        }
    }
    return 0;
}
"""
