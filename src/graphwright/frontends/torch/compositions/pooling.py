"""Gradients of pooling."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from graphwright.frontends.torch.compositions.registry import composition

aten = torch.ops.aten


@composition(aten.max_pool3d_with_indices_backward.default)
def max_pool3d_gradient(
    gradient: Tensor, x: Tensor, kernel_size: Sequence[int], stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], ceil_mode: bool, indices: Tensor,
) -> Tensor:  # fmt: skip
    return _at_maxima(gradient, x, indices, axes=3)


@composition(aten.adaptive_max_pool2d_backward.default)
def adaptive_max_pool2d_gradient(gradient: Tensor, x: Tensor, indices: Tensor) -> Tensor:
    return _at_maxima(gradient, x, indices, axes=2)


@composition(aten.adaptive_max_pool3d_backward.default)
def adaptive_max_pool3d_gradient(gradient: Tensor, x: Tensor, indices: Tensor) -> Tensor:
    return _at_maxima(gradient, x, indices, axes=3)


def _at_maxima(gradient: Tensor, x: Tensor, indices: Tensor, axes: int) -> Tensor:
    """Adds each gradient at the element that was the maximum of its window."""
    zeros = torch.zeros_like(x).flatten(-axes)
    return zeros.scatter_add(-1, indices.flatten(-axes), gradient.flatten(-axes)).reshape(x.shape)


@composition(aten.avg_pool2d_backward.default, aten.avg_pool3d_backward.default)
def avg_pool_gradient(
    gradient: Tensor, x: Tensor, kernel_size: Sequence[int], stride: Sequence[int], padding: Sequence[int],
    ceil_mode: bool, count_include_pad: bool, divisor_override: int | None,
) -> Tensor:  # fmt: skip
    """The gradients, divided by the numbers of elements of their windows, and added over the windows of each
    element.
    """
    axes = len(kernel_size) if len(kernel_size) > 1 else (3 if x.dim() == 5 else 2)
    kernel, pads = (tuple(each) * (axes if len(each) == 1 else 1) for each in (kernel_size, padding))
    strides = tuple(stride) * (axes if len(stride) == 1 else 1) or kernel
    gradient = gradient / (divisor_override or 1)
    if divisor_override is None:
        for axis, window in enumerate(zip(kernel, strides, pads, strict=True)):
            counts = _counts(gradient, x, axis - axes, *window, with_pads=count_include_pad)
            gradient = gradient / counts
    sums = gradient
    if kernel == strides:
        for axis, size in enumerate(kernel):
            sums = sums.repeat_interleave(size, axis - axes)
    else:
        ones = gradient.new_ones((gradient.shape[-1 - axes], 1, *kernel))
        transposed = functional.conv_transpose2d if axes == 2 else functional.conv_transpose3d
        sums = transposed(gradient, ones, stride=strides, groups=len(ones))
    sizes = zip(x.shape[-axes:], sums.shape[-axes:], pads, strict=True)
    ends = [size - total + pad for size, total, pad in sizes]
    widths = [width for pad, end in zip(reversed(pads), reversed(ends), strict=True) for width in (-pad, end)]
    return functional.pad(sums, widths).reshape(x.shape)


def _counts(
    gradient: Tensor, x: Tensor, axis: int, kernel: int, stride: int, pad: int, with_pads: bool
) -> Tensor:
    """The number of elements of each window along ``axis``, in a shape that broadcasts to ``gradient``."""
    size = x.shape[axis]
    first = torch.arange(gradient.shape[axis]) * stride - pad
    last = (first + kernel).clamp(max=size + pad)
    counts = last - first if with_pads else last.clamp(max=size) - first.clamp(min=0)
    return counts.to(gradient.dtype).reshape(-1, *(1 for _ in range(-1 - axis)))


@composition(aten._adaptive_avg_pool2d_backward.default)
def adaptive_avg_pool2d_gradient(gradient: Tensor, x: Tensor) -> Tensor:
    return _adaptive_gradient(gradient, x, axes=2)


@composition(aten._adaptive_avg_pool3d_backward.default)
def adaptive_avg_pool3d_gradient(gradient: Tensor, x: Tensor) -> Tensor:
    return _adaptive_gradient(gradient, x, axes=3)


def _adaptive_gradient(gradient: Tensor, x: Tensor, axes: int) -> Tensor:
    """The products with the transposed matrices of averages along each axis. Averages of a whole axis are
    copied.
    """
    for axis in range(-axes, 0):
        size, count = x.shape[axis], gradient.shape[axis]
        if count == 1:
            sizes = list(gradient.shape)
            sizes[axis] = size
            gradient = (gradient / size).expand(sizes)
        elif count != size:
            bins, elements = torch.arange(count).unsqueeze(-1), torch.arange(size)
            first, last = bins * size // count, ((bins + 1) * size + count - 1) // count
            averages = ((elements >= first) & (elements < last)) / (last - first)
            gradient = (gradient.movedim(axis, -1) @ averages.to(gradient.dtype)).movedim(-1, axis)
    return gradient.clone()
