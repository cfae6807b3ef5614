"""Operators whose elements decide the size of their result: distinct elements, repetitions, counts."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from graphwright.frontends.torch.compositions.registry import composition

aten = torch.ops.aten


def _size(number: Tensor) -> Any:
    size, check = number.item(), cast(Any, torch._check)
    check(size >= 0)
    return size


@composition(aten.unique_consecutive.default)
def unique_consecutive(
    x: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """The first element of each run of equal elements, the run of each element, and the lengths of the
    runs.
    """
    if dim is not None and x.dim() != 1:
        raise NotImplementedError
    flat = x.reshape(-1)
    before = flat[(torch.arange(flat.shape[0]) - 1).clamp(min=0)]
    begins = (flat != before) | (torch.arange(flat.shape[0]) == 0)
    first = begins.nonzero().reshape(-1)
    runs = begins.to(torch.int64).cumsum(0) - 1
    counts = torch.zeros_like(first).scatter_add(0, runs, torch.ones_like(runs))
    return flat[first], runs.reshape(x.shape), counts


@composition(aten._unique2.default)
def unique(
    x: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """PyTorch sorts the distinct elements on CPUs in any case."""
    ordered, order = x.reshape(-1).sort()
    values, runs, counts = unique_consecutive(ordered)
    return values, torch.zeros_like(runs).scatter(0, order, runs).reshape(x.shape), counts


@composition(aten.repeat_interleave.Tensor)
def repeat_interleave(repeats: Tensor, *, output_size: int | None = None) -> Tensor:
    """Each index as often as ``repeats`` states."""
    ends = repeats.to(torch.int64).cumsum(0)
    size = _size(ends[-1:].sum()) if output_size is None else output_size
    ended = torch.zeros(size + 1, dtype=torch.int64).scatter_add(0, ends, torch.ones_like(ends))
    return ended.cumsum(0).narrow(0, 0, size).to(repeats.dtype)


@composition(aten.bincount.default)
def bincount(x: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    size = _size(torch.cat((x.to(torch.int64), torch.full((1,), minlength - 1))).amax() + 1)
    counted = torch.ones_like(x, dtype=torch.int64) if weights is None else weights
    if weights is not None and weights.dtype != torch.float32:
        counted = weights.to(torch.float64)
    return torch.zeros(size, dtype=counted.dtype).scatter_add(0, x.to(torch.int64), counted)
