"""Exponentials of f32 vectors, and what is computed by them, with AVX2.

AVX2 has no instruction that multiplies by 2^n, so the code builds the float 2^n. Adding 1.5 * 2^23, plus the
bias of the exponent, to x / log(2) rounds it to the integer n: a sum of this magnitude has no fraction, and
its last bits are n plus the bias. Shifted left by 23 bits, they are the exponent of 2^n. Where a result may
be subnormal, the float is 2^(n + 64), and the last factor is 2^-64: then the result is rounded once, and NaN
stays NaN. Long polynomials are evaluated as sums of pairs of terms, which shortens the chain of dependent
operations: 16 registers are too few to hide its latency by computing more vectors at once. See
:mod:`.polynomials` for the methods.
"""

from __future__ import annotations

from typing import Final

from graphwright.targets.cpu.c.helpers.horner import horner

_EXPONENTIAL: Final = horner("r", "0.5f", "0.1666652f", "0.041666403f", "0.00836883f", "0.0013940561f")
_EXPONENTIAL_M1: Final = """\
(0.5f + r * 0.16666543f) + z * ((0.041666433f + r * 0.008366556f) + z * 0.0013937921f)"""
_HALVES_UP: Final = """\
(2 * 0.5000009f + h * (4 * 0.16664769f)) \
+ z * ((8 * 0.04179485f + h * (16 * 0.007962586f)) + z * (32 * 0.0018603902f))"""
"""The polynomial of (exp(2 h) - 1 - 2 h) / (2 h^2) for 0 <= 2 h < log(2)."""

_REDUCE: Final = """\
    const @V shifted = x * 1.44269504f + MAGIC, n = shifted - MAGIC;
    const @V r = x - n * 0.693147182f - n * -1.90465421e-9f;
"""
_SIGN: Final = "((@I)x & (@I)@splat@(-0.0f))"

_BIASED: Final = {bias: f"{12582912 + bias}.0f" for bias in (126, 127, 191, 254)}
"""1.5 * 2^23 plus a bias, which is added to n in the exponent."""


def _reduce(bias: int) -> str:
    return _REDUCE.replace("MAGIC", _BIASED[bias])


EXPONENTIALS_V3: Final[dict[str, str]] = {
    "exp": f"""\
GW_INLINE @V NAME(@V x) {{
    x = @least@(@splat@(89.0f), x); /* beyond: infinity */
    x = @most@(@splat@(-104.0f), x); /* below: zero */
{_reduce(254)}\
    const @V y = 1.0f + r * (1.0f + r * ({_EXPONENTIAL}));
    const @I sum = (@I)shifted, half = sum >> 1; /* two factors: it may be subnormal or overflow */
    return y * (@V)(half << 23) * (@V)((sum - half) << 23);
}}""",
    "exp_nonpositive": f"""\
GW_INLINE @V NAME(@V x) {{ /* x <= 0 */
    x = @most@(@splat@(-104.0f), x); /* below: zero */
{_reduce(191)}\
    const @V y = 1.0f + r * (1.0f + r * ({_EXPONENTIAL}));
    return y * (@V)((@I)shifted << 23) * 0x1p-64f;
}}""",
    "expm1": f"""\
GW_INLINE @V NAME(@V x0) {{
    @V x = @least@(@splat@(89.0f), x0);
    x = @most@(@splat@(-30.0f), x);
{_reduce(126)}\
    const @V z = r * r, p = r + z * ({_EXPONENTIAL_M1});
    const @V t = (@V)((@I)shifted << 23); /* half of 2^n, which may be too large */
    const @V y = (p * t + (t - 0.5f)) * 2.0f;
    return @select@(@abs@(x0) < 2e-8f, x0, y);
}}""",
    "tanh": f"""\
GW_INLINE @V NAME(@V x) {{ /* m / (m + 1), m = (exp(2 |x|) - 1) / 2 = 2^n s + (2^n - 1) / 2, s >= 0 */
    const @V a = @least@(@splat@(9.1f), @abs@(x)); /* beyond: 1 */
    const @V shifted = (a * 2.88539008f - 0.5f) + {_BIASED[126]}, n = shifted - {_BIASED[126]};
    const @V h = a - n * 0.346573591f - n * -9.52327106e-10f, z = h * h;
    const @V s = h + z * ({_HALVES_UP});
    const @V t = (@V)((@I)shifted << 23); /* half of 2^n */
    const @V m = (t + t) * s + (t - 0.5f), d = m + 1.0f, d_low = (1.0f - d) + m; /* what d drops */
    const @V inverse = 1.0f / d, y = m * inverse;
    return (@V)((@I)(y + ((m - y * d) - y * d_low) * inverse) | {_SIGN});
}}""",
    "sigmoid": f"""\
GW_INLINE @V NAME(@V x) {{ /* 2^n / d, d = (2^n + 1) + s, s = exp(n log 2 - x) - 1, and what d drops */
    x = @least@(@splat@(20.0f), x); /* beyond: 1 */
    x = @most@(@splat@(-110.0f), x); /* below: 0 */
    const @V shifted = x * 1.44269504f + {_BIASED[191]}, n = shifted - {_BIASED[191]};
    const @V r = n * 0.693147182f - x + n * -1.90465421e-9f;
    const @V s = r * (1.0f + r * ({_EXPONENTIAL})), t = (@V)((@I)shifted << 23); /* 2^(n + 64) */
    const @V one = 1.0f + t * 0x1p-64f, d = one + s, d_low = (one - d) + s;
    const @V y = 1.0f / d;
    return (y + y * ((1.0f - d * y) - d_low * y)) * t * 0x1p-64f;
}}""",
    "erf": f"""\
GW_INLINE @V NAME(@V x) {{ /* 1 - exp(-a q(a)), a = |x| */
    const @V a = @least@(@splat@(4.0f), @abs@(x)), b = a * a; /* beyond: 1 */
    const @V first = -5.4081262e-08f + a * 0.6366194f, second = 0.10277776f + a * -0.01915279f;
    const @V third = -0.00016088889f + a * 0.0016675049f, fourth = -0.0006330899f + a * 0.000117710086f;
    const @V q = first + b * (second + b * (third + b * (fourth + b * -9.263743e-06f)));
    const @V e = -(a * 1.12837923f + a * q);
    const @V shifted = e * 1.44269504f + {_BIASED[127]}, n = shifted - {_BIASED[127]};
    const @V r = e - n * 0.693147182f, z = r * r; /* where n is large, so that its error is, exp is small */
    const @V p = r + z * ({_EXPONENTIAL_M1});
    const @V t = (@V)((@I)shifted << 23); /* 2^n */
    const @V y = (1.0f - t) - p * t;
    return (@V)((@I)y | {_SIGN});
}}""",
}
"""C templates by function, as in :data:`~graphwright.targets.cpu.c.helpers.polynomials.POLYNOMIALS`."""
