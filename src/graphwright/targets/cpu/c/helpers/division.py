"""Division of integer vectors by way of floats, and remainders of f32 vectors.

For integers of up to 52 bits, truncating the quotient in double precision is exact: a quotient that is not an
integer differs from the next integer by at least one part in 2^52. So it is in single precision for integers
of up to 16 bits.
"""

from __future__ import annotations

from typing import Final

from graphwright.ir.types import F32, F64, I8, I16, I32, I64, U8, U16, U32, DType

_BY_HALVES: Final = """\
GW_INLINE @V NAME(@V a, @V b) { /* 0 by 0 */
    return @quotient_halves@(a, b) & (@V)(b != 0);
}"""

_NARROW: Final = """\
GW_INLINE @V NAME(@V a, @V b) { /* 0 by 0 */
    typedef float singles __attribute__((vector_size(4 * @L)));
    typedef int32_t words __attribute__((vector_size(4 * @L)));
    const singles q = __builtin_convertvector(a, singles) / __builtin_convertvector(b, singles);
    return __builtin_convertvector(__builtin_convertvector(q, words), @V) & (@V)(b != 0);
}"""

_WIDE: Final = """\
GW_INLINE @V NAME(@V a, @V b) { /* 0 by 0 */
    const int64_t most = (int64_t)1 << 51;
    const @V far = ((a + most) | (b + most)) >> 52; /* not 0: beyond what a double holds */
    @V q;
    if (__builtin_expect(@any_lane@(far), 0))
        for (int i = 0; i < @L; ++i)
            q[i] = b[i] == 0 ? 0 : b[i] == -1 ? (int64_t)-(uint64_t)a[i] : a[i] / b[i];
    else
        q = @quotient_wide@(a, b | (b == 0)) & (b != 0);
    return q;
}"""

_REMAINDER: Final = """\
GW_INLINE @V NAME(@V a, @V b) { /* the sign of a; 0 by 0 */
    return (a - @div@(a, b) * b) & (@V)(b != 0);
}"""

_MODULUS: Final = """\
GW_INLINE @V NAME(@V a, @V b) { /* the sign of b; 0 by 0 */
    const @V rest = @rem@(a, b);
    return rest + (b & (rest != 0) & ((rest ^ b) < 0));
}"""

_FLOAT_REMAINDER: Final = """\
double fmod(double, double);
GW_INLINE @V NAME(@V a, @V b) { /* the sign of a; of quotients below 2^23, a - q b has no more bits than b */
    const @V size = @abs@(b), q = @trunc@(a / b); /* a quotient may round up to an integer */
    const @I near = (@abs@(a) < size * 8388608.0f) & (size < __builtin_inff());
    @V rest = a;
    __asm__("vfnmadd231ps %2, %1, %0" : "+@REG"(rest) : "@REG"(q), "@REG"(b));
    const @V less = (@V)((@I)size | ((@I)a & (@I)@splat@(-0.0f)));
    @V y = @with_sign@(@abs@(@choose@((((@I)rest ^ (@I)a) < 0) & (rest != 0.0f), rest + less, rest)), a);
    if (__builtin_expect(@any@(~near), 0))
        for (int i = 0; i < @L; ++i)
            if (!near[i])
                y[i] = (float)fmod((double)a[i], (double)b[i]);
    return y;
}"""

DIVISIONS: Final[dict[tuple[str, DType], str]] = {
    **{("div", dtype): _NARROW for dtype in (I8, U8, I16, U16)},
    **{("div", dtype): _BY_HALVES for dtype in (I32, U32)},
    ("div", I64): _WIDE,
    **{("rem", dtype): _REMAINDER for dtype in (I8, U8, I16, U16, I32, U32, I64)},
    **{("mod", dtype): _MODULUS for dtype in (I8, I16, I32, I64)},
    **{("mod", dtype): _REMAINDER for dtype in (U8, U16, U32)},
    ("rem", F32): _FLOAT_REMAINDER,
    ("any_lane", I64): """\
GW_INLINE int NAME(@V x) {
    int64_t found = 0;
    for (int i = 0; i < @L; ++i)
        found |= x[i];
    return found != 0;
}""",
    ("quotient", F64): "GW_INLINE @V NAME(@V a, @V b) { return a / b; }",
    ("quotient_wide", F64): """\
GW_INLINE @I NAME(@I a, @I b) { /* integers below 2^51: added to 1.5 * 2^52 they are a double's last bits */
    const @I bits = (@I)@splat@(6755399441055744.0);
    const @V x = (@V)(a + bits) - 6755399441055744.0, y = (@V)(b + bits) - 6755399441055744.0;
    return (@I)(@trunc@(x / y) + 6755399441055744.0) - bits;
}""",
}
"""C templates, in the notation of :meth:`~graphwright.targets.cpu.c.prelude.Prelude.expand`."""
