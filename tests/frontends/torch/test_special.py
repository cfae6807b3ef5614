"""Special functions in f64, compared with PyTorch and mpmath: special values, and whole ranges."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
import torch

import graphwright.ops
from graphwright.ir.op import op_class
from graphwright.ops.special.gamma_functions import Polygamma

graphwright.ops.load()
SPECIAL = np.array(
    [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 8.0, -8.0, 25.0, 4.0, -4.0, 1e-30, -1e-30, 1e-300, 5e-324,
     1e30, math.inf, -math.inf, math.nan]
)  # fmt: skip
ONE: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], float, float]] = {
    "BesselI0": (torch.special.i0, lambda x: mpmath.besseli(0, x), -80, 80),
    "BesselI1": (torch.special.i1, lambda x: mpmath.besseli(1, x), -80, 80),
    "ScaledBesselI0": (torch.special.i0e, lambda x: mpmath.besseli(0, x) * mpmath.exp(-abs(x)), -300, 300),
    "ScaledBesselI1": (torch.special.i1e, lambda x: mpmath.besseli(1, x) * mpmath.exp(-abs(x)), -300, 300),
    "BesselK0": (torch.special.modified_bessel_k0, lambda x: mpmath.besselk(0, x), 0, 80),
    "BesselK1": (torch.special.modified_bessel_k1, lambda x: mpmath.besselk(1, x), 0, 80),
    "ScaledBesselK0": (
        torch.special.scaled_modified_bessel_k0, lambda x: mpmath.besselk(0, x) * mpmath.exp(x), 0, 300
    ),
    "ScaledBesselK1": (
        torch.special.scaled_modified_bessel_k1, lambda x: mpmath.besselk(1, x) * mpmath.exp(x), 0, 300
    ),
    "BesselJ0": (torch.special.bessel_j0, lambda x: mpmath.besselj(0, x), -100, 100),
    "BesselJ1": (torch.special.bessel_j1, lambda x: mpmath.besselj(1, x), -100, 100),
    "BesselY0": (torch.special.bessel_y0, lambda x: mpmath.bessely(0, x), 0, 100),
    "BesselY1": (torch.special.bessel_y1, lambda x: mpmath.bessely(1, x), 0, 100),
    "SphericalBesselJ0": (torch.special.spherical_bessel_j0, mpmath.sinc, -20, 20),
    "AiryAi": (torch.special.airy_ai, mpmath.airyai, -50, 20),
    "ScaledErfc": (torch.special.erfcx, lambda x: mpmath.exp(x * x) * mpmath.erfc(x), -20, 60),
    "ErfInverse": (torch.erfinv, mpmath.erfinv, -1, 1),
    "NormalQuantile": (
        torch.special.ndtri, lambda x: mpmath.sqrt(2) * mpmath.erfinv(2 * mpmath.mpf(x) - 1), 0, 1
    ),
    "Digamma": (torch.digamma, mpmath.digamma, -20, 40),
    "LogGamma": (torch.lgamma, lambda x: mpmath.log(abs(mpmath.gamma(x))), -20, 40),
    "Erfc": (torch.erfc, mpmath.erfc, -6, 26),
    "Log2": (torch.log2, lambda x: mpmath.log(x, 2), 0, 100),
    "Log10": (torch.log10, mpmath.log10, 0, 100),
}  # fmt: skip


@pytest.mark.parametrize("name", ONE)
def test_special_values_are_those_of_pytorch(name: str) -> None:
    theirs = ONE[name][0](torch.from_numpy(SPECIAL)).numpy()
    np.testing.assert_allclose(op_class(name)().reference(SPECIAL), theirs, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("name", ONE)
def test_functions_are_as_exact_as_f64_allows(name: str) -> None:
    """Near zeros of the function, the error is relative to its largest values."""
    _, exact, low, high = ONE[name]
    x = np.random.default_rng(0).uniform(low, high, 97)
    expected = np.array([float(exact(mpmath.mpf(each))) for each in x])
    np.testing.assert_allclose(op_class(name)().reference(x), expected, rtol=2e-12, atol=2e-14)


@pytest.mark.parametrize("n", range(5))
def test_polygamma_is_as_exact_as_f64_allows(n: int) -> None:
    x = np.random.default_rng(n).uniform(-20, 40, 97)
    expected = np.array([float(mpmath.psi(n, mpmath.mpf(each))) for each in x])
    np.testing.assert_allclose(Polygamma(n).reference(x), expected, rtol=2e-12, atol=2e-14)


def test_zeta_is_as_exact_as_f64_allows() -> None:
    made, rng = op_class("HurwitzZeta")(), np.random.default_rng(0)
    s, q = rng.uniform(1.01, 40, 97), rng.uniform(1e-3, 100, 97)
    with mpmath.workdps(60):
        expected = [float(mpmath.zeta(mpmath.mpf(a), mpmath.mpf(b))) for a, b in zip(s, q, strict=True)]
    np.testing.assert_allclose(made.reference(s, q), expected, rtol=1e-12)
    s, q = rng.integers(2, 9, 997).astype(float), rng.uniform(-12, 0, 997)
    theirs = torch.special.zeta(torch.from_numpy(s), torch.from_numpy(q)).numpy()
    np.testing.assert_allclose(made.reference(s, q), theirs, rtol=1e-12)
    s, q = (each.ravel() for each in np.meshgrid([0.5, 1.0, 2.0, 2.5, math.nan], [0.0, -1.0, -0.5, 1.0]))
    theirs = torch.special.zeta(torch.from_numpy(s), torch.from_numpy(q)).numpy()
    np.testing.assert_allclose(made.reference(s, q), theirs, rtol=1e-14)


@pytest.mark.parametrize("kind", "tuvw")
@pytest.mark.parametrize("shifted", [False, True])
def test_chebyshev_polynomials_equal_those_of_pytorch(kind: str, shifted: bool) -> None:
    name = f"{'Shifted' * shifted}Chebyshev{kind.upper()}"
    theirs = getattr(torch.special, f"{'shifted_' * shifted}chebyshev_polynomial_{kind}")
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(-3, 3, 997), [1, -1, 0, -0.0, 0.5, 1e-30, math.inf, -math.inf] * 7])
    n = np.concatenate([rng.uniform(-2, 12, 997), np.repeat([-1.5, 0, 0.5, 1, 2, 3, 5.5], 8)])
    expected = theirs(torch.from_numpy(x), torch.from_numpy(n)).numpy()
    made = op_class(name)().reference(x, n)
    defined = ~np.isnan(expected)  # where its recurrence subtracts infinities
    np.testing.assert_allclose(made[defined], expected[defined], rtol=1e-9, atol=1e-12)
