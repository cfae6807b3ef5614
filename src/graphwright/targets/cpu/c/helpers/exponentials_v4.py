"""Exponentials of f32 vectors, and what is computed by them, with AVX-512.

``vscalefps`` multiplies by 2^n, also if the result overflows or is subnormal; ``vrcp14ps`` is a reciprocal
with a relative error of at most 2^-14. See :mod:`.polynomials` for the methods.
"""

from __future__ import annotations

from typing import Final

from graphwright.targets.cpu.c.helpers.horner import horner

_REDUCE: Final = """\
    const @V n = (x * 1.44269504f + 12582912.0f) - 12582912.0f; /* rint: 1.5 * 2^23 has no fraction */
    const @V r = x - n * 0.693147182f - n * -1.90465421e-9f;
"""
_EXPONENTIAL: Final = horner("r", "0.5f", "0.1666652f", "0.041666403f", "0.00836883f", "0.0013940561f")
_EXPONENTIAL_M1: Final = horner("r", "0.5f", "0.16666543f", "0.041666433f", "0.008366556f", "0.0013937921f")
_EXPONENTIAL_UP: Final = horner(
    "r", "0.5000009f", "0.16664769f", "0.04179485f", "0.007962586f", "0.0018603902f"
)
"""The polynomial for 0 <= r < log(2)."""
_ERF: Final = horner(
    "a",
    "-5.4081262e-08f",
    "0.6366194f",
    "0.10277776f",
    "-0.01915279f",
    "-0.00016088889f",
    "0.0016675049f",
    "-0.0006330899f",
    "0.000117710086f",
    "-9.263743e-06f",
)

EXPONENTIALS_V4: Final[dict[str, str]] = {
    "scale": """\
GW_INLINE @V NAME(@V x, @V n) { /* x * 2^n */
    @V y;
    __asm__("vscalefps %2, %1, %0" : "=v"(y) : "v"(x), "v"(n));
    return y;
}""",
    "reciprocal": """\
GW_INLINE @V NAME(@V x) { /* to 2^-14 */
    @V y;
    __asm__("vrcp14ps %1, %0" : "=v"(y) : "v"(x));
    return y;
}""",
    "exp": f"""\
GW_INLINE @V NAME(@V x) {{
    /* beyond: scale gives infinity, even of NaN and infinity */
    x = @most@(@splat@(-104.0f), x); /* below: zero */
{_REDUCE}\
    return @scale@(1.0f + r * (1.0f + r * ({_EXPONENTIAL})), n);
}}""",
    "exp_nonpositive": "GW_INLINE @V NAME(@V x) { return @exp@(x); }",
    "expm1": f"""\
GW_INLINE @V NAME(@V x0) {{
    @V x = @least@(@splat@(89.0f), x0);
    x = @most@(@splat@(-30.0f), x);
{_REDUCE}\
    const @V p = r + r * r * ({_EXPONENTIAL_M1});
    const @V t = @scale@(@splat@(1.0f), n - 1.0f); /* half of 2^n, which may be too large */
    const @V y = (p * t + (t - 0.5f)) * 2.0f;
    return @select@(@abs@(x0) < 2e-8f, x0, y);
}}""",
    "tanh": f"""\
GW_INLINE @V NAME(@V x) {{ /* m / (m + 2), m = exp(2 |x|) - 1 = 2^n s + (2^n - 1), s >= 0, no digits lost */
    const @V a = @least@(@splat@(9.1f), @abs@(x)); /* beyond: 1 */
    const @V shifted = (a * 2.88539008f - 0.5f) + 12582912.0f, n = shifted - 12582912.0f;
    const @V half = a - n * 0.346573591f - n * -9.52327106e-10f, r = half + half;
    const @V s = r + r * r * ({_EXPONENTIAL_UP});
    const @V t = (@V)(((@I)shifted << 23) + 0x3f800000); /* 2^n */
    const @V m = t * s + (t - 1.0f), d = m + 2.0f, d_low = (2.0f - d) + m;
    const @V inverse = @reciprocal@(d), y = m * inverse;
    return (@V)((@I)(y + ((m - y * d) - y * d_low) * inverse) | ((@I)x & (@I)@splat@(-0.0f)));
}}""",
    "sigmoid": f"""\
GW_INLINE @V NAME(@V x) {{ /* 2^n / d, d = (2^n + 1) + s, s = exp(n log 2 - x) - 1, and what d drops */
    x = @least@(@splat@(20.0f), x); /* beyond: 1 */
    x = @most@(@splat@(-110.0f), x); /* below: 0 */
    const @V n = (x * 1.44269504f + 12582912.0f) - 12582912.0f;
    const @V r = n * 0.693147182f - x + n * -1.90465421e-9f;
    const @V s = r * (1.0f + r * ({_EXPONENTIAL})), t = @scale@(@splat@(1.0f), n);
    const @V one = 1.0f + t, d = one + s, d_low = (one - d) + s;
    const @V y = @reciprocal@(d);
    return @scale@(y + y * ((1.0f - d * y) - d_low * y), n);
}}""",
    "erf": f"""\
GW_INLINE @V NAME(@V x0) {{ /* 1 - exp(-a q(a)), a = |x| */
    const @V a = @least@(@splat@(4.0f), @abs@(x0)); /* beyond: 1 */
    const @V x = -(a * 1.12837923f + a * ({_ERF}));
    const @V shifted = x * 1.44269504f + 12582912.0f, n = shifted - 12582912.0f;
    const @V r = x - n * 0.693147182f - n * -1.90465421e-9f;
    const @V p = r + r * r * ({_EXPONENTIAL_M1});
    const @V t = (@V)(((@I)shifted << 23) + 0x3f800000); /* 2^n */
    const @V y = (1.0f - t) - p * t;
    return (@V)((@I)y | ((@I)x0 & (@I)@splat@(-0.0f)));
}}""",
}
"""C templates by function, as in :data:`~graphwright.targets.cpu.c.helpers.polynomials.POLYNOMIALS`."""
