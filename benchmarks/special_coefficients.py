"""Prints the coefficients of the special functions: near-minimax polynomials, fitted by mpmath.

    python -m benchmarks.special_coefficients [NAME ...]

Each is a polynomial in ``s`` from -1 to 1, onto which ``ops/special`` maps the range that a comment names:
the series of Chebyshev's polynomials, up to terms below 1e-17 of the largest value.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import mpmath as mp

mp.mp.dps = 50
Real = Any


def _scaled_i(order: int) -> Callable[[Real], Real]:
    return lambda x: mp.exp(-x) * mp.besseli(order, x) / (x**order if order else 1)


def _i_beyond(order: int) -> Callable[[Real], Real]:
    """``sqrt(x) exp(-x) I(x)`` of ``t = 8 / x``."""
    return lambda t: _limit(lambda: mp.sqrt(8 / t) * mp.exp(-8 / t) * mp.besseli(order, 8 / t), t)


def _k_beyond(order: int) -> Callable[[Real], Real]:
    """``sqrt(x) exp(x) K(x)`` of ``t = 2 / x``."""
    return lambda t: (
        mp.sqrt(mp.pi / 2) if t == 0 else mp.sqrt(2 / t) * mp.exp(2 / t) * mp.besselk(order, 2 / t)
    )


def _limit(value: Callable[[], Real], t: Real) -> Real:
    return 1 / mp.sqrt(2 * mp.pi) if t == 0 else value()


def _k0_rest(z: Real) -> Real:
    """``K0(x) + log(x / 2) I0(x)`` of ``z = x * x``."""
    x = mp.sqrt(z)
    return -mp.euler if z == 0 else mp.besselk(0, x) + mp.log(x / 2) * mp.besseli(0, x)


def _k1_rest(z: Real) -> Real:
    """``x (K1(x) - log(x / 2) I1(x))``."""
    x = mp.sqrt(z)
    return mp.mpf(1) if z == 0 else x * (mp.besselk(1, x) - mp.log(x / 2) * mp.besseli(1, x))


def _j_near(order: int) -> Callable[[Real], Real]:
    """``J(x) / x ** order`` of ``z = x * x``."""
    return lambda z: (
        mp.mpf(1) / (1 + order) if z == 0 else mp.besselj(order, mp.sqrt(z)) / mp.sqrt(z) ** order
    )


def _y0_rest(z: Real) -> Real:
    """``Y0(x) - 2 / pi log(x) J0(x)``."""
    x = mp.sqrt(z)
    if z == 0:
        return 2 / mp.pi * (mp.euler - mp.log(2))
    return mp.bessely(0, x) - 2 / mp.pi * mp.log(x) * mp.besselj(0, x)


def _y1_rest(z: Real) -> Real:
    """``(Y1(x) - 2 / pi (log(x) J1(x) - 1 / x)) / x``."""
    x = mp.sqrt(z if z else mp.mpf(10) ** -20)
    return (mp.bessely(1, x) - 2 / mp.pi * (mp.log(x) * mp.besselj(1, x) - 1 / x)) / x


def _wave(order: int, part: str) -> Callable[[Real], Real]:
    """Hankel's P, and Q / t, of ``t * t`` with ``t = 8 / x``."""

    def value(u: Real) -> Real:
        t = mp.sqrt(u if u else mp.mpf(10) ** -16)
        x = 8 / t
        turn = x - mp.pi / 4 - order * mp.pi / 2
        both = (mp.besselj(order, x) + 1j * mp.bessely(order, x)) * mp.expj(-turn) / mp.sqrt(2 / (mp.pi * x))
        return both.real if part == "P" else both.imag / t

    return value


EDGE = mp.mpf(4)
"""Where the approximations of Airy's function meet."""
ZETA = 2 * EDGE ** mp.mpf(1.5) / 3


def _airy_beyond(t: Real) -> Real:
    """``Ai(x) exp(zeta) x ** (1/4)`` of ``t = ZETA / zeta`` with ``zeta = 2/3 x ** (3/2)``."""
    if t == 0:
        return 1 / (2 * mp.sqrt(mp.pi))
    zeta = ZETA / t
    x = (3 * zeta / 2) ** (mp.mpf(2) / 3)
    return mp.airyai(x) * mp.exp(zeta) * mp.sqrt(mp.sqrt(x))


def _airy_wave(part: str) -> Callable[[Real], Real]:
    """``Ai(-x) sqrt(pi) x ** (1/4) = P sin(zeta + pi/4) - Q cos(zeta + pi/4)``: P and Q / t of ``t * t``."""

    def value(u: Real) -> Real:
        t = mp.sqrt(u if u else mp.mpf(10) ** -16)
        zeta = ZETA / t
        x = (3 * zeta / 2) ** (mp.mpf(2) / 3)
        both = (mp.airybi(-x) + 1j * mp.airyai(-x)) * mp.expj(-(zeta + mp.pi / 4))
        both = both * mp.sqrt(mp.pi) * mp.sqrt(mp.sqrt(x))
        return both.real if part == "P" else -both.imag / t

    return value


