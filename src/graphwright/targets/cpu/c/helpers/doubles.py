"""Elementary functions of f64 vectors as C.

Range reduction is as in ``polynomials``. The exponential is a Taylor series, the logarithm the series of 2
atanh(f / (2 + f)) (J.-M. Muller, "Elementary Functions", 3rd ed., 2016). NaN, infinities, -0 and subnormals
follow NumPy.
"""

from __future__ import annotations

import math
from typing import Final

from graphwright.targets.cpu.c.helpers.horner import horner

_LN2: Final = ("0.6931471805599453", "2.3190468138462996e-17")
_HALF_PI: Final = ("1.5707963267948966", "6.123233995736766e-17")
_MAGIC: Final = "6755399441055744.0"
"""1.5 * 2^52: adding it rounds a number to an integer, which is in the last bits of the sum."""
_EXPONENTIAL: Final = horner("r", *(repr(1 / math.factorial(n)) for n in range(14)))
_LOGARITHM: Final = horner("z", *(repr(2 / n) for n in range(3, 23, 2)))

TANGENT: Final = f"""\
GW_INLINE @V NAME(@V x) {{ /* to 2^-34; |x| <= 2^27 */
    const @V shifted = x * {2 / math.pi!r} + {_MAGIC}, n = shifted - {_MAGIC};
    const @V r = x - n * {_HALF_PI[0]} - n * {_HALF_PI[1]}, z = r * r;
    const @V p = r * (10395.0 + z * (z * 21.0 - 1260.0));
    const @V q = 10395.0 + z * (z * (210.0 - z) - 4725.0);
    const @I odd = ((@I)shifted & 1) != 0; /* there tan(x) = -1 / tan(r) */
    return @choose@(odd, -q, p) / @choose@(odd, p, q);
}}"""
"""The tangent by Lambert's continued fraction, on a quarter of a turn."""

DOUBLES: Final[dict[str, str]] = {
    "tangent": TANGENT,
    "exp": f"""\
GW_INLINE @V NAME(@V x) {{
    x = @choose@(x > 710.0, @splat@(710.0), x); /* beyond: infinity */
    x = @choose@(x < -746.0, @splat@(-746.0), x); /* below: zero */
    const @V shifted = x * {math.log2(math.e)!r} + {_MAGIC}, n = shifted - {_MAGIC};
    const @V r = x - n * {_LN2[0]} - n * {_LN2[1]}, y = {_EXPONENTIAL};
    const @I i = (@I)shifted - (@I)@splat@({_MAGIC}), half = i >> 1;
    return y * (@V)((half + 1023) << 52) * (@V)((i - half + 1023) << 52);
}}""",
    "exp_nonpositive": "GW_INLINE @V NAME(@V x) { return @exp@(x); }",
    "log": f"""\
GW_INLINE @V NAME(@V x) {{
    const @I tiny = x < 2.2250738585072014e-308;
    const @V u = @choose@(tiny, x * 18014398509481984.0, x); /* subnormals: times 2^54 */
    const @I i = (@I)u - 0x3fe6a09e667f3bcd, k = (i >> 52) - (tiny & 54);
    const @V f = (@V)((i & 0xfffffffffffff) + 0x3fe6a09e667f3bcd) - 1.0; /* in [sqrt(1/2), sqrt(2)) - 1 */
    const @V e = (@V)(k + (@I)@splat@({_MAGIC})) - {_MAGIC};
    const @V s = f / (2.0 + f), z = s * s, half = 0.5 * f * f;
    @V y = e * {_LN2[0]} - ((half - (s * (half + z * ({_LOGARITHM})) + e * {_LN2[1]})) - f);
    y = @choose@(x == 0.0, @splat@(-__builtin_inf()), y);
    y = @choose@(x < 0.0, @splat@(__builtin_nan("")), y);
    return @choose@((x == __builtin_inf()) | (x != x), x, y);
}}""",
    "sigmoid": """\
GW_INLINE @V NAME(@V x) {
    const @V e = @exp@(-@abs@(x));
    return @choose@(x < 0.0, e, @splat@(1.0)) / (1.0 + e);
}""",
}
"""C templates by function, in the notation of :meth:`~graphwright.targets.cpu.c.prelude.Prelude.expand`."""
