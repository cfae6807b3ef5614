"""Bessel functions of orders 0 and 1, and the Airy function Ai.

Near 0, a function is a polynomial that was fitted to it. For larger arguments it is an asymptotic form (9.2,
9.7 and 10.4 of M. Abramowitz and I. A. Stegun, "Handbook of Mathematical Functions", 1964) whose factors are
polynomials of the reciprocal of the argument. This is the method of S. L. Moshier's Cephes library (1989);
``benchmarks/special_coefficients.py`` computes the coefficients.
"""

from __future__ import annotations

import math

from graphwright.ops.core.aten_imports import elementwise
from graphwright.ops.special import bessel_coefficients as c
from graphwright.ops.special.formula import Real, absolute, cos, exp, fit, log, sin, special, sqrt, where

_INFINITY = math.inf
_NAN = math.nan
_NEAR_I, _NEAR_K, _NEAR_J = 8.0, 2.0, 8.0
"""The largest arguments of the polynomials near 0, for each kind of function."""
_AIRY = 4.0
_ZETA = 2 / 3 * _AIRY**1.5


def i0e(x: Real) -> Real:
    a = absolute(x)
    beyond = fit(_NEAR_I / a, 0, 1, c.I0_BEYOND) / sqrt(a)
    return where(a <= _NEAR_I, fit(a, 0, _NEAR_I, c.I0_NEAR), beyond)


def i0(x: Real) -> Real:
    return exp(absolute(x)) * i0e(x)


def i1e(x: Real) -> Real:
    a = absolute(x)
    beyond = fit(_NEAR_I / a, 0, 1, c.I1_BEYOND) / sqrt(a)
    size = where(a <= _NEAR_I, a * fit(a, 0, _NEAR_I, c.I1_NEAR), beyond)
    return where(x < 0.0, -size, size)


def i1(x: Real) -> Real:
    return exp(absolute(x)) * i1e(x)


def _k(x: Real, near: Real, beyond: Real, pole: Real) -> Real:
    """``near`` for small x and ``beyond`` for large x; ``pole`` for 0, NaN for negative x."""
    return where(x == 0.0, pole, where(x < 0.0, _NAN, where(x <= _NEAR_K, near, beyond)))


def _k0_near(x: Real) -> Real:
    return fit(x * x, 0, _NEAR_K**2, c.K0_NEAR) - log(x * 0.5) * i0(x)


def _k1_near(x: Real) -> Real:
    return fit(x * x, 0, _NEAR_K**2, c.K1_NEAR) / x + log(x * 0.5) * i1(x)


def _k0_beyond(x: Real) -> Real:
    return fit(_NEAR_K / x, 0, 1, c.K0_BEYOND) / sqrt(x)


def _k1_beyond(x: Real) -> Real:
    return fit(_NEAR_K / x, 0, 1, c.K1_BEYOND) / sqrt(x)


def k0(x: Real) -> Real:
    return _k(x, _k0_near(x), exp(-x) * _k0_beyond(x), _INFINITY)


def k0e(x: Real) -> Real:
    return _k(x, exp(x) * _k0_near(x), _k0_beyond(x), _INFINITY)


def k1(x: Real) -> Real:
    return _k(x, _k1_near(x), exp(-x) * _k1_beyond(x), _INFINITY)


def k1e(x: Real) -> Real:
    return _k(x, exp(x) * _k1_near(x), _k1_beyond(x), _INFINITY)


def _asymptotic(a: Real, order: int, second: bool) -> Real:
    """The asymptotic form (9.2.5 and 9.2.6) of J of ``order`` for large ``a``, or of Y if ``second``."""
    t = _NEAR_J / a
    p = fit(t * t, 0, 1, (c.P0, c.P1)[order])
    q = t * fit(t * t, 0, 1, (c.Q0, c.Q1)[order])
    phase = a - (0.25 + 0.5 * order) * math.pi
    wave = p * sin(phase) + q * cos(phase) if second else p * cos(phase) - q * sin(phase)
    return sqrt(2 / math.pi / a) * wave


def j0(x: Real) -> Real:
    a = absolute(x)
    return where(a <= _NEAR_J, fit(a * a, 0, _NEAR_J**2, c.J0_NEAR), _asymptotic(a, 0, second=False))


