"""Scatter operators: they write elements at indices of a tensor."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from graphwright.frontends.torch.compositions.elements import highest, lowest
from graphwright.frontends.torch.compositions.registry import composition

aten = torch.ops.aten


def _start(x: Tensor, reduce: str) -> float:
    """The identity element of ``reduce``."""
    return {"amax": lowest(x), "amin": highest(x), "prod": 1}.get(reduce, 0)


@composition(aten.scatter_reduce.two)
def scatter_reduce(
    x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    if reduce != "mean" and include_self:
        raise NotImplementedError
    base = x if include_self else x.scatter(dim, index, _start(x, reduce))
    if reduce != "mean":
        return torch.scatter_reduce(base, dim, index, src, reduce)
    ones = torch.ones_like(src)
    count = torch.full_like(x, int(include_self)).scatter_add(dim, index, ones).clamp(min=1)
    mode = None if x.dtype.is_floating_point else "floor"
    return torch.div(base.scatter_add(dim, index, src), count, rounding_mode=mode)


@composition(aten.index_reduce.default)
def index_reduce(
    x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    if x.dim() == 0:
        one = index_reduce(x.reshape(1), 0, index, source.reshape(-1), reduce, include_self=include_self)
        return one.reshape(())
    shape = [1] * x.dim()
    shape[dim] = -1
    targets = index.to(torch.int64).reshape(shape).expand(source.shape)
    return torch.scatter_reduce(x, dim, targets, source, reduce, include_self=include_self)


@composition(aten.diagonal_scatter.default)
def diagonal_scatter(x: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    offsets = torch.arange(src.shape[-1])
    rows, columns = offsets + max(-offset, 0), offsets + max(offset, 0)
    front = x.movedim((dim1, dim2), (0, 1))
    return front.index_put((rows, columns), src.movedim(-1, 0)).movedim((0, 1), (dim1, dim2))


@composition(aten.as_strided_scatter.default)
def as_strided_scatter(
    x: Tensor, src: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    if not x.is_contiguous() or (storage_offset is None and x.storage_offset()):
        raise NotImplementedError
    offsets = torch.full((), storage_offset or 0, dtype=torch.int64)
    for axis, (count, step) in enumerate(zip(size, stride, strict=True)):
        shape = [1] * len(size)
        shape[axis] = count
        offsets = offsets + (torch.arange(count) * step).reshape(shape)
    return x.reshape(-1).scatter(0, offsets.reshape(-1), src.reshape(-1)).reshape(x.shape)


@composition(aten.masked_scatter.default)
def masked_scatter(x: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    if source.numel() == 0:
        raise NotImplementedError
    shape = torch.where(mask, x, x).shape
    x, mask = x.expand(shape), mask.expand(shape)
    rank = (mask.reshape(-1).to(torch.int64).cumsum(0) - 1).clamp(min=0, max=source.numel() - 1)
    return torch.where(mask, source.reshape(-1)[rank].reshape(x.shape), x)


@composition(aten.put.default)
def put(x: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    flat = x.reshape(-1).index_put((index.reshape(-1),), source.reshape(-1), accumulate)
    return flat.reshape(x.shape)


@composition(aten.index_fill.int_Scalar, aten.index_fill.int_Tensor)
def index_fill(x: Tensor, dim: int, index: Tensor, value: Tensor | float) -> Tensor:
    """Unlike those of index_copy, into which PyTorch decomposes it, negative indices count from the end."""
    if not x.dim():
        return index_fill(x.reshape(1), 0, index, value).reshape(())
    shape, targets = list(x.shape), index.reshape(-1)
    size, shape[dim] = shape[dim], targets.shape[0]
    filled = torch.as_tensor(value).to(x.dtype).expand(shape)
    return x.index_copy(dim, torch.where(targets < 0, targets + size, targets), filled)


@composition(aten.masked_scatter_backward.default)
def masked_scatter_gradient(gradient: Tensor, mask: Tensor, sizes: Sequence[int]) -> Tensor:
    """The gradient of the source, whose first elements were written where ``mask`` is true; others get 0."""
    count = math.prod(sizes)
    written = mask.expand(gradient.shape).flatten()
    position = written.to(torch.int64).cumsum(0) - 1
    targets = torch.where(written & (position < count), position, count)
    return gradient.new_zeros(count + 1).scatter(0, targets, gradient.flatten())[:count].reshape(sizes)


@composition(aten.unfold_backward.default)
def unfold_backward(grad: Tensor, input_size: Sequence[int], dim: int, size: int, step: int) -> Tensor:
    """Adds overlapping windows at their positions, as in an inverse short-time Fourier transform."""
    if not input_size:
        return grad.sum(0)
    dim %= len(input_size)
    count = (input_size[dim] - size) // step + 1
    windows = grad.expand(*input_size[:dim], count, *input_size[dim + 1 :], size)
    targets = (torch.arange(count).unsqueeze(1) * step + torch.arange(size)).flatten()
    return grad.new_zeros(input_size).index_add(
        dim, targets, windows.movedim(-1, dim + 1).flatten(dim, dim + 1)
    )
