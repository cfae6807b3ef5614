"""Where elements are not 0: counted by block, then written behind what the blocks before found."""

from __future__ import annotations

from typing import ClassVar, Final

from graphwright.ir.symbols import Dim, ceildiv, minimum, product
from graphwright.kernels.library.extent import BITS, Extent, arguments, dense, within
from graphwright.kernels.movement.rows import MAX_RANK
from graphwright.records import dataclass
from graphwright.targets.cpu.isa import Isa, prelude

_SHARE: Final = 1 << 14
_MAX_SHARES: Final = 256


@dataclass(frozen=True)
class NonZero:
    """Indices of the elements of a dense x of which a bit of ``mask`` is set.

    ``COUNT`` takes x and counts i64[grid], a number for each block. ``WRITE`` takes these two, indices and
    total: i64[rank, total] in the first elements of indices, in row-major order of x; and total i64[1].
    """

    COUNT: ClassVar[str] = "gw_count_non_zero"
    WRITE: ClassVar[str] = "gw_non_zero"

    element_size: int
    mask: int
    """As a signed number of 64 bits."""
    shape: tuple[Dim, ...]

    @property
    def args(self) -> tuple[Dim, ...]:
        padding = (1,) * (MAX_RANK - len(self.shape))
        elements = product(self.shape)
        return (self.element_size, self.mask, elements, self.grid, len(self.shape), *self.shape, *padding)

    @property
    def grid(self) -> Dim:
        """One block at least, which writes the total."""
        return minimum(ceildiv(product(self.shape), _SHARE) + 1, _MAX_SHARES)

    @property
    def work_ns(self) -> Dim:
        return product(self.shape) // 2


_ARGS: Final = ("size", "mask", "elements", "blocks", "rank", *(f"n{axis}" for axis in range(MAX_RANK)))


def extents(isa: Isa) -> tuple[Extent, ...]:
    """How far both kernels reach. What counts say of the elements is believed."""
    a = arguments(*_ARGS)
    elements, counts = dense(a.size, a.elements), dense(8, a.blocks)
    shape = product([getattr(a, f"n{axis}") for axis in range(MAX_RANK)])
    operands = {
        NonZero.COUNT: (elements, counts),
        NonZero.WRITE: (elements, counts, dense(8, a.rank, a.elements), dense(8, 1)),
    }
    return tuple(
        Extent(
            symbol,
            _ARGS,
            touched,
            grid=a.blocks,
            bounds=within(BITS, "mask") | within((0, MAX_RANK), "rank") | within((1, _MAX_SHARES), "blocks"),
            choices={"size": (1, 2, 4, 8)},
            multiples=(shape - a.elements,),
        )
        for symbol, touched in operands.items()
    )


def source(isa: Isa) -> str:
    """One C file with ``gw_count_non_zero`` and ``gw_non_zero``."""
    sized = "\n".join(_SIZED.replace("@BITS@", str(bits)) for bits in (8, 16, 32, 64))
    return prelude(isa) + _TYPES.replace("@RANK@", str(MAX_RANK)) + sized + _KERNELS


_TYPES: Final = """
enum { SIZE, MASK, ELEMENTS, BLOCKS, RANK, SHAPE, MAX_RANK = @RANK@, GROUP = 64 };

/* Where indices go: [rank, total], of which so many columns are filled. */
typedef struct {
    int64_t *indices, total, at, rank;
    const int64_t *shape;
    int64_t place[MAX_RANK]; /* of the element at hand */
} target;

GW_INLINE int64_t block_start(const int64_t *arg, int64_t block) {
    const int64_t each = (arg[ELEMENTS] + arg[BLOCKS] - 1) / arg[BLOCKS];
    return each * block < arg[ELEMENTS] ? each * block : arg[ELEMENTS];
}
"""

