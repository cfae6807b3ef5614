"""What is computed from the factors of matrices: LU, QR, and singular values."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from graphwright.frontends.torch.compositions.linear_algebra import solve_triangular
from graphwright.frontends.torch.compositions.registry import composition

aten = torch.ops.aten
_MOST_COLUMNS = 64
"""Each column adds a step: an exchange of two rows, or a reflection."""
_MOST_HALVINGS = 20
"""Of the exponent of a matrix. Norms up to 2 ** 19 are scaled to at most 1/2."""


def _steps(columns: int) -> range:
    if not isinstance(columns, int) or columns > _MOST_COLUMNS:
        raise NotImplementedError(
            f"its matrices have {columns} columns; a fixed number up to {_MOST_COLUMNS} is needed"
        )
    return range(columns)


def _row_order(pivots: Tensor, rows: int) -> Tensor:
    """The rows in the order that the exchanges ``pivots`` give: [..., rows]. Step k exchanges row k and the
    row of the k-th number, counted from 1.
    """
    positions = torch.arange(rows)
    order = positions.expand(*pivots.shape[:-1], rows)
    for k in _steps(pivots.shape[-1]):
        chosen = pivots[..., k : k + 1].to(torch.int64) - 1
        exchanged = torch.where(positions == chosen, order[..., k : k + 1], order)
        order = torch.where(positions == k, order.gather(-1, chosen), exchanged)
    return order


@composition(aten.linalg_lu.default)
def lu(x: Tensor, *, pivot: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    factors, pivots, _ = torch.linalg.lu_factor_ex(x, pivot=pivot)
    return lu_unpack(factors, pivots)


@composition(aten.lu_unpack.default)
def lu_unpack(
    factors: Tensor, pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    rows, columns = factors.shape[-2:]
    inner = min(rows, columns)
    empty = factors.new_empty(0)
    order = _row_order(pivots, rows) if unpack_pivots else empty
    is_source = order[..., None, :] == torch.arange(rows)[:, None]
    permutation = is_source.to(factors.dtype) if unpack_pivots else empty
    if not unpack_data:
        return permutation, empty, empty
    lower = factors[..., :inner].tril(-1) + torch.eye(rows, inner, dtype=factors.dtype)
    return permutation, lower, factors[..., :inner, :].triu()


@composition(aten.linalg_lu_solve.default)
def lu_solve(
    factors: Tensor, pivots: Tensor, b: Tensor, *, left: bool = True, adjoint: bool = False
) -> Tensor:
    if not left:
        return lu_solve(factors, pivots, b.mT, adjoint=not adjoint).mT
    order = _row_order(pivots, factors.shape[-1])
    broadcast = cast(Any, torch.broadcast_tensors)
    rows, b = broadcast(order[..., None], b)
    if not adjoint:
        half = solve_triangular(factors, b.gather(-2, rows), upper=False, unitriangular=True)
        return solve_triangular(factors, half, upper=True)
    half = solve_triangular(factors.mT, b, upper=False)
    x = solve_triangular(factors.mT, half, upper=True, unitriangular=True)
    return torch.zeros_like(x).scatter(-2, rows, x)


@composition(aten.triangular_solve.default)
def triangular_solve(
    b: Tensor, a: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple[Tensor, Tensor]:
    matrix = a.mT if transpose else a
    solution = solve_triangular(matrix, b, upper=upper != transpose, unitriangular=unitriangular)
    return solution, a.clone()


@composition(aten.cholesky.default)
def cholesky(x: Tensor, upper: bool = False) -> Tensor:
    factor: Tensor = torch.linalg.cholesky_ex(x, upper=upper)[0]
    return factor


@composition(aten.linalg_householder_product.default)
def householder_product(vectors: Tensor, scales: Tensor) -> Tensor:
    """The product of the reflections of the columns below the diagonal, applied to the identity from the last
    to the first.
    """
    rows, columns = vectors.shape[-2:]
    below = vectors.tril(-1) + torch.eye(rows, columns, dtype=vectors.dtype)
    product = torch.eye(rows, columns, dtype=vectors.dtype).expand(vectors.shape)
    for k in reversed(_steps(scales.shape[-1])):
        column = below[..., k : k + 1]
        product = product - scales[..., k, None, None] * (column @ (column.mT @ product))
    return product


@composition(aten.linalg_pinv.atol_rtol_tensor)
def pinv(
    x: Tensor, *, atol: Tensor | None = None, rtol: Tensor | None = None, hermitian: bool = False
) -> Tensor:
    """The pseudoinverse, from the singular values that exceed the tolerance."""
    if hermitian:
        values, vectors = torch.linalg.eigh(x)
        left, right, sizes = vectors, vectors.mT, values.abs()
    else:
        left, values, right = torch.linalg.svd(x, full_matrices=False)
        sizes = values
    if rtol is None:
        rtol = torch.tensor(torch.finfo(x.dtype).eps * max(x.shape[-2:]), dtype=x.dtype)
        rtol = rtol if atol is None else torch.where(atol > 0, 0.0, rtol)
    least = rtol[..., None] * sizes.amax(-1, keepdim=True)
    least = least if atol is None else torch.maximum(atol[..., None], least)
    inverses = torch.where(sizes > least, values.reciprocal(), 0.0)
    inverse: Tensor = (right.mT * inverses[..., None, :]) @ left.mT
    return inverse


@composition(aten.linalg_matrix_exp.default)
def matrix_exp(x: Tensor) -> Tensor:
    """Scaling and squaring of a Taylor polynomial: method 3 of C. Moler and C. Van Loan, "Nineteen dubious
    ways to compute the exponential of a matrix, twenty-five years later", 2003.
    """
    if x.dtype not in (torch.float32, torch.float64):
        raise NotImplementedError(f"matrices of {x.dtype} are not supported")
    if isinstance(x.shape[-1], int) and not x.shape[-1]:
        return x.clone()
    degree = 9 if x.dtype == torch.float32 else 15
    norm = x.abs().sum(-2).amax(-1)[..., None, None]
    halvings = (norm.clamp(min=0.5).log2() + 1).ceil().clamp(max=_MOST_HALVINGS)
    scaled = x * torch.exp2(-halvings)
    identity = torch.eye(x.shape[-1], dtype=x.dtype)
    sum_ = identity + scaled / degree
    for k in range(degree - 1, 0, -1):
        sum_ = identity + (scaled @ sum_) / k
    for step in range(_MOST_HALVINGS):
        sum_ = torch.where(step < halvings, sum_ @ sum_, sum_)
    return sum_
