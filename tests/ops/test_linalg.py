"""Factorizations of matrices: products of the factors are the matrices."""

from __future__ import annotations

import numpy as np
import pytest

from graphwright.ops.linalg.eigh import Eigh
from graphwright.ops.linalg.lu import LU
from graphwright.ops.linalg.qr import QR
from graphwright.ops.linalg.svd import SVD

SHAPES = ((4, 4), (5, 3), (3, 5), (2, 3, 4, 4), (0, 3, 2))


def matrices(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape)


def orthonormal(columns: np.ndarray) -> bool:
    return np.allclose(columns.swapaxes(-1, -2) @ columns, np.eye(columns.shape[-1]))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("full", [False, True])
def test_qr_factors_multiply_to_the_matrix(shape: tuple[int, ...], full: bool) -> None:
    x = matrices(*shape)
    q, r = QR(full=full).reference(x)
    assert orthonormal(q)
    np.testing.assert_allclose(q @ r, x, atol=1e-12)
    np.testing.assert_array_equal(np.tril(r, -1), np.zeros_like(r))


@pytest.mark.parametrize("shape", SHAPES)
def test_svd_factors_multiply_to_the_matrix(shape: tuple[int, ...]) -> None:
    x = matrices(*shape)
    u, s, v = SVD().reference(x)
    assert orthonormal(u)
    assert orthonormal(v.swapaxes(-1, -2))
    assert (np.diff(s) <= 0).all()
    np.testing.assert_allclose(u * s[..., None, :] @ v, x, atol=1e-12)


@pytest.mark.parametrize("upper", [False, True])
def test_eigh_reads_one_triangle(upper: bool) -> None:
    x = matrices(2, 4, 4)
    half = np.triu(x) if upper else np.tril(x)
    symmetric = half + half.swapaxes(-1, -2) - half * np.eye(4)
    w, v = Eigh(upper=upper).reference(x)
    assert orthonormal(v)
    assert (np.diff(w) >= 0).all()
    np.testing.assert_allclose(v * w[..., None, :] @ v.swapaxes(-1, -2), symmetric, atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_lu_factors_multiply_to_the_matrix(shape: tuple[int, ...]) -> None:
    x = matrices(*shape)
    factors, pivots = LU().reference(x)
    inner = min(shape[-2:])
    lower = np.tril(factors[..., :inner], -1) + np.eye(shape[-2], inner)
    assert (np.abs(lower) <= 1).all()
    exchanged = x.copy()
    for at in np.ndindex(shape[:-2]):
        for k, other in enumerate(pivots[at] - 1):
            exchanged[at][[k, other]] = exchanged[at][[other, k]]
    np.testing.assert_allclose(lower @ np.triu(factors[..., :inner, :]), exchanged, atol=1e-12)


def test_a_column_without_pivot() -> None:
    factors, pivots = LU().reference(np.array([[0.0, 2.0], [0.0, 3.0]]))
    np.testing.assert_array_equal(factors, [[0, 2], [0, 3]])
    np.testing.assert_array_equal(pivots, [1, 2])


def test_factors_of_a_matrix_with_nan_are_nan() -> None:
    """Other matrices of the stack keep their factors."""
    x = np.stack([np.full((3, 3), np.nan), np.diag([1.0, 2.0, 3.0])])
    w, _ = Eigh().reference(x)
    _, s, _ = SVD().reference(x)
    np.testing.assert_allclose(w, [[np.nan] * 3, [1, 2, 3]])
    np.testing.assert_allclose(s, [[np.nan] * 3, [3, 2, 1]])
