"""Elementary functions of f32 vectors as C, by polynomials on a reduced range.

Range reduction after W. J. Cody and W. Waite, "Software Manual for the Elementary Functions" (1980), with
fused multiply-add; structure as in J.-M. Muller, "Elementary Functions" (3rd ed., 2016). The coefficients
are our own: ``benchmarks/vmath_coefficients.py`` prints them. NaN, infinities, -0 and subnormals follow
NumPy; f32 throughout.
"""

from __future__ import annotations

from typing import Final

from graphwright.targets.cpu.c.helpers.horner import horner

_LN2: Final = ("0.693147182f", "-1.90465421e-9f")
_LOGARITHM: Final = horner(
    "f", "0.3333333f", "-0.2500082f", "0.20001242f", "-0.16623409f", "0.1420158f", "-0.1315961f",
    "0.12762217f", "-0.07636439f"
)  # fmt: skip
_SINE: Final = horner("z", "-0.16666667f", "0.008333379f", "-0.00019853072f", "2.8326801e-06f")
_COSINE: Final = horner("z", "0.041666646f", "-0.001388731f", "2.4432327e-05f")
_ARC_SINE: Final = horner("z", "0.16666752f", "0.07495309f", "0.045469306f", "0.024183769f", "0.04216035f")
_ARC_TANGENT: Final = horner(
    "z", "-0.333333f", "0.1999853f", "-0.14264016f", "0.109508805f", "-0.08399306f", "0.05788139f",
    "-0.031096987f", "0.010868691f", "-0.0017828245f"
)  # fmt: skip
_QUARTER_TURN: Final = ("1.57079637f", "-4.37113883e-8f")
_HALF_ARC: Final = f"""\
    const @V a = @abs@(x);
    const @I large = a > 0.5f; /* there by half the angle of 1 - x */
    const @V z = @select@(large, 0.5f - 0.5f * a, a * a), s = @select@(large, @sqrt@(z), a);
    const @V p = s + s * z * ({_ARC_SINE});
"""

_LARGE: Final = "40000"
"""Beyond this, sine and cosine call the C library for each lane: range reduction with three parts of pi/2 is
too inexact.
"""
_CIRCULAR: Final = f"""\
double DOUBLE(double);
GW_INLINE @V NAME(@V x) {{
    const @V n = (x * 0.636619772f + 12582912.0f) - 12582912.0f;
    const @V r = x - n * 1.57079637f - n * -4.37113883e-8f - n * -1.71512451e-15f, z = r * r;
    const @V sine = r + r * z * ({_SINE});
    const @V cosine = 1.0f - 0.5f * z + z * z * ({_COSINE});
    const @I quarter = __builtin_convertvector(n, @I)QUARTER;
    @V y = @select@((quarter & 1) == 1, cosine, sine);
    y = (@V)((@I)y ^ (quarter & 2) << 30);
KEEP    const @I large = @abs@(x) > {_LARGE}.0f;
    if (__builtin_expect(@any@(large), 0))
        for (int i = 0; i < @L; ++i)
            if (large[i])
                y[i] = (float)DOUBLE((double)x[i]);
    return y;
}}"""

_KEEP_ZERO: Final = "    y = @select@(x == 0.0f, x, y); /* -0 */\n"

HELPERS: Final[dict[str, str]] = {
    "powered": """\
GW_INLINE @V NAME(@V x, @T y) { /* one exponent for all: those that need no logarithm */
    if (y == 0.5f) /* pow is infinite for -inf, and +0 for -0 */
        return @select@(x == -__builtin_inff(), @splat@(__builtin_inff()), @sqrt@(x + 0.0f));
    if (y == 3.0f)
        return x * x * x;
    if (y == -1.0f)
        return 1.0f / x;
    return @pow@(x, @splat@(y));
}""",
    "with_sign": "GW_INLINE @V NAME(@V y, @V x) { /* y >= 0 with the sign of x */\n"
    "    return (@V)((@I)y | ((@I)x & (@I)@splat@(-0.0f)));\n}",
    "any": """\
GW_INLINE int NAME(@I mask) {
    int found = 0;
    for (int i = 0; i < @L; ++i)
        found |= mask[i];
    return found;
}""",
    "log_of": f"""\
GW_INLINE @V NAME(@V e, @V f) {{ /* log(2^e * (1 + f)) */
    const @V y = f * f * (f * ({_LOGARITHM}) - 0.5f);
    return e * {_LN2[0]} + (f + (y + e * {_LN2[1]}));
}}""",
}
"""Helpers that several functions share."""

