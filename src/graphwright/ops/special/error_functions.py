"""The scaled complementary error function, the inverse error function, and the normal quantile."""

from __future__ import annotations

import math

from graphwright.ops.core.aten_imports import elementwise
from graphwright.ops.special.formula import Real, erfc, exp, fit, log, special, sqrt, where
from graphwright.ops.special.quantile_coefficients import QUANTILE_BETWEEN, QUANTILE_BEYOND, QUANTILE_NEAR

_LARGE = 25.0
"""The smallest argument of the asymptotic series. Its first terms are exact to f64 from here on, and below it
erfc is not subnormal.
"""


def erfcx(x: Real) -> Real:
    """``exp(x * x) * erfc(x)``. The series for large x is 7.1.23 of Abramowitz and Stegun (1964)."""
    half = 0.5 / (x * x)
    series = 1.0 - half * (1.0 - 3.0 * half * (1.0 - 5.0 * half * (1.0 - 7.0 * half)))
    beyond = series * (1 / math.sqrt(math.pi)) / x
    return where(x < _LARGE, exp(x * x) * erfc(x), beyond)


def _quantile(w: Real) -> Real:
    """``erfinv(x) / x`` from ``w = -log(1 - x * x)`` (M. Giles, "Approximating the erfinv
    function", 2010).
    """
    root = sqrt(w)
    between = fit(root, math.sqrt(6), 6, QUANTILE_BETWEEN)
    beyond = root * fit(1.0 / root, 1 / 28, 1 / 6, QUANTILE_BEYOND)
    return where(w <= 6.0, fit(w, 0, 6, QUANTILE_NEAR), where(w <= 36.0, between, beyond))


def erfinv(x: Real) -> Real:
    return x * _quantile(-log((1.0 - x) * (1.0 + x)))


def ndtri(p: Real) -> Real:
    return math.sqrt(2) * (2.0 * p - 1.0) * _quantile(-log(4.0 * p * (1.0 - p)))


ScaledErfc = special(
    "ScaledErfc", "``exp(x * x) * erfc(x)``, also if a factor overflows or underflows", erfcx
)
ErfInverse = special("ErfInverse", "The inverse of the error function; NaN outside [-1, 1]", erfinv,
                     fill="unit")  # fmt: skip
NormalQuantile = special("NormalQuantile", "The quantile function of the standard normal distribution", ndtri,
                         fill="unit")  # fmt: skip

ScaledErfc.aten = {"special_erfcx": elementwise(ScaledErfc(), floats=True)}
ErfInverse.aten = {"erfinv": elementwise(ErfInverse(), floats=True)}
NormalQuantile.aten = {"special_ndtri": elementwise(NormalQuantile(), floats=True)}
