"""The vector ISAs that kernels are written for, and the C prelude of vector operations that each starts with.

Vectors are GCC/Clang vector extensions. Only the masked load and store need instructions of the ISA; they are
inline assembly, which every GCC and Clang reads alike, whereas the names and types of their builtins differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from graphwright.records import dataclass

_COMMON_FLAGS: Final = ("-O2", "-std=c11", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math")


@dataclass(frozen=True)
class Isa:
    """A target: ``vector_bytes`` per register and the compiler's ``flags`` (code generation, not linking)."""

    name: str
    vector_bytes: int
    flags: tuple[str, ...]

    @property
    def lanes(self) -> int:
        """f32 elements per vector."""
        return self.vector_bytes // 4

    @property
    def zig_flags(self) -> tuple[str, ...]:
        """``flags`` as ``zig cc`` reads them: it spells x86-64-v3 as x86_64_v3."""
        return tuple(f.replace("x86-64-", "x86_64_") for f in self.flags)


V3: Final = Isa("v3", 32, (*_COMMON_FLAGS, "-march=x86-64-v3"))
"""x86-64-v3: AVX2 and FMA, 16 registers."""
V4: Final = Isa("v4", 64, (*_COMMON_FLAGS, "-march=x86-64-v4", "-mprefer-vector-width=512"))
"""x86-64-v4: AVX-512 F, BW, CD, DQ and VL, 32 registers."""
ISAS: Final[dict[str, Isa]] = {"v3": V3, "v4": V4}


def prelude(isa: Isa) -> str:
    """C text to stand first in a kernel file: includes, ``GW_EXPORT``, the hook's type, vector operations.

    ``VL`` is the number of f32 lanes; ``vf`` and ``vi`` are vectors of f32 and int32 (comparing ``vf`` gives
    ``vi`` lanes of 0 and -1). No pointer needs alignment; ``*_n`` touch only the first ``n`` elements,
    ``0 <= n <= VL``.
    """
    masked = _MASKED_V4 if isa.vector_bytes == 64 else _MASKED_V3
    iota = ", ".join(map(str, range(isa.lanes)))
    text = _TEMPLATE.replace("@MASKED@", masked.strip()).replace("@IOTA@", iota)
    text = text.replace("@HALVES@", _halves(isa.lanes))
    return text.replace("@VL@", str(isa.lanes)).replace("@BYTES@", str(isa.vector_bytes))


def _halves(lanes: int) -> str:
    """Lines of C that add the halves of the vector ``x`` to each other until four lanes are left, ``x4``."""
    lines, name = [], "x"
    while lanes > 4:
        lanes //= 2
        low, high = (", ".join(map(str, range(first, first + lanes))) for first in (0, lanes))
        parts = (f"__builtin_shufflevector({name}, {name}, {part})" for part in (low, high))
        made = f"x{lanes}"
        lines.append(
            f"    typedef float half{lanes} __attribute__((vector_size({4 * lanes})));\n"
            f"    const half{lanes} {made} = {' + '.join(parts)};"
        )
        name = made
    return "\n".join(lines)


def args_struct(fields: Sequence[str], name: str = "args") -> str:
    """C text of the struct that a kernel's args are copied to: ``fields`` in ABI order."""
    return f"struct {name} {{\n    int64_t {', '.join(fields)};\n}};\n"


_TEMPLATE: Final = """\
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define GW_EXPORT __attribute__((visibility("default")))
#define GW_INLINE static inline __attribute__((always_inline, unused))
#define VL @VL@

/* An epilogue: stores the final values of a finished tile [rows x cols] that stands at (batch, row, col). */
typedef int32_t (*gw_hook)(void *const *buf, const int64_t *arg, float *tile, int64_t ld, int64_t batch,
                           int64_t row, int64_t rows, int64_t col, int64_t cols);

typedef float vf __attribute__((vector_size(@BYTES@)));
typedef int32_t vi __attribute__((vector_size(@BYTES@)));
/* Vectors anywhere in memory. */
typedef float vf_any __attribute__((vector_size(@BYTES@), aligned(4), may_alias));
typedef int32_t vi_any __attribute__((vector_size(@BYTES@), aligned(4), may_alias));

GW_INLINE vf vf_load(const float *p) { return *(const vf_any *)p; }
GW_INLINE void vf_store(float *p, vf x) { *(vf_any *)p = x; }
GW_INLINE vi vi_load(const int32_t *p) { return *(const vi_any *)p; }
GW_INLINE void vi_store(int32_t *p, vi x) { *(vi_any *)p = x; }
GW_INLINE vf vf_set1(float x) { return x - (vf){0}; } /* -0 - 0 is -0, where -0 + 0 would be 0 */
GW_INLINE vi vi_set1(int32_t x) { return x - (vi){0}; }
GW_INLINE vi vi_iota(void) { return (vi){@IOTA@}; }
/* -1 in the first n lanes, 0 after them. */
GW_INLINE vi vi_first(int64_t n) { return vi_iota() < vi_set1((int32_t)n); }

@MASKED@

GW_INLINE vf vf_select(vi mask, vf yes, vf no) { return (vf)(((vi)yes & mask) | ((vi)no & ~mask)); }
GW_INLINE vf vf_fma(vf a, vf b, vf c) { return a * b + c; } /* one rounding: -ffp-contract=fast */
GW_INLINE vf vf_max(vf a, vf b) { return vf_select((a > b) | (a != a), a, b); } /* NaN if either is */
GW_INLINE vf vf_min(vf a, vf b) { return vf_select((a < b) | (a != a), a, b); }
GW_INLINE vf vf_relu(vf x) { return (vf)((vi)x & ~(x < (vf){0})); } /* NaN stays NaN */

/* Sum of the lanes, by halves. */
GW_INLINE float vf_sum(vf x) {
@HALVES@
    return x4[0] + x4[2] + (x4[1] + x4[3]);
}
"""

_MASKED_V3: Final = """
/* The first n elements, zeros after them. */
GW_INLINE vf vf_load_n(const float *p, int64_t n) {
    vf x;
    __asm__("vmaskmovps %1, %2, %0" : "=x"(x) : "m"(*(const vf_any *)p), "x"(vi_first(n)));
    return x;
}
/* Read-write, since the elements after the first n keep their values. */
GW_INLINE void vf_store_n(float *p, vf x, int64_t n) {
    __asm__("vmaskmovps %1, %2, %0" : "+m"(*(vf_any *)p) : "x"(x), "x"(vi_first(n)));
}
"""

_MASKED_V4: Final = """
/* The first n elements, zeros after them. */
GW_INLINE vf vf_load_n(const float *p, int64_t n) {
    vf x;
    uint16_t first = (uint16_t)((1u << n) - 1);
    __asm__("vmovups %1, %0 %{%2%}%{z%}" : "=v"(x) : "m"(*(const vf_any *)p), "Yk"(first));
    return x;
}
/* Read-write, since the elements after the first n keep their values. */
GW_INLINE void vf_store_n(float *p, vf x, int64_t n) {
    uint16_t first = (uint16_t)((1u << n) - 1);
    __asm__("vmovups %1, %0 %{%2%}" : "+m"(*(vf_any *)p) : "v"(x), "Yk"(first));
}
"""
