"""Chebyshev polynomials of the first to the fourth kind (T, U, V and W). The degree is an operand.

They are computed from the angle ``t`` with ``cos(t) = x``, or ``cosh(t) = |x|`` if ``|x| > 1``: 18.5 of "NIST
Digital Library of Mathematical Functions" (F. W. J. Olver et al., 2010).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from graphwright.ops.core.aten_imports import by_overload, elementwise
from graphwright.ops.special.formula import (
    Real,
    absolute,
    acos,
    acosh,
    cos,
    cosh,
    floor,
    sin,
    sinh,
    special,
    trunc,
    where,
)


def _select(x: Real, n: Real, inside: Real, beyond: Real, one: Real, minus_one: Real) -> Real:
    """The polynomial of degree ``n``: ``inside`` if ``|x| < 1``, ``beyond`` (without the sign) if ``|x| >
    1``, ``one`` for 1 and ``minus_one`` (without the sign) for -1. It is 0 if ``n`` is negative.
    """
    a = absolute(x)
    sign = _sign(x, n)
    beyond = where(a == math.inf, math.inf, beyond)
    y = where(a == 1.0, where(x < 0.0, sign * minus_one, one), where(a < 1.0, inside, sign * beyond))
    return where(n < 0.0, 0.0, where(n == 0.0, 1.0, y))


def _sign(x: Real, n: Real) -> Real:
    is_odd = ~(floor(n * 0.5) * 2.0 == n)
    return where(is_odd & (x < 0.0), -1.0, 1.0)


def chebyshev_t(x: Real, degree: Real) -> Real:
    n = trunc(degree)
    beyond = cosh(n * acosh(absolute(x)))
    return _select(x, n, cos(n * acos(x)), beyond, 1.0, 1.0)


def chebyshev_u(x: Real, degree: Real) -> Real:
    n = trunc(degree)
    t, far = acos(x), acosh(absolute(x))
    inside, beyond = sin((n + 1.0) * t) / sin(t), sinh((n + 1.0) * far) / sinh(far)
    return _select(x, n, inside, beyond, n + 1.0, n + 1.0)


def chebyshev_v(x: Real, degree: Real) -> Real:
    """The third kind. Except for the sign, it is the fourth kind of ``-x``."""
    n = trunc(degree)
    t, far = acos(x), acosh(absolute(x))
    inside = cos((n + 0.5) * t) / cos(0.5 * t)
    return _select(x, n, inside, _half_angle_ratio(n, far, x < 0.0), 1.0, 2.0 * n + 1.0)


def chebyshev_w(x: Real, degree: Real) -> Real:
    n = trunc(degree)
    t, far = acos(x), acosh(absolute(x))
    inside = sin((n + 0.5) * t) / sin(0.5 * t)
    return _select(x, n, inside, _half_angle_ratio(n, far, x > 0.0), 2.0 * n + 1.0, 1.0)


def _half_angle_ratio(n: Real, far: Real, is_sine: Real) -> Real:
    """The ratio of hyperbolic sines (``is_sine``) or cosines of ``(n + 1/2) * far`` and ``far / 2``."""
    sines, cosines = sinh((n + 0.5) * far) / sinh(0.5 * far), cosh((n + 0.5) * far) / cosh(0.5 * far)
    return where(is_sine, sines, cosines)


def _shifted(formula: Callable[[Real, Real], Real]) -> Callable[[Real, Real], Real]:
    """The formula of the shifted polynomial, which is the polynomial of ``2 * x - 1``."""

    def shifted(x: Real, degree: Real) -> Real:
        return formula(2.0 * x - 1.0, degree)

    return shifted


_KINDS = {"T": chebyshev_t, "U": chebyshev_u, "V": chebyshev_v, "W": chebyshev_w}
for _kind, _formula in _KINDS.items():
    _doc = f"The Chebyshev polynomial {_kind} of ``a``; the degree is the integer part of ``b``"
    for _cls, _name in (
        (special(f"Chebyshev{_kind}", _doc, _formula, 2), "special_chebyshev_polynomial"),
        (
            special(
                f"ShiftedChebyshev{_kind}", f"{_doc.replace('``a``', '``2 * a - 1``')}", _shifted(_formula), 2
            ),
            "special_shifted_chebyshev_polynomial",
        ),
    ):
        _import = elementwise(_cls(), 2, floats=True)
        _aten = f"{_name}_{_kind.lower()}"
        _cls.aten = {_aten: _import, **by_overload(_aten, _import, "x_scalar", "n_scalar")}
