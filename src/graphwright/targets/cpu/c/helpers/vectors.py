"""Vector helpers as templates, in the notation of :meth:`..prelude.Prelude.expand`."""

from __future__ import annotations

from typing import Final

from graphwright.ir.types import F32, F64, DType
from graphwright.targets.cpu.c.helpers.division import DIVISIONS
from graphwright.targets.cpu.c.helpers.doubles import DOUBLES
from graphwright.targets.cpu.c.helpers.exponentials_v3 import EXPONENTIALS_V3
from graphwright.targets.cpu.c.helpers.exponentials_v4 import EXPONENTIALS_V4
from graphwright.targets.cpu.c.helpers.polynomials import HELPERS, POLYNOMIALS
from graphwright.targets.cpu.c.helpers.power import POSITIVE, POWER
from graphwright.targets.cpu.c.helpers.strided_loads import load_step
from graphwright.targets.cpu.isa import Isa


def vector_template(function: str, dtype: DType, lanes: int, isa: Isa) -> str | None:
    """The helper ``function`` for vectors of a plain dtype; None if only a scalar helper exists."""
    wide = isa.vector_bytes == 64
    if function in _FLOAT_ONLY and not dtype.is_float:
        return None
    if function in ("max", "min") and dtype in (F32, F64):
        return _FLOAT_EXTREMUM[wide].replace("VERB", function)
    if function.startswith("load_step_"):
        return load_step(int(function.removeprefix("load_step_")), lanes)
    if (function, dtype) in DIVISIONS:
        return DIVISIONS[function, dtype]
    own = _OF_V4 if wide else _OF_V3
    if dtype == F32 and function in own:
        return own[function]
    if dtype == F32 and function == "pow":
        return POWER
    if dtype == F32 and function in POLYNOMIALS:
        return POLYNOMIALS[function]
    if dtype == F64 and function in DOUBLES:
        return DOUBLES[function]
    if dtype.bytes >= 4:
        masked = _MASKED_MOVES.get((function, lanes * dtype.bytes == 64))
    else:
        masked = _SMALL_MASKED_MOVES.get(function) if wide and 4 * lanes == isa.vector_bytes else None
    return masked or _VECTOR_HELPERS.get(function) or (HELPERS.get(function) if dtype == F32 else None)


_SMALL_MASKED_MOVES: Final[dict[str, str]] = {
    "load_mask": """\
GW_INLINE @V NAME(const @T *p, @M mask) { /* zeros where masked off */
    @V x;
    __asm__("vpmovd2m %2, %%k1\\n\\tvmovdqu@BITS %1, %0 %{%%k1%}%{z%}"
            : "=&v"(x) : "m"(*(const @V_any *)p), "v"(mask) : "k1");
    return x;
}""",
    "store_mask": """\
GW_INLINE void NAME(@T *p, @V x, @M mask) {
    __asm__("vpmovd2m %2, %%k1\\n\\tvmovdqu@BITS %1, %0 %{%%k1%}"
            : "+m"(*(@V_any *)p) : "v"(x), "v"(mask) : "k1");
}""",
}
"""Masked moves of 1- and 2-byte elements with AVX-512."""

_FLOAT_ONLY: Final = frozenset(
    {"most", "least", "abs", "clamp", "quantize", "sqrt", "floor", "ceil", "round", "trunc"}
)

_EXTREMUM: Final = """\
GW_INLINE @V NAME(@V a, @V b) { /* NaN if either is */
    const @I take = (a SIGN b) | (a != a);
    return (@V)(((@I)a & take) | ((@I)b & ~take));
}"""

_FLOAT_EXTREMUM: Final = {
    False: """\
GW_INLINE @V NAME(@V a, @V b) { /* NaN if either is */
    @V y;
    __asm__("vVERBp@SUFFIX %2, %1, %0" : "=x"(y) : "x"(a), "x"(b)); /* b if either is NaN */
    const @I undefined = a != a;
    return (@V)(((@I)a & undefined) | ((@I)y & ~undefined));
}""",
    True: """\
GW_INLINE @V NAME(@V a, @V b) { /* NaN if either is: the instruction gives b then */
    @V y;
    __asm__("vVERBp@SUFFIX %2, %1, %0\\n\\tvcmpp@SUFFIX $3, %1, %1, %%k1\\n\\tvmovap@SUFFIX %1, %0 %{%%k1%}"
            : "=&v"(y) : "v"(a), "v"(b) : "k1");
    return y;
}""",
}
"""``max`` and ``min`` of floats; the key is whether the ISA is AVX-512."""

