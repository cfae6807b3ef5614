"""``pow`` of f32 vectors: ``2^(y log2 |x|)`` in f64 vectors of half the lanes, rounded once.

The logarithm is the series of atanh((m - 1) / (m + 1)), the exponential a Taylor series (both in J.-M.
Muller, "Elementary Functions", 3rd ed., 2016). The relative error before rounding is about 2^-32. Special
cases follow C's ``pow`` (C11, F.10.4.4).
"""

from __future__ import annotations

import math
from typing import Final

from graphwright.targets.cpu.c.helpers.horner import horner

_LOGARITHM: Final = horner("z", *(repr(2 / math.log(2) / n) for n in range(1, 15, 2)))
_EXPONENTIAL: Final = horner("r", *(repr(math.log(2) ** n / math.factorial(n)) for n in range(9)))

POSITIVE: Final = f"""\
GW_INLINE @V NAME(@V a, @V y) {{ /* a^y, a >= 0, results beyond those of f32 cut off */
    const @V magic = @splat@(6755399441055744.0); /* 1.5 * 2^52: no bits for a fraction */
    const @I raised = (@I)a - 0x3fe6a09e667f3bcd + ((int64_t)1 << 62);
    const @I k = (@I)((u64x@L)raised >> 52); /* the exponent + 1024, of m in [sqrt(1/2), sqrt(2)) */
    const @V e = (@V)(k | 0x4330000000000000) - (4503599627370496.0 + 1024.0);
    const @V m = (@V)((@I)a - ((k - 1024) << 52));
    const @V s = (m - 1.0) / (m + 1.0), z = s * s;
    @V log2 = e + s * ({_LOGARITHM});
    log2 = @choose@(a == 0.0, @splat@(-__builtin_inf()), log2);
    log2 = @choose@(a < __builtin_inf(), log2, a); /* infinity and NaN */
    @V t = y * log2;
    t = @choose@(t > 200.0, @splat@(200.0), t);
    t = @choose@(t < -200.0, @splat@(-200.0), t);
    const @V shifted = t + magic, r = t - (shifted - magic);
    return ({_EXPONENTIAL}) * (@V)(((@I)shifted + 1023) << 52);
}}"""
"""For positive f64 vectors; ``u64xL`` is the type of their bits."""

POWER: Final = """\
GW_INLINE @V NAME(@V x, @V y) {
    const @V a = @abs@(x);
    @V p = @power_halves@(a, y);
    const @I even = @abs@(y) >= 16777216.0f, whole = @round@(y) == y;
    const @I odd = whole & -(__builtin_convertvector((@V)((@I)y & ~even), @I) & 1);
    p = (@V)((@I)p ^ ((@I)x & odd & (@I)@splat@(-0.0f)));
    const @I undefined = (x < 0.0f) & (a < __builtin_inff()) & ~whole;
    p = @choose@(undefined, @splat@(__builtin_nanf("")), p);
    const @I always = (y == 0.0f) | (x == 1.0f) | ((a == 1.0f) & (@abs@(y) == __builtin_inff()));
    return @choose@(always, @splat@(1.0f), p);
}"""
"""For f32 vectors; ``power_halves`` splits them for :data:`POSITIVE`."""
