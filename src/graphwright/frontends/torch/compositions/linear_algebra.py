"""Triangular systems, Cholesky factors, solutions and logarithms of determinants, of matrices of static size.

Results that only LAPACK's routines have (factors, pivots, the number of an error) are None.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from graphwright.frontends.torch.compositions.registry import composition

aten = torch.ops.aten
_BLOCK = 16
"""The most rows of a diagonal block, which is inverted (triangular systems) or factored column by column."""
_MOST_SOLVED = 256
_MOST_FACTORED = 64
_MOST_DETERMINED = 64
"""Larger determinants of rows of at most 1 can exceed the range of f64."""


@composition(aten.linalg_solve_triangular.default)
def solve_triangular(
    a: Tensor, b: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    if not left:
        return solve_triangular(a.mT, b.mT, upper=not upper, unitriangular=unitriangular).mT
    if upper:  # rows and columns in reverse order are a lower triangle
        solved = solve_triangular(a.flip(-2, -1), b.flip(-2), upper=False, unitriangular=unitriangular)
        return solved.flip(-2)
    rows = _rows(a, _MOST_SOLVED)
    block = min(_BLOCK, 1 << (rows - 1).bit_length())
    inverses = _inverses(_diagonal_blocks(_padded(a, -rows % block), block), unitriangular)
    x = inverses[..., 0, :rows, :rows] @ b[..., :block, :]
    for k in range(1, -(-rows // block)):
        at = slice(k * block, min((k + 1) * block, rows))
        size = at.stop - at.start
        known = b[..., at, :] - a[..., at, : at.start] @ x
        x = torch.cat((x, inverses[..., k, :size, :size] @ known), -2)
    return x


def _rows(x: Tensor, most: int) -> int:
    """The number of rows, each of which adds operators."""
    rows = x.shape[-1]
    if not isinstance(rows, int) or not 0 < rows <= most:
        raise NotImplementedError(f"its matrices have {rows} rows; a fixed number from 1 to {most} is needed")
    return rows


def _padded(x: Tensor, count: int) -> Tensor:
    """``x``, continued by ``count`` rows and columns of the identity."""
    if not count:
        return x
    ones = functional.pad(x.new_ones(count), (x.shape[-1], 0))
    return functional.pad(x, (0, count, 0, count)) + torch.diag(ones)


def _diagonal_blocks(x: Tensor, size: int) -> Tensor:
    """The square blocks on the diagonal: [..., blocks, size, size]."""
    count = x.shape[-1] // size
    blocks = x.reshape(*x.shape[:-2], count, size, count, size)
    return blocks.diagonal(0, -4, -2).movedim(-1, -3)


def _inverses(lower: Tensor, unitriangular: bool) -> Tensor:
    """The inverses of lower triangular matrices whose size is a power of two, from those of their diagonal
    blocks of sizes 1, 2, 4, ...
    """
    diagonal = lower.diagonal(0, -2, -1)[..., None, None]
    inverse = torch.ones_like(diagonal) if unitriangular else diagonal.reciprocal()
    size = 1
    while size < lower.shape[-1]:
        below = _diagonal_blocks(lower, 2 * size)[..., size:, :size]
        first, second = inverse[..., 0::2, :, :], inverse[..., 1::2, :, :]
        top = torch.cat((first, torch.zeros_like(first)), -1)
        inverse = torch.cat((top, torch.cat((-(second @ below @ first), second), -1)), -2)
        size *= 2
    return inverse[..., 0, :, :]


@composition(aten.linalg_cholesky_ex.default)
def cholesky(x: Tensor, *, upper: bool = False, check_errors: bool = False) -> tuple[Tensor, None]:
    if upper:
        return cholesky(x.mT)[0].mT, None
    rows = _rows(x, _MOST_FACTORED)
    columns: list[Tensor] = []
    for start in range(0, rows, _BLOCK):
        factor = _factored(x[..., :_BLOCK, :_BLOCK])
        below = solve_triangular(factor, x[..., _BLOCK:, :_BLOCK].mT, upper=False).mT
        columns.append(functional.pad(torch.cat((factor, below), -2), (0, 0, start, 0)))
        x = x[..., _BLOCK:, _BLOCK:] - below @ below.mT
    return torch.cat(columns, -1), None


def _factored(x: Tensor) -> Tensor:
    """The Cholesky factor, column by column."""
    columns = []
    for k in range(x.shape[-1]):
        column = x[..., :1] * x[..., :1, :1].rsqrt()
        columns.append(functional.pad(column, (0, 0, k, 0)))
        below = column[..., 1:, :]
        x = x[..., 1:, 1:] - below * below.mT
    return torch.cat(columns, -1)


@composition(aten.cholesky_solve.default)
def cholesky_solve(b: Tensor, factor: Tensor, upper: bool = False) -> Tensor:
    lower = factor.mT if upper else factor
    return solve_triangular(lower.mT, solve_triangular(lower, b, upper=False), upper=True)


@composition(aten.cholesky_inverse.default)
def cholesky_inverse(factor: Tensor, upper: bool = False) -> Tensor:
    return cholesky_solve(torch.eye(_rows(factor, _MOST_SOLVED), dtype=factor.dtype), factor, upper)


@composition(aten._linalg_solve_ex.default)
def solve(
    a: Tensor, b: Tensor, *, left: bool = True, check_errors: bool = False
) -> tuple[Tensor, None, None, None]:
    """The product with the inverse, improved by the solution for the residual."""
    if b.dim() == 1 or (a.dim() - 1 == b.dim() and b.shape == a.shape[:-1]):
        return solve(a, b.unsqueeze(-1))[0].squeeze(-1), None, None, None
    if not left:
        return solve(a.mT, b.mT)[0].mT, None, None, None
    inverse = torch.linalg.inv_ex(a)[0]
    x = inverse @ b
    return x + inverse @ (b - a @ x), None, None, None


@composition(aten._linalg_slogdet.default)
def slogdet(x: Tensor) -> tuple[Tensor, Tensor, None, None]:
    """The determinant is computed of rows that are divided by their largest elements, for its range."""
    _rows(x, _MOST_DETERMINED)
    wide = x.double()
    largest = wide.abs().amax(-1, keepdim=True)
    largest = torch.where(largest == 0, 1, largest)
    determinant = torch.linalg.det(wide / largest)
    logarithm = determinant.abs().log() + largest.log().sum((-2, -1))
    return determinant.sign().to(x.dtype), logarithm.to(x.dtype), None, None
