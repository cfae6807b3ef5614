"""Hypot."""

from __future__ import annotations

import math

from graphwright.ops.core.aten_imports import elementwise
from graphwright.ops.special.formula import Real, absolute, special, sqrt, where


def hypot(a: Real, b: Real) -> Real:
    """``large * sqrt(1 + (small / large)²)``, in which no square overflows. It is infinite if an operand is
    infinite, even if the other one is NaN.
    """
    a, b = absolute(a), absolute(b)
    is_wide = a > b
    large, small = where(is_wide, a, b), where(is_wide, b, a)
    ratio = small / large
    length = where(large == 0.0, small, large * sqrt(1.0 + ratio * ratio))
    return where(a == math.inf, math.inf, where(b == math.inf, math.inf, length))


Hypot = special("Hypot", "``sqrt(a * a + b * b)``", hypot, 2)
Hypot.aten = {"hypot": elementwise(Hypot(), 2, floats=True)}
