"""Derivatives of the logarithm of the gamma function, and the Hurwitz zeta function.

Each function is an infinite sum: the first terms are added, and the Euler-Maclaurin formula gives the rest
(6.3.18 and 23.1.30 of M. Abramowitz and I. A. Stegun, "Handbook of Mathematical Functions", 1964).
"""

from __future__ import annotations

import math

from graphwright.ir.op import AtenImporter, InferError, op
from graphwright.ops.core.aten_imports import by_overload, elementwise
from graphwright.ops.special.formula import (
    Real,
    SpecialOfOne,
    floor,
    log,
    polynomial,
    samples_of,
    sin,
    special,
    tan,
    trunc,
    where,
)

_TERMS = 10
"""The number of terms that are added."""
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798)
"""The Bernoulli numbers with even index, from 2 on."""


def digamma(x: Real) -> Real:
    positive = where(x < 0.0, 1.0 - x, x)
    is_small = positive < 1.0 * _TERMS
    first = 1.0 / positive
    for k in range(1, _TERMS):
        first = first + 1.0 / (positive + 1.0 * k)
    z = where(is_small, positive + 1.0 * _TERMS, positive)
    square = 1.0 / (z * z)
    series = [b / (2 * k) for k, b in enumerate(_BERNOULLI, start=1)]
    y = log(z) - 0.5 / z - square * polynomial(square, series)
    y = y - where(is_small, first, 0.0)
    whole = trunc(x)
    reflected = where(x == whole, math.nan, y - math.pi / tan(math.pi * (x - whole)))
    return where(x == 0.0, -1.0 / x, where(x < 0.0, reflected, y))


def _zeta_positive(s: Real, q: Real) -> Real:
    """The sum of ``(q + k) ** -s`` over all integers k from 0 on, for positive ``q``."""
    total = q**-s
    for k in range(1, _TERMS):
        total = total + (q + 1.0 * k) ** -s
    w = q + 1.0 * _TERMS
    last = w**-s
    total = total + w * last / (s - 1.0) + 0.5 * last
    square = 1.0 / (w * w)
    factor = s * last / w
    for k, b in enumerate(_BERNOULLI, start=1):
        total = total + factor * (b / math.factorial(2 * k))
        factor = factor * (s + (2.0 * k - 1)) * (s + 2.0 * k) * square
    return total


def zeta(s: Real, q: Real) -> Real:
    """The Hurwitz zeta function. If ``q`` is negative, the terms with ``q + k < 0`` are the difference of two
    other sums.
    """
    is_above = q > 0.0
    rest = q - floor(q)
    up = _zeta_positive(s, where(is_above, q, rest))
    below = _zeta_positive(s, 1.0 - rest) - _zeta_positive(s, where(is_above, 1.0, 1.0 - q))
    is_even = floor(s * 0.5) * 2.0 == s
    reflected = where(s == floor(s), where(is_even, up + below, up - below), math.nan)
    y = where(is_above, up, where(rest == 0.0, math.inf, reflected))
    y = where(s == 1.0, math.inf, where(s < 1.0, math.nan, y))
    return where(q == q, y, math.nan)


def trigamma(x: Real) -> Real:
    is_low = x < 0.5
    sine = sin(math.pi * (x - trunc(x)))
    up = _zeta_positive(where(is_low, 2.0, 2.0), where(is_low, 1.0 - x, x))
    return where(is_low, math.pi**2 / (sine * sine) - up, up)


Digamma = special("Digamma", "The derivative of the logarithm of the gamma function", digamma)
HurwitzZeta = special("HurwitzZeta", "The sum of ``(b + k) ** -a`` over all integers k from 0 on", zeta, 2,
                      fill="positive")  # fmt: skip


@op("Polygamma")
class Polygamma(SpecialOfOne):
    """The derivative of order ``n`` of :class:`Digamma` (6.4.10 of Abramowitz and Stegun)."""

    n: int = 1

    def verify(self) -> None:
        if self.n < 0:
            raise InferError(f"n is {self.n}; it must be at least 0")

    def evaluate(self, *operands: Real) -> Real:
        (x,) = operands
        if self.n < 2:
            return (digamma, trigamma)[self.n](x)
        order = where(x == x, self.n + 1.0, self.n + 1.0)
        size = math.inf if self.n > 170 else float(math.factorial(self.n))
        return (size if self.n % 2 else -size) * zeta(order, x)


Polygamma.samples = tuple(sample for n in (1, 2) for sample in samples_of(Polygamma(n), fill="positive"))

Digamma.aten = {"digamma": elementwise(Digamma(), floats=True)}
HurwitzZeta.aten = {
    "special_zeta": elementwise(HurwitzZeta(), 2, floats=True),
    **by_overload("special_zeta", elementwise(HurwitzZeta(), 2, floats=True), "other_scalar", "self_scalar"),
}


def _aten_polygamma(i: AtenImporter) -> object:
    return i.emit(Polygamma(i.attr("n")), *i.promoted(1, floats=True))


Polygamma.aten = {"polygamma": _aten_polygamma}
