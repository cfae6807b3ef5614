"""Binary search in sorted rows, histograms, and indices of nonzero elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from graphwright.frontends.torch.compositions.elements import MOST_BITS
from graphwright.frontends.torch.compositions.registry import composition

aten = torch.ops.aten


@composition(aten.searchsorted.Tensor)
def searchsorted(
    boundaries: Tensor, x: Tensor, *, out_int32: bool = False, right: bool = False,
    side: str | None = None, sorter: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Binary search: computes the number of boundaries below each element, bit by bit."""
    size = boundaries.shape[-1]
    ordered = boundaries if sorter is None else boundaries.gather(-1, sorter)
    bits, last = MOST_BITS, size
    if isinstance(size, int):
        bits, last = size.bit_length(), size - 1
    else:  # it can be 0, and probes read an element in any case
        ordered = functional.pad(ordered, (0, 1))
    position = torch.zeros_like(x, dtype=torch.int64)
    for bit in reversed(range(bits)):
        probe = position + (1 << bit)
        at = (probe - 1).clamp(max=last)
        met = (
            ordered.index_select(0, at.reshape(-1)).reshape(at.shape)
            if ordered.dim() == 1
            else ordered.gather(-1, at)
        )
        beyond = ~(met > x) if right or side == "right" else ~(met >= x)
        position = torch.where((probe <= size) & beyond, probe, position)
    return position.to(torch.int32) if out_int32 else position


@composition(aten.searchsorted.Scalar)
def searchsorted_of_number(boundaries: Tensor, x: Any, **named: Any) -> Tensor:
    return searchsorted(boundaries, torch.full((), x, dtype=boundaries.dtype), **named)


@composition(aten.bucketize.Tensor)
def bucketize(x: Tensor, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    return searchsorted(boundaries, x, out_int32=out_int32, right=right)


@composition(aten.bucketize.Scalar)
def bucketize_number(x: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    return searchsorted_of_number(boundaries, x, out_int32=out_int32, right=right)


@composition(aten.histc.default)
def histc(x: Tensor, bins: int = 100, min: Any = 0, max: Any = 0) -> Tensor:
    flat = x.reshape(-1)
    if not x.dtype.is_floating_point or x.numel() == 0:
        raise NotImplementedError
    low, high = torch.full((), min, dtype=x.dtype), torch.full((), max, dtype=x.dtype)
    if min == max:
        low, high = flat.min(), flat.max()
        same = low == high
        low, high = torch.where(same, low - 1, low), torch.where(same, high + 1, high)
    inside = (flat >= low) & (flat <= high)
    bin_of = ((flat - low) / (high - low) * bins).to(torch.int64).clamp(0, bins - 1)
    return torch.zeros(bins, dtype=x.dtype).scatter_add(0, torch.where(inside, bin_of, 0), inside.to(x.dtype))


@composition(aten.histogram.bin_ct)
def histogram(
    x: Tensor, bins: int = 100, *, range: Sequence[float] | None = None, weight: Tensor | None = None,
    density: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    if range is None and x.numel() == 0:
        raise NotImplementedError
    low, high = (x.min(), x.max()) if range is None else map(x.new_tensor, range)
    half = torch.where(low == high, 0.5, 0.0)
    low, high = low - half, high + half
    step, index = (high - low) / bins, torch.arange(bins + 1)
    edges = torch.where(index < (bins + 1) // 2, low + step * index, high - step * (bins - index))
    return histogram_of_edges(x, edges, weight=weight, density=density)


@composition(aten.histogram.bins_tensor)
def histogram_of_edges(
    x: Tensor, edges: Tensor, *, weight: Tensor | None = None, density: bool = False
) -> tuple[Tensor, Tensor]:
    """The last bin contains its upper edge."""
    flat, count = x.reshape(-1), edges.shape[0] - 1
    bin_of = torch.where(flat == edges[-1], count - 1, searchsorted(edges, flat, right=True) - 1)
    inside = (bin_of >= 0) & (bin_of < count)
    given = torch.ones_like(flat) if weight is None else weight.reshape(-1)
    total = torch.zeros(count, dtype=x.dtype).scatter_add(
        0, torch.where(inside, bin_of, 0), torch.where(inside, given, 0)
    )
    return (total / (total.sum() * edges.diff()) if density else total), edges


@composition(aten.nonzero_static.default)
def nonzero_static(x: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    flat = (x != 0).reshape(-1)
    rank = flat.to(torch.int64).cumsum(0) - 1
    target = torch.where(flat & (rank < size), rank, size)
    positions = torch.arange(x.numel())
    found = torch.full((size + 1,), -1, dtype=torch.int64).scatter(0, target, positions)[:size]
    columns = []
    for axis in range(x.dim()):
        stride = math.prod(x.shape[axis + 1 :])
        columns.append(torch.where(found < 0, fill_value, found // stride % x.shape[axis]))
    return torch.stack(columns, 1) if columns else torch.zeros((size, 0), dtype=torch.int64)