_DIVIDED_V4: Final = """\
GW_INLINE @V NAME(@V x, @T c) { /* x / c as it rounds, by c's inverse and what that leaves over */
    const @T inverse = 1 / c;
    if (!(c > 1e-30f || c < -1e-30f) || !(c < 1e30f && c > -1e30f))
        return x / c;
    @V y = x * inverse; /* kept where zero, subnormal, infinite or NaN: classes 0xbf */
    const @V rest = x - y * c;
    __asm__("vfpclassps $0xbf, %0, %%k1\\n\\tknotw %%k1, %%k1\\n\\tvfmadd231ps %2, %1, %0 %{%%k1%}"
            : "+v"(y) : "v"(rest), "v"(@splat@(inverse)) : "k1");
    return y;
}"""
"""Four instructions; a division takes as long as twenty. If an operand or the result is below 2^-100, the
error may be one unit in the last place, as the remainder underflows. P. Markstein, "Computation of elementary
functions on the IBM RISC System/6000 processor" (1990).
"""

_DIV_BY_SUM_V3: Final = """\
GW_INLINE @V NAME(@V x, @T c) { /* x / c, 0 <= x <= c, 1 <= c, by c's inverse as a sum of two numbers */
    const double inverse = 1.0 / (double)c;
    const @T high = (@T)inverse, low = (@T)(inverse - (double)high);
    @V y = x * low;
    __asm__("vfmadd231ps %2, %1, %0" : "+x"(y) : "x"(x), "x"(@splat@(high)));
    return y;
}"""
"""Two instructions; a division takes as long as seven. The error is at most 0.50001 units in the last place,
as the sum has 47 bits; below 2^-102, where ``x * low`` underflows, it is one unit.
"""

_NUMBER_FIRST: Final = """\
GW_INLINE @V NAME(@V a, @V b) { /* b if either is NaN, or if both are 0 */
    @V y;
    __asm__("VERBp@SUFFIX %2, %1, %0" : "=@REG"(y) : "@REG"(a), "@REG"(b));
    return y;
}"""

_ROUNDING: Final = """\
GW_INLINE @V NAME(@V x) {
    @V y;
    __asm__("VROUNDp@SUFFIX $MODE, %1, %0" : "=@REG"(y) : "@REG"(x));
    return y;
}"""
"""Rounding to integers: mode 8 to the nearest (ties to even), 9 down, 10 up, 11 towards zero."""

_OF_V4: Final = EXPONENTIALS_V4 | {"divided": _DIVIDED_V4}
_OF_V3: Final = EXPONENTIALS_V3 | {"div_by_sum": _DIV_BY_SUM_V3}
"""The f32 helpers of AVX-512, and those of AVX2."""

_MASKED_MOVES: Final[dict[tuple[str, bool], str]] = {
    ("load_mask", False): """\
GW_INLINE @V NAME(const @T *p, @M mask) { /* zeros where masked off */
    @V x;
    __asm__("vmaskmovp@SUFFIX %1, %2, %0" : "=x"(x)
            : "m"(*(const @V_any *)p), "x"(__builtin_convertvector(mask, @I)));
    return x;
}""",
    ("store_mask", False): """\
GW_INLINE void NAME(@T *p, @V x, @M mask) {
    __asm__("vmaskmovp@SUFFIX %1, %2, %0" : "+m"(*(@V_any *)p)
            : "x"(x), "x"(__builtin_convertvector(mask, @I)));
}""",
    ("load_mask", True): """\
GW_INLINE @V NAME(const @T *p, @M mask) { /* zeros where masked off */
    @V x;
    const @I wide = __builtin_convertvector(mask, @I);
    __asm__("vpmov@QUAD2m %2, %%k1\\n\\tvmovup@SUFFIX %1, %0 %{%%k1%}%{z%}"
            : "=&v"(x) : "m"(*(const @V_any *)p), "v"(wide) : "k1");
    return x;
}""",
    ("store_mask", True): """\
GW_INLINE void NAME(@T *p, @V x, @M mask) {
    const @I wide = __builtin_convertvector(mask, @I);
    __asm__("vpmov@QUAD2m %2, %%k1\\n\\tvmovup@SUFFIX %1, %0 %{%%k1%}" 
            : "+m"(*(@V_any *)p) : "v"(x), "v"(wide) : "k1");
}""",
}
"""Masked moves of 4- and 8-byte elements by function and whether the vector has 64 bytes."""