_SIZED: Final = """
/* A byte of 0 or 1 for each of a group of elements. */
GW_INLINE void flags_@BITS@(const void *from, uint64_t mask, uint8_t *flags) {
    uint@BITS@_t x[GROUP];
    memcpy(x, from, sizeof x);
    for (int i = 0; i < GROUP; i++) flags[i] = (x[i] & (uint@BITS@_t)mask) != 0;
}

static int64_t count_@BITS@(const uint@BITS@_t *x, int64_t n, uint64_t mask) {
    int64_t found = 0;
    for (; n >= GROUP; n -= GROUP, x += GROUP) {
        uint8_t flags[GROUP], sum = 0;
        flags_@BITS@(x, mask, flags);
        for (int i = 0; i < GROUP; i++) sum += flags[i];
        found += sum;
    }
    for (int64_t i = 0; i < n; i++) found += (x[i] & (uint@BITS@_t)mask) != 0;
    return found;
}

/* Elements of one row, from the column on at which the place stands. */
static void write_@BITS@(const uint@BITS@_t *x, int64_t n, uint64_t mask, target *t) {
    int64_t *columns = t->indices + (t->rank - 1) * t->total;
    const int64_t first = t->at, column = t->place[t->rank - 1];
    int64_t at = first, i = 0;
    for (; n - i >= GROUP; i += GROUP) {
        uint8_t flags[GROUP];
        flags_@BITS@(x + i, mask, flags);
        for (int k = 0; k < GROUP; k += 8) {
            uint64_t eight;
            memcpy(&eight, flags + k, 8);
            for (; eight; eight &= eight - 1) columns[at++] = column + i + k + (__builtin_ctzll(eight) >> 3);
        }
    }
    for (; i < n; i++)
        if (x[i] & (uint@BITS@_t)mask) columns[at++] = column + i;
    for (int64_t axis = 0; axis < t->rank - 1; axis++)
        for (int64_t k = first; k < at; k++) t->indices[axis * t->total + k] = t->place[axis];
    t->at = at;
}
"""

_KERNELS: Final = """
GW_EXPORT int32_t gw_count_non_zero(void *const *buf, const int64_t *arg, int64_t begin, int64_t end,
                                    void *scratch) {
    (void)scratch;
    const uint64_t mask = (uint64_t)arg[MASK];
    int64_t *counts = buf[1];
    for (int64_t block = begin; block < end; block++) {
        const int64_t at = block_start(arg, block), n = block_start(arg, block + 1) - at;
        const char *x = (const char *)buf[0] + at * arg[SIZE];
        switch (arg[SIZE]) {
        case 1: counts[block] = count_8((const uint8_t *)x, n, mask); break;
        case 2: counts[block] = count_16((const uint16_t *)x, n, mask); break;
        case 4: counts[block] = count_32((const uint32_t *)x, n, mask); break;
        default: counts[block] = count_64((const uint64_t *)x, n, mask); break;
        }
    }
    return 0;
}

/* To the first column of the next row. */
GW_INLINE void next_row(target *t) {
    t->place[t->rank - 1] = 0;
    for (int64_t axis = t->rank - 2; axis >= 0 && ++t->place[axis] == t->shape[axis]; axis--)
        t->place[axis] = 0;
}

static void write_block(const char *x, const int64_t *arg, int64_t block, target *t) {
    const uint64_t mask = (uint64_t)arg[MASK];
    const int64_t last = block_start(arg, block + 1), row = t->shape[t->rank - 1];
    int64_t at = block_start(arg, block), rest = at;
    if (at == last) return;
    for (int64_t axis = t->rank - 1; axis >= 0; axis--) {
        t->place[axis] = rest % t->shape[axis];
        rest /= t->shape[axis];
    }
    while (at < last) {
        const int64_t left = row - t->place[t->rank - 1], n = left < last - at ? left : last - at;
        switch (arg[SIZE]) {
        case 1: write_8((const uint8_t *)x + at, n, mask, t); break;
        case 2: write_16((const uint16_t *)x + at, n, mask, t); break;
        case 4: write_32((const uint32_t *)x + at, n, mask, t); break;
        default: write_64((const uint64_t *)x + at, n, mask, t); break;
        }
        at += n;
        next_row(t);
    }
}

GW_EXPORT int32_t gw_non_zero(void *const *buf, const int64_t *arg, int64_t begin, int64_t end,
                              void *scratch) {
    (void)scratch;
    const int64_t *counts = buf[1];
    int64_t before = 0, total = 0;
    for (int64_t block = 0; block < arg[BLOCKS]; block++) {
        before += block < begin ? counts[block] : 0;
        total += counts[block];
    }
    if (begin == 0 && end > 0) *(int64_t *)buf[3] = total;
    target t = {.indices = buf[2], .total = total, .at = before, .rank = arg[RANK], .shape = arg + SHAPE};
    if (!t.rank) return 0;
    for (int64_t block = begin; block < end; block++) write_block(buf[0], arg, block, &t);
    return 0;
}
"""
