"""Pooling and resizing with windows of different sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch
from torch import Tensor
from torch.nn import functional

from graphwright.frontends.torch.compositions.elements import lowest
from graphwright.frontends.torch.compositions.registry import Composition, composition

aten = torch.ops.aten


def _adaptive_windows(whole: int, count: int) -> tuple[Tensor, Tensor]:
    """The indices of the elements of ``count`` windows, padded to equal width, and whether each is inside."""
    widest = max(-(-(k + 1) * whole // count) - k * whole // count for k in range(count))
    window = torch.arange(count).unsqueeze(1)
    positions = window * whole // count + torch.arange(widest)
    ends = ((window + 1) * whole + count - 1) // count
    return positions.clamp(max=whole - 1), positions < ends


@composition(aten._adaptive_avg_pool2d.default, aten._adaptive_avg_pool3d.default)
def adaptive_avg_pool(x: Tensor, output_size: Sequence[int]) -> Tensor:
    """Pooling of dynamic sizes: along each axis a product with the weights of the windows."""
    result_dtype = x.dtype
    x = x.to(torch.promote_types(x.dtype, torch.float32))
    for k, count in enumerate(output_size):
        axis = k - len(output_size)
        size = x.shape[axis]
        window, position = torch.arange(count).unsqueeze(1), torch.arange(size)
        first, end = window * size // count, ((window + 1) * size + count - 1) // count
        weights = ((position >= first) & (position < end)).to(x.dtype) / (end - first)
        x = torch.matmul(x.movedim(axis, -1), weights.t()).movedim(-1, axis)
    return x.to(result_dtype)


@composition(aten.adaptive_max_pool2d.default, aten.adaptive_max_pool3d.default)
def adaptive_max_pool(x: Tensor, output_size: Sequence[int]) -> tuple[Tensor, Tensor]:
    rank = len(output_size)
    sizes = x.shape[-rank:]
    if all(count == 1 for count in output_size):
        largest, where = x.flatten(-rank).max(-1)
        return largest[(..., *[None] * rank)], where[(..., *[None] * rank)]
    if not all(isinstance(size, int) and size for size in (*sizes, *output_size)):
        raise NotImplementedError
    if all(size % count == 0 for size, count in zip(sizes, output_size, strict=True)):
        pool = aten.max_pool2d_with_indices if rank == 2 else aten.max_pool3d_with_indices
        largest, where = pool(x, [size // count for size, count in zip(sizes, output_size, strict=True)])
        return largest, where
    positions = torch.zeros((), dtype=torch.int64)
    inside = torch.ones((), dtype=torch.bool)
    for axis, (size, count) in enumerate(zip(sizes, output_size, strict=True)):
        own, within = _adaptive_windows(size, count)
        shape = [1] * 2 * rank
        shape[axis], shape[rank + axis] = own.shape
        positions = positions * size + own.reshape(shape)
        inside = inside & within.reshape(shape)
    windows = x.flatten(-rank)[..., positions].masked_fill(~inside, lowest(x)).flatten(-rank)
    best = windows.argmax(-1, keepdim=True)
    values = windows.gather(-1, best).squeeze(-1)
    flat = positions.flatten(-rank)
    indices = flat.expand(*windows.shape[: -rank - 1], *flat.shape).gather(-1, best).squeeze(-1)
    return values, indices


@composition(aten.avg_pool2d.default, aten.avg_pool3d.default)
def avg_pool(
    x: Tensor, kernel_size: Sequence[int], stride: Sequence[int] = (), padding: Sequence[int] = (0,),
    ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None,
) -> Tensor:  # fmt: skip
    """Average pooling with ``divisor_override``: the mean over padded windows, multiplied by their size."""
    pool, rank = aten.avg_pool2d.default, 2
    if len(kernel_size) == 3 or x.dim() == 5:
        pool, rank = aten.avg_pool3d.default, 3
    sizes = x.shape[-rank:]
    if divisor_override is None or not all(isinstance(size, int) for size in sizes):
        raise NotImplementedError
    kernel, steps, pads = (_per_axis(n, rank) for n in (kernel_size, stride or kernel_size, padding))
    zeros: list[int] = []
    for size, width, step, before in zip(sizes, kernel, steps, pads, strict=True):
        last = _windows(size, width, step, before, ceil_mode) - 1
        zeros = [before, max(last * step + width - size - before, 0), *zeros]
    mean: Tensor = pool(functional.pad(x, zeros), kernel, steps)
    return mean * (math.prod(kernel) / divisor_override)


@composition(aten.unfold.default)
def unfold(x: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """Windows of an axis, whose elements become the last axis."""
    if x.dim() == 0:
        return x.expand(size)
    axis = dimension % x.dim()
    count = (x.shape[axis] - size) // step + 1
    positions = torch.arange(count).unsqueeze(1) * step + torch.arange(size)
    return x.movedim(axis, -1)[..., positions].movedim(-2, axis)


def _per_axis(sizes: Sequence[int], rank: int) -> Sequence[int]:
    return list(sizes) * rank if len(sizes) == 1 else sizes


def _windows(size: int, width: int, step: int, before: int, ceil_mode: bool) -> int:
    """The number of windows. With ``ceil_mode``, the last one can extend beyond the end, but must start
    before it.
    """
    room = size + 2 * before - width
    if not ceil_mode:
        return room // step + 1
    count = -(-room // step) + 1
    return count - 1 if (count - 1) * step >= size + before else count


Window: TypeAlias = Callable[[Tensor], Tensor]


def _triangle(distance: Tensor) -> Tensor:
    return (1 - distance.abs()).clamp(min=0)


def _cubic(distance: Tensor) -> Tensor:
    x, a = distance.abs(), -0.5
    outer = torch.where(x < 2, (((x - 5) * x + 8) * x - 4) * a, 0.0)
    return torch.where(x < 1, ((a + 2) * x - (a + 3)) * x * x + 1, outer)


def _smoothed(
    size: int, count: int, align_corners: bool, scale: float | None, window: Window, radius: int,
    dtype: torch.dtype,
) -> Tensor:  # fmt: skip
    """The weight of each of ``size`` elements for each of ``count`` results: a window of this radius, as wide
    as the scale.
    """
    if size == count:  # whatever the scale is
        return torch.eye(count, dtype=dtype)
    if align_corners:
        step = (size - 1) / (count - 1) if count > 1 else 0.0
    else:
        step = 1 / scale if scale else size / count
    width = max(step, 1.0)
    center = step * (torch.arange(count, dtype=dtype).unsqueeze(1) + 0.5)
    position = torch.arange(size)
    first = (center - radius * width + 0.5).to(torch.int64).clamp(min=0)
    last = (center + radius * width + 0.5).to(torch.int64).clamp(max=size)
    weights = window((position - center + 0.5) / width)
    weights = torch.where((position >= first) & (position < last), weights, 0.0)
    return weights / weights.sum(1, keepdim=True)


def _upsample_smooth(window: Window, radius: int) -> Composition:
    def resized(
        x: Tensor, output_size: Sequence[int], align_corners: bool,
        scales_h: float | None = None, scales_w: float | None = None,
    ) -> Tensor:  # fmt: skip
        sizes = (*x.shape[-2:], *output_size)
        if x.dtype not in (torch.float32, torch.float64) or not all(isinstance(size, int) for size in sizes):
            raise NotImplementedError
        rows = _smoothed(sizes[0], sizes[2], align_corners, scales_h, window, radius, x.dtype)
        columns = _smoothed(sizes[1], sizes[3], align_corners, scales_w, window, radius, x.dtype)
        return torch.matmul(rows, torch.matmul(x, columns.t()))

    return resized


composition(aten._upsample_bilinear2d_aa.default)(_upsample_smooth(_triangle, 1))
composition(aten._upsample_bicubic2d_aa.default)(_upsample_smooth(_cubic, 2))