def j1(x: Real) -> Real:
    a = absolute(x)
    size = where(a <= _NEAR_J, a * fit(a * a, 0, _NEAR_J**2, c.J1_NEAR), _asymptotic(a, 1, second=False))
    return where(x < 0.0, -size, size)


def y0(x: Real) -> Real:
    z = x * x
    near = 2 / math.pi * log(x) * fit(z, 0, _NEAR_J**2, c.J0_NEAR) + fit(z, 0, _NEAR_J**2, c.Y0_NEAR)
    return where(x <= _NEAR_J, near, _asymptotic(x, 0, second=True))


def y1(x: Real) -> Real:
    z = x * x
    rest = log(x) * x * fit(z, 0, _NEAR_J**2, c.J1_NEAR) - 1.0 / x
    near = x * fit(z, 0, _NEAR_J**2, c.Y1_NEAR) + 2 / math.pi * rest
    return where(x == 0.0, -_INFINITY, where(x <= _NEAR_J, near, _asymptotic(x, 1, second=True)))


def spherical_j0(x: Real) -> Real:
    a = absolute(x)
    return where(a == 0.0, 1.0, where(a == _INFINITY, 0.0, sin(x) / x))


def airy_ai(x: Real) -> Real:
    a = absolute(x)
    root = sqrt(a)
    zeta = 2 / 3 * a * root
    t = _ZETA / zeta
    beyond = exp(-zeta) * fit(t, 0, 1, c.AIRY_BEYOND) / sqrt(root)
    phase = zeta + math.pi / 4
    p, q = fit(t * t, 0, 1, c.AIRY_P), t * fit(t * t, 0, 1, c.AIRY_Q)
    below = (p * sin(phase) - q * cos(phase)) / (math.sqrt(math.pi) * sqrt(root))
    y = where(a <= _AIRY, fit(x, -_AIRY, _AIRY, c.AIRY_NEAR), where(x < 0.0, below, beyond))
    return where(a == _INFINITY, _NAN, y)


BesselI0 = special("BesselI0", "The modified Bessel function I of order 0", i0)
BesselI1 = special("BesselI1", "The modified Bessel function I of order 1", i1)
ScaledBesselI0 = special("ScaledBesselI0", "``exp(-|x|) * I0(x)``", i0e)
ScaledBesselI1 = special("ScaledBesselI1", "``exp(-|x|) * I1(x)``", i1e)
BesselK0 = special("BesselK0", "The modified Bessel function K of order 0; NaN below 0", k0, fill="positive")
BesselK1 = special("BesselK1", "The modified Bessel function K of order 1; NaN below 0", k1, fill="positive")
ScaledBesselK0 = special("ScaledBesselK0", "``exp(x) * K0(x)``", k0e, fill="positive")
ScaledBesselK1 = special("ScaledBesselK1", "``exp(x) * K1(x)``", k1e, fill="positive")
BesselJ0 = special("BesselJ0", "The Bessel function J of order 0", j0)
BesselJ1 = special("BesselJ1", "The Bessel function J of order 1", j1)
BesselY0 = special("BesselY0", "The Bessel function Y of order 0; NaN below 0", y0, fill="positive")
BesselY1 = special("BesselY1", "The Bessel function Y of order 1; NaN below 0", y1, fill="positive")
SphericalBesselJ0 = special("SphericalBesselJ0", "``sin(x) / x``; 1 for 0", spherical_j0)
AiryAi = special("AiryAi", "The Airy function Ai; NaN for infinities", airy_ai)

_NAMES = {
    BesselI0: ("i0", "special_modified_bessel_i0"),
    BesselI1: ("special_i1", "special_modified_bessel_i1"),
    ScaledBesselI0: ("special_i0e",),
    ScaledBesselI1: ("special_i1e",),
    BesselK0: ("special_modified_bessel_k0",),
    BesselK1: ("special_modified_bessel_k1",),
    ScaledBesselK0: ("special_scaled_modified_bessel_k0",),
    ScaledBesselK1: ("special_scaled_modified_bessel_k1",),
    BesselJ0: ("special_bessel_j0",),
    BesselJ1: ("special_bessel_j1",),
    BesselY0: ("special_bessel_y0",),
    BesselY1: ("special_bessel_y1",),
    SphericalBesselJ0: ("special_spherical_bessel_j0",),
    AiryAi: ("special_airy_ai",),
}
for _cls, _names in _NAMES.items():
    _cls.aten = {name: elementwise(_cls(), floats=True) for name in _names}
