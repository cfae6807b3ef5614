"""Medians, modes and k-th values, from sorted elements."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from graphwright.frontends.torch.compositions.elements import isnan, positions
from graphwright.frontends.torch.compositions.registry import composition
from graphwright.frontends.torch.compositions.scans import running

aten = torch.ops.aten


@composition(aten.kthvalue.default)
def kthvalue(x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    if x.dim() == 0:
        return x.clone(), torch.zeros((), dtype=torch.int64)
    values, indices = x.sort(dim=dim, stable=True)
    found = values.narrow(dim, k - 1, 1), indices.narrow(dim, k - 1, 1)
    return found if keepdim else (found[0].squeeze(dim), found[1].squeeze(dim))


@composition(aten.median.default)
def median(x: Tensor) -> Tensor:
    if x.numel() == 0:
        raise NotImplementedError
    return median_along(x.reshape(-1), 0)[0]


@composition(aten.nanmedian.default)
def nanmedian(x: Tensor) -> Tensor:
    if x.numel() == 0:
        raise NotImplementedError
    return nanmedian_along(x.reshape(-1), 0)[0]


@composition(aten.median.dim)
def median_along(x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The median; the lower one of two middle elements, and the first NaN if there is one."""
    if x.dim() == 0:
        return x.clone(), torch.zeros((), dtype=torch.int64)
    values, indices = kthvalue(x, (x.shape[dim] + 1) // 2, dim, keepdim=True)
    if x.dtype.is_floating_point:
        unordered = x.isnan()
        some = unordered.any(dim, keepdim=True)
        values = torch.where(some, math.nan, values)
        indices = torch.where(some, unordered.to(torch.uint8).argmax(dim, keepdim=True), indices)
    return (values, indices) if keepdim else (values.squeeze(dim), indices.squeeze(dim))


@composition(aten.nanmedian.dim)
def nanmedian_along(x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The median of the elements that are not NaN. Sorting moves NaN to the end."""
    if x.dim() == 0:
        return x.clone(), torch.zeros((), dtype=torch.int64)
    values, indices = x.sort(dim=dim, stable=True)
    rank = (((~isnan(x)).sum(dim, keepdim=True) - 1) // 2).clamp(min=0)
    found = values.gather(dim, rank), indices.gather(dim, rank)
    return found if keepdim else (found[0].squeeze(dim), found[1].squeeze(dim))


@composition(aten.mode.default)
def mode(x: Tensor, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The smallest of the most frequent elements: the end of the first longest run in sorted order."""
    if x.dim() == 0:
        return x.clone(), torch.zeros((), dtype=torch.int64)
    values, indices = x.sort(dim=dim, stable=True)
    indices_along = positions(x, dim)
    before = values.index_select(dim, (indices_along.reshape(-1) - 1).clamp(min=0))
    begins = (values != before) | (indices_along == 0)
    starts = running(torch.where(begins, indices_along, 0), dim, torch.maximum)
    end = (indices_along - starts).argmax(dim, keepdim=True)
    found = values.gather(dim, end), indices.gather(dim, end)
    return found if keepdim else (found[0].squeeze(dim), found[1].squeeze(dim))
