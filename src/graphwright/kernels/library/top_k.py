"""The k first of each row in order of size: a heap of the best so far (Williams, "Heapsort", 1964)."""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar, Final

from graphwright.ir.symbols import Dim, maximum
from graphwright.kernels.library.isa import Isa, prelude
from graphwright.records import dataclass


class Kind(IntEnum):
    """How the bits of an element are ordered."""

    UNSIGNED = 0
    SIGNED = 1
    FLOAT = 2


@dataclass(frozen=True)
class TopK:
    """Per row the ``k`` largest (or smallest) of ``count`` elements, best first, of equals the first first.

    Operands: x, values, indices (int64). NaN is larger than all numbers, -0 equals 0. A row is one unit of
    the grid: ``x[outer, :, inner]`` of a dense [outer, count, inner]. An ``element_size`` of 3 is bf16.
    """

    SYMBOL: ClassVar[str] = "gw_top_k"

    kind: Kind
    element_size: int
    largest: bool
    outer: Dim
    count: Dim
    inner: Dim
    k: Dim

    @property
    def args(self) -> tuple[Dim, ...]:
        return (int(self.kind), self.element_size, int(self.largest), self.count, self.inner, self.k)

    @property
    def grid(self) -> Dim:
        return self.outer * self.inner

    @property
    def scratch_bytes(self) -> Dim:
        """A key and an index for each of the best."""
        return maximum(self.k, 1) * 16

    @property
    def work_ns(self) -> Dim:
        return self.outer * self.inner * (2 * self.count + 20 * self.k)


def source(isa: Isa) -> str:
    """One C file with ``gw_top_k``."""
    return prelude(isa) + _KERNEL


_KERNEL: Final = """
enum { UNSIGNED, SIGNED, FLOAT };

typedef struct {
    uint64_t key;
    int64_t index;
} entry;

/* Whether a comes before b: by key, of equal keys the earlier. */
GW_INLINE int before(entry a, entry b) { return a.key != b.key ? a.key > b.key : a.index < b.index; }

GW_INLINE uint64_t bits_of(const char *p, int64_t size) {
    switch (size) {
    case 1: return *(const uint8_t *)p;
    case 2: return *(const uint16_t *)p;
    case 4: return *(const uint32_t *)p;
    default: return *(const uint64_t *)p;
    }
}

/* Exponent bits, and hence the bits of infinity, of a float of 2 bytes (f16), 4 or 8; 3 stands for bf16. */
GW_INLINE uint64_t infinity_of(int64_t size) {
    switch (size) {
    case 2: return 0x7c00;
    case 3: return 0x7f80;
    case 4: return 0x7f800000;
    default: return 0x7ff0000000000000;
    }
}

/* A number that orders as the element does: the larger comes first. */
GW_INLINE uint64_t key_of(uint64_t bits, int64_t kind, int64_t size, int64_t largest) {
    const int64_t width = size == 3 ? 16 : 8 * size;
    const uint64_t sign = (uint64_t)1 << (width - 1), all = sign | (sign - 1);
    uint64_t key = bits;
    if (kind == SIGNED) {
        key = bits ^ sign;
    } else if (kind == FLOAT) {
        if ((bits & ~sign) > infinity_of(size)) key = all;
        else if ((bits & ~sign) == 0) key = sign;
        else key = bits & sign ? ~bits & all : bits | sign;
    }
    return largest ? key : ~key & all;
}

/* Moves the entry at the root of a heap, in which every parent comes after its children, to its place. */
GW_INLINE void sift_down(entry *heap, int64_t count) {
    const entry moved = heap[0];
    int64_t at = 0;
    for (int64_t child = 1; child < count; child = 2 * at + 1) {
        if (child + 1 < count && before(heap[child], heap[child + 1])) child++;
        if (before(heap[child], moved)) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moved;
}

GW_INLINE void sift_up(entry *heap, int64_t at) {
    const entry moved = heap[at];
    while (at > 0 && before(heap[(at - 1) / 2], moved)) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = moved;
}

GW_EXPORT int32_t gw_top_k(void *const *buf, const int64_t *arg, int64_t begin, int64_t end, void *scratch) {
    const int64_t kind = arg[0], code = arg[1], size = code == 3 ? 2 : code, largest = arg[2];
    const int64_t count = arg[3], inner = arg[4], k = arg[5];
    entry *heap = scratch;
    for (int64_t row = begin; row < end && k > 0; row++) {
        const int64_t outer = row / inner, column = row % inner;
        const char *x = (const char *)buf[0] + (outer * count * inner + column) * size;
        char *values = (char *)buf[1] + (outer * k * inner + column) * size;
        int64_t *indices = (int64_t *)buf[2] + outer * k * inner + column;
        for (int64_t i = 0; i < count; i++) {
            const entry next = {key_of(bits_of(x + i * inner * size, size), kind, code, largest), i};
            if (i < k) {
                heap[i] = next;
                sift_up(heap, i);
            } else if (before(next, heap[0])) {
                heap[0] = next;
                sift_down(heap, k);
            }
        }
        for (int64_t left = k; left > 0; left--) {
            const int64_t place = left - 1;
            indices[place * inner] = heap[0].index;
            memcpy(values + place * inner * size, x + heap[0].index * inner * size, (size_t)size);
            heap[0] = heap[place];
            if (place > 0) sift_down(heap, place);
        }
    }
    return 0;
}
"""
