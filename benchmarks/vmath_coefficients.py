"""Computes the polynomials of ``targets.cpu.vmath`` and of attention: prints coefficients and errors.

Minimax fits by Lawson's iteration (C. L. Lawson, 1961: least squares whose weights grow where the error is
large), in double precision on Chebyshev nodes. Coefficients are rounded to f32 one by one, from the lowest
power up. After each, the remaining coefficients are fitted again, so that they compensate for the rounding
(after Brisebarre and Chevillard, "Efficient polynomial L-infinity approximations", 2007, in its simplest
form).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

Function = Callable[[np.ndarray], np.ndarray]


def lawson(x: np.ndarray, y: np.ndarray, weight: np.ndarray, powers: list[int]) -> np.ndarray:
    """Coefficients for ``powers`` of x that bring ``max |weight * (p(x) - y)|`` near its least."""
    scale = np.abs(x).max()
    basis = np.stack([(x / scale) ** p for p in powers], axis=1)
    focus = np.ones_like(x)
    best, least = np.zeros(len(powers)), math.inf
    for _ in range(200):
        rows = np.sqrt(focus) * weight
        found, *_ = np.linalg.lstsq(basis * rows[:, None], y * rows, rcond=None)
        error = np.abs(weight * (basis @ found - y))
        if error.max() < least:
            best, least = found, error.max()
        focus = focus * (error + 1e-300)
        focus /= focus.max()
    return best / scale ** np.array(powers, float)


def fit(name: str, target: Function, weight: Function, low: float, high: float, degree: int) -> None:
    """Print f32 coefficients, lowest power first, of a polynomial near ``target`` on [low, high]."""
    x = (low + high) / 2 + (high - low) / 2 * np.cos((np.arange(2000) + 0.5) * np.pi / 2000)
    rest, powers = target(x), list(range(degree + 1))
    kept: list[float] = []
    while powers:
        value = float(np.float32(lawson(x, rest, weight(x), powers)[0]))
        kept.append(value)
        rest = rest - value * x ** powers.pop(0)
    error = np.abs(weight(x) * rest).max()
    print(f"{name}: error {error:.2e} = 2^{math.log2(error):.1f}")
    print("   ", ", ".join(f"{np.float32(c)!s}f" for c in kept))


def erf_exponent(a: np.ndarray) -> np.ndarray:
    """-log(erfc(a)); near 0 by log1p of erf, which keeps its relative accuracy."""
    return np.array([-math.log1p(-math.erf(v)) if v < 0.5 else -math.log(math.erfc(v)) for v in a])


ERF_LINEAR = float(np.float32(2 / math.sqrt(math.pi)))
HALF_LN2 = math.log(2) / 2 * 1.001

if __name__ == "__main__":
    fit("exp: 1 + r + r^2 q(r)", lambda r: (np.expm1(r) - r) / r**2, lambda r: r**2, -HALF_LN2, HALF_LN2, 4)
    fit("expm1: r + r^2 q(r)", lambda r: (np.expm1(r) - r) / r**2, lambda r: r, -HALF_LN2, HALF_LN2, 4)
    for name, low, high in (("0 <= f < 1", 1e-6, 1.0), ("|f| <= 0.5", -0.5, 0.5)):
        fit(
            f"exp2 of attention: 1 + f q(f), {name}",
            lambda f: (np.exp2(f) - 1) / f,
            lambda f: f / np.exp2(f),
            low,
            high,
            5,
        )
    fit(
        "log1p: f - f^2/2 + f^3 p(f)",
        lambda f: (np.log1p(f) - f + f**2 / 2) / f**3,
        lambda f: f**3 / np.log1p(f),
        math.sqrt(0.5) - 1,
        math.sqrt(2) - 1,
        7,
    )
    fit(
        "tanh: r + r^2 q(r), 0 <= r < log(2)",
        lambda r: (np.expm1(r) - r) / r**2,
        lambda r: r**2 / np.expm1(r),
        1e-3,
        0.6932,
        4,
    )
    fit(
        f"erf: 1 - exp(-a (c + p(a))), c = {ERF_LINEAR}",
        lambda a: erf_exponent(a) / a - ERF_LINEAR,
        lambda a: a * np.exp(-erf_exponent(a)) / -np.expm1(-erf_exponent(a)),
        1e-4,
        4.0,
        8,
    )
    fit(
        "sin: r + r^3 p(r^2)",
        lambda z: (np.sin(np.sqrt(z)) - np.sqrt(z)) / np.sqrt(z) ** 3,
        lambda z: np.sqrt(z) ** 3 / np.sin(np.sqrt(z)),
        1e-4,
        (np.pi / 4 * 1.001) ** 2,
        3,
    )
    fit(
        "cos: 1 - r^2/2 + r^4 p(r^2)",
        lambda z: (np.cos(np.sqrt(z)) - 1 + z / 2) / z**2,
        lambda z: z**2 / np.cos(np.sqrt(z)),
        1e-3,
        (np.pi / 4 * 1.001) ** 2,
        2,
    )
    fit(
        "asin: r + r^3 p(r^2)",
        lambda z: (np.arcsin(np.sqrt(z)) - np.sqrt(z)) / np.sqrt(z) ** 3,
        lambda z: np.sqrt(z) ** 3 / np.arcsin(np.sqrt(z)),
        1e-4,
        0.25 * 1.0001,
        4,
    )
    fit(
        "atan: r + r^3 p(r^2)",
        lambda z: (np.arctan(np.sqrt(z)) - np.sqrt(z)) / np.sqrt(z) ** 3,
        lambda z: np.sqrt(z) ** 3 / np.arctan(np.sqrt(z)),
        1e-4,
        1.0,
        8,
    )
