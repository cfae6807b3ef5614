"""Chebyshev's polynomials of the first to the fourth kind, whose degree is an operand.

By the angle ``t`` with ``cos(t) = x``, or beyond 1 ``cosh(t) = |x|``: 18.5 of "NIST Digital Library of
Mathematical Functions" (F. W. J. Olver et al., 2010).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from graphwright.ops.core.aten import by_overload, elementwise
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


def _chosen(x: Real, n: Real, inside: Real, beyond: Real, one: Real, minus_one: Real) -> Real:
    """Of a degree below 0 it is 0. ``beyond``: of ``|x|``; ``one`` and ``minus_one``: of x = 1 and x = -1."""
    a = absolute(x)
    sign = _sign(x, n)
    beyond = where(a == math.inf, math.inf, beyond)
    made = where(a == 1.0, where(x < 0.0, sign * minus_one, one), where(a < 1.0, inside, sign * beyond))
    return where(n < 0.0, 0.0, where(n == 0.0, 1.0, made))


def _sign(x: Real, n: Real) -> Real:
    is_odd = ~(floor(n * 0.5) * 2.0 == n)
    return where(is_odd & (x < 0.0), -1.0, 1.0)


def chebyshev_t(x: Real, degree: Real) -> Real:
    n = trunc(degree)
    beyond = cosh(n * acosh(absolute(x)))
    return _chosen(x, n, cos(n * acos(x)), beyond, 1.0, 1.0)


def chebyshev_u(x: Real, degree: Real) -> Real:
    n = trunc(degree)
    t, far = acos(x), acosh(absolute(x))
    inside, beyond = sin((n + 1.0) * t) / sin(t), sinh((n + 1.0) * far) / sinh(far)
    return _chosen(x, n, inside, beyond, n + 1.0, n + 1.0)


def chebyshev_v(x: Real, degree: Real) -> Real:
    """Of -x it is the fourth kind's, but for the sign."""
    n = trunc(degree)
    t, far = acos(x), acosh(absolute(x))
    inside = cos((n + 0.5) * t) / cos(0.5 * t)
    return _chosen(x, n, inside, _half(x, n, far, x < 0.0), 1.0, 2.0 * n + 1.0)


def chebyshev_w(x: Real, degree: Real) -> Real:
    n = trunc(degree)
    t, far = acos(x), acosh(absolute(x))
    inside = sin((n + 0.5) * t) / sin(0.5 * t)
    return _chosen(x, n, inside, _half(x, n, far, x > 0.0), 2.0 * n + 1.0, 1.0)


def _half(x: Real, n: Real, far: Real, is_sine: Real) -> Real:
    """Of half the angle: a quotient of hyperbolic sines, or of cosines."""
    sines, cosines = sinh((n + 0.5) * far) / sinh(0.5 * far), cosh((n + 0.5) * far) / cosh(0.5 * far)
    return where(is_sine, sines, cosines)


def _shifted(formula: Callable[[Real, Real], Real]) -> Callable[[Real, Real], Real]:
    def moved(x: Real, degree: Real) -> Real:
        return formula(2.0 * x - 1.0, degree)

    return moved


_KINDS = {"T": chebyshev_t, "U": chebyshev_u, "V": chebyshev_v, "W": chebyshev_w}
for _kind, _formula in _KINDS.items():
    _doc = f"Chebyshev's polynomial {_kind} of ``a``, of the degree ``b``, without its fraction"
    for _cls, _name in (
        (special(f"Chebyshev{_kind}", _doc, _formula, 2), "special_chebyshev_polynomial"),
        (
            special(f"ShiftedChebyshev{_kind}", f"{_doc}; of ``2 * a - 1``", _shifted(_formula), 2),
            "special_shifted_chebyshev_polynomial",
        ),
    ):
        _import = elementwise(_cls(), 2, floats=True)
        _aten = f"{_name}_{_kind.lower()}"
        _cls.aten = {_aten: _import, **by_overload(_aten, _import, "x_scalar", "n_scalar")}