def _quantile(w: Real) -> Real:
    """``erfinv(x) / x`` of ``w = -log(1 - x * x)`` (M. Giles, "Approximating the erfinv function", 2010)."""
    if w == 0:
        return mp.sqrt(mp.pi) / 2
    x = mp.sqrt(-mp.expm1(-w))
    tail = mp.exp(-w) / (1 + x)  # 1 - x
    guess = mp.sqrt(w)
    if w < 2:
        return mp.findroot(lambda y: mp.erf(y) - x, x * mp.sqrt(mp.pi) / 2) / x
    return mp.findroot(lambda y: mp.log(mp.erfc(y)) - mp.log(tail), guess) / x


FITS: dict[str, tuple[Callable[[Real], Real], Real, Real]] = {
    "I0_NEAR": (_scaled_i(0), 0, 8),
    "I0_BEYOND": (_i_beyond(0), 0, 1),
    "I1_NEAR": (lambda x: mp.mpf(0.5) if x == 0 else _scaled_i(1)(x), 0, 8),
    "I1_BEYOND": (_i_beyond(1), 0, 1),
    "K0_NEAR": (_k0_rest, 0, 4),
    "K0_BEYOND": (_k_beyond(0), 0, 1),
    "K1_NEAR": (_k1_rest, 0, 4),
    "K1_BEYOND": (_k_beyond(1), 0, 1),
    "J0_NEAR": (_j_near(0), 0, 64),
    "J1_NEAR": (_j_near(1), 0, 64),
    "Y0_NEAR": (_y0_rest, 0, 64),
    "Y1_NEAR": (_y1_rest, 0, 64),
    "P0": (_wave(0, "P"), 0, 1),
    "Q0": (_wave(0, "Q"), 0, 1),
    "P1": (_wave(1, "P"), 0, 1),
    "Q1": (_wave(1, "Q"), 0, 1),
    "AIRY_NEAR": (mp.airyai, -EDGE, EDGE),
    "AIRY_BEYOND": (_airy_beyond, 0, 1),
    "AIRY_P": (_airy_wave("P"), 0, 1),
    "AIRY_Q": (_airy_wave("Q"), 0, 1),
    "QUANTILE_NEAR": (_quantile, 0, 6),
    "QUANTILE_BETWEEN": (lambda s: _quantile(s * s), mp.sqrt(6), 6),
    "QUANTILE_BEYOND": (lambda r: _quantile(1 / r**2) * r, mp.mpf(1) / 28, mp.mpf(1) / 6),
}
"""A function, and the range that is mapped onto -1 to 1."""


def fitted(function: Callable[[Real], Real], low: Real, high: Real) -> list[float]:
    """Coefficients from the lowest power on: as many as leave an error below 1e-17 of the largest value."""
    count = 48
    angles = [mp.pi * (k + mp.mpf(0.5)) / count for k in range(count)]
    points = [mp.cos(angle) for angle in angles]
    values = [function(low + (high - low) * (1 + s) / 2) for s in points]
    series = [
        2 * sum(v * mp.cos(n * a) for v, a in zip(values, angles, strict=True)) / count for n in range(count)
    ]
    series[0] /= 2
    largest = max(abs(v) for v in values)
    kept = max(n for n, c in enumerate(series) if abs(c) > largest * mp.mpf(10) ** -17) + 1
    return [float(c) for c in _powers(series[:kept])]


def _powers(series: list[Real]) -> list[Real]:
    """A series of Chebyshev's polynomials as one of powers."""
    before, now = [mp.mpf(1)], [mp.mpf(0), mp.mpf(1)]
    total = [mp.mpf(0)] * len(series)
    for n, factor in enumerate(series):
        chosen = before if n == 0 else now
        for k, c in enumerate(chosen):
            total[k] += factor * c
        if n:
            after = [mp.mpf(0), *(2 * c for c in now)]
            for k, c in enumerate(before):
                after[k] -= c
            before, now = now, after
    return total


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", help="functions; all without any")
    for name in parser.parse_args().names or FITS:
        function, low, high = FITS[name]
        made = fitted(function, low, high)
        print(f"{name} = (  # of s = -1 to 1 for {mp.nstr(low, 6)} to {mp.nstr(high, 6)}")
        for start in range(0, len(made), 4):
            print("    " + " ".join(f"{c!r}," for c in made[start : start + 4]))
        print(")  # fmt: skip")


if __name__ == "__main__":
    main()