_VECTOR_HELPERS: Final[dict[str, str]] = {
    "splat": "GW_INLINE @V NAME(@T x) { return (@V){@EACH(x)@}; }",
    "iota": "GW_INLINE @V NAME(void) { return (@V){@EACH(#)@}; }",
    "first": "GW_INLINE @M NAME(int64_t n) { return (@M){@EACH(#)@} < (int32_t)n; }",
    "load": "GW_INLINE @V NAME(const @T *p) { return *(const @V_any *)p; }",
    "store": "GW_INLINE void NAME(@T *p, @V x) { *(@V_any *)p = x; }",
    "load_stride": "GW_INLINE @V NAME(const @T *p, int64_t s) { return (@V){@EACH(p[# * s])@}; }",
    "gather": "GW_INLINE @V NAME(const @T *p, const int64_t *at) { return (@V){@EACH(p[at[#]])@}; }",
    "store_stride": """\
GW_INLINE void NAME(@T *p, int64_t s, @V x) {
    for (int i = 0; i < @L; ++i)
        p[i * s] = x[i];
}""",
    "scatter": """\
GW_INLINE void NAME(@T *p, const int64_t *at, @V x) {
    for (int i = 0; i < @L; ++i)
        p[at[i]] = x[i];
}""",
    "load_mask": """\
GW_INLINE @V NAME(const @T *p, @M mask) { /* zeros where masked off */
    @V x = {0};
    for (int i = 0; i < @L; ++i)
        if (mask[i])
            x[i] = p[i];
    return x;
}""",
    "store_mask": """\
GW_INLINE void NAME(@T *p, @V x, @M mask) {
    for (int i = 0; i < @L; ++i)
        if (mask[i])
            p[i] = x[i];
}""",
    "load_stride_mask": """\
GW_INLINE @V NAME(const @T *p, int64_t s, @M mask) {
    @V x = {0};
    for (int i = 0; i < @L; ++i)
        if (mask[i])
            x[i] = p[i * s];
    return x;
}""",
    "gather_mask": """\
GW_INLINE @V NAME(const @T *p, const int64_t *at, @M mask) {
    @V x = {0};
    for (int i = 0; i < @L; ++i)
        if (mask[i])
            x[i] = p[at[i]];
    return x;
}""",
    "store_stride_mask": """\
GW_INLINE void NAME(@T *p, int64_t s, @V x, @M mask) {
    for (int i = 0; i < @L; ++i)
        if (mask[i])
            p[i * s] = x[i];
}""",
    "scatter_mask": """\
GW_INLINE void NAME(@T *p, const int64_t *at, @V x, @M mask) {
    for (int i = 0; i < @L; ++i)
        if (mask[i])
            p[at[i]] = x[i];
}""",
    "power_positive": POSITIVE,
    "choose": "GW_INLINE @V NAME(@I take, @V yes, @V no) {\n"
    "    return (@V)(((@I)yes & take) | ((@I)no & ~take));\n}",
    "select": """\
GW_INLINE @V NAME(@M mask, @V yes, @V no) {
    const @I take = __builtin_convertvector(mask, @I);
    return (@V)(((@I)yes & take) | ((@I)no & ~take));
}""",
    "divided": "GW_INLINE @V NAME(@V x, @T c) { return x / c; }",
    "div_by_sum": "GW_INLINE @V NAME(@V x, @T c) { return @divided@(x, c); }",
    "max": _EXTREMUM.replace("SIGN", ">"),
    "min": _EXTREMUM.replace("SIGN", "<"),
    "most": _NUMBER_FIRST.replace("VERB", "vmax"),
    "least": _NUMBER_FIRST.replace("VERB", "vmin"),
    "clamp": """\
GW_INLINE @V NAME(@V x, @V low, @V high) { /* low if NaN: the instruction gives its second operand then */
    @V y;
    __asm__("vmaxp@SUFFIX %2, %1, %0\\n\\tvminp@SUFFIX %3, %0, %0"
            : "=&@REG"(y) : "@REG"(x), "@REG"(low), "@REG"(high));
    return y;
}""",
    "quantize": "GW_INLINE @V NAME(@V x, @V zero, @V low, @V high) {\n"
    "    return @round@(@clamp@(x, low - zero, high - zero)) + zero;\n}",
    "quantize_to_integers": """\
GW_INLINE @I NAME(@V x, @V zero, @V low, @V high) {
    const @V clipped = @clamp@(x, low - zero, high - zero);
    @I y;
    __asm__("vcvtps2dq %1, %0" : "=@REG"(y) : "@REG"(clipped)); /* ties to even */
    return y + __builtin_convertvector(zero, @I);
}""",
    "abs": "GW_INLINE @V NAME(@V x) { return (@V)((@I)x & ~(@I)@splat@(-(@T)0)); }",
    "sqrt": """\
GW_INLINE @V NAME(@V x) {
    @V y;
    __asm__("vsqrtp@SUFFIX %1, %0" : "=@REG"(y) : "@REG"(x));
    return y;
}""",
    "sign": """\
GW_INLINE @V NAME(@V x) {
    const @V zero = {0}, one = zero + 1;
    const @I up = (@I)one & (x > zero), down = (@I)(zero - one) & (x < zero);
    return (@V)(up | down | ((@I)x & (x != x)));
}""",
    "round": _ROUNDING.replace("MODE", "8"),
    "floor": _ROUNDING.replace("MODE", "9"),
    "ceil": _ROUNDING.replace("MODE", "10"),
    "trunc": _ROUNDING.replace("MODE", "11"),
}  # fmt: skip