POLYNOMIALS: Final[dict[str, str]] = {
    "log": """\
GW_INLINE @V NAME(@V x) {
    const @I tiny = x < 1.17549435e-38f;
    const @V u = @select@(tiny, x * 8388608.0f, x); /* subnormals: times 2^23 */
    const @I i = (@I)u - 0x3f3504f3, e = (i >> 23) - (tiny & 23);
    const @V f = (@V)((i & 0x7fffff) + 0x3f3504f3) - 1.0f; /* in [sqrt(1/2), sqrt(2)) - 1 */
    @V y = @log_of@(__builtin_convertvector(e, @V), f);
    y = @select@(x == 0.0f, @splat@(-__builtin_inff()), y);
    y = @select@(x < 0.0f, @splat@(__builtin_nanf("")), y);
    return @select@((x == __builtin_inff()) | (x != x), x, y);
}""",
    "log1p": """\
GW_INLINE @V NAME(@V x) {
    const @V u = 1.0f + x;
    const @I i = (@I)u - 0x3f3504f3, e = i >> 23;
    const @V lost = @select@(x > 1.0f, 1.0f - (u - x), x - (u - 1.0f)); /* what rounding 1 + x dropped */
    const @V f = ((@V)((i & 0x7fffff) + 0x3f3504f3) - 1.0f) + lost * (@V)((127 - e) << 23 & (e < 100));
    @V y = @log_of@(__builtin_convertvector(e, @V), f);
    y = @select@(x == -1.0f, @splat@(-__builtin_inff()), y);
    y = @select@(x < -1.0f, @splat@(__builtin_nanf("")), y);
    return @select@((x == __builtin_inff()) | (x != x) | (@abs@(x) < 2e-8f), x, y);
}""",
    "asin": f"""\
GW_INLINE @V NAME(@V x) {{
{_HALF_ARC}\
    return @with_sign@(@select@(large, {_QUARTER_TURN[0]} - (2.0f * p - {_QUARTER_TURN[1]}), p), x);
}}""",
    "acos": f"""\
GW_INLINE @V NAME(@V x) {{
{_HALF_ARC}\
    const @V arc = @select@(x < 0.0f, -p, p); /* of x, or twice of it of sqrt(z) */
    const @V twice = 2.0f * p, rest = 2.0f * {_QUARTER_TURN[0]} - (twice - 2.0f * {_QUARTER_TURN[1]});
    const @V far = @select@(x < 0.0f, rest, twice);
    return @select@(large, far, {_QUARTER_TURN[0]} - (arc - {_QUARTER_TURN[1]}));
}}""",
    "atan": f"""\
GW_INLINE @V NAME(@V x) {{
    const @V a = @abs@(x);
    const @I large = a > 1.0f; /* there atan(a) = pi / 2 + atan(-1 / a) */
    const @V r = @select@(large, -1.0f / a, a), z = r * r;
    const @V p = r + r * z * ({_ARC_TANGENT});
    return @with_sign@(@select@(large, {_QUARTER_TURN[0]} + (p + {_QUARTER_TURN[1]}), p), x);
}}""",
    "tan": """\
double tan(double);
GW_INLINE @V NAME(@V x) {
    @V y = @tangent_halves@(x);
    const @I large = @abs@(x) > 134217728.0f;
    if (__builtin_expect(@any@(large), 0))
        for (int i = 0; i < @L; ++i)
            if (large[i])
                y[i] = (float)tan((double)x[i]);
    return y;
}""",
    "sinh": """\
GW_INLINE @V NAME(@V x) {
    const @V a = @abs@(x), e = @expm1@(a), h = @exp@(0.5f * a);
    return @with_sign@(@select@(a > 80.0f, 0.5f * h * h, 0.5f * (e + e / (e + 1.0f))), x);
}""",
    "cosh": """\
GW_INLINE @V NAME(@V x) {
    const @V a = @abs@(x), e = @exp@(a), h = @exp@(0.5f * a);
    return @select@(a > 80.0f, 0.5f * h * h, 0.5f * e + 0.5f / e);
}""",
    "asinh": f"""\
GW_INLINE @V NAME(@V x) {{
    const @V a = @abs@(x), t = a * a;
    const @I large = a > 1e9f; /* there log(2 a), as a^2 would overflow */
    const @V y = @log1p@(@select@(large, a, a + t / (1.0f + @sqrt@(1.0f + t))));
    return @with_sign@(y + @select@(large, @splat@({_LN2[0]}), @splat@(0.0f)), x);
}}""",
    "acosh": f"""\
GW_INLINE @V NAME(@V x) {{
    const @V t = x - 1.0f;
    const @I large = x > 1e9f;
    const @V y = @log1p@(@select@(large, x, t + @sqrt@(t) * @sqrt@(t + 2.0f)));
    return y + @select@(large, @splat@({_LN2[0]}), @splat@(0.0f));
}}""",
    "atanh": """\
GW_INLINE @V NAME(@V x) {
    const @V a = @abs@(x);
    return @with_sign@(0.5f * @log1p@(2.0f * a / (1.0f - a)), x);
}""",
    "sin": _CIRCULAR.replace("DOUBLE", "sin").replace("QUARTER", "").replace("KEEP", _KEEP_ZERO),
    "cos": _CIRCULAR.replace("DOUBLE", "cos").replace("QUARTER", " + 1").replace("KEEP", ""),
}
"""C templates by function (notation of :meth:`Prelude.expand`). For the largest errors
see ``vmath.MAX_ULP``.
"""
