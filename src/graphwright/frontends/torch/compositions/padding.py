"""Gradients of padding by the elements at the edges."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from graphwright.frontends.torch.compositions.registry import composition

aten = torch.ops.aten


@composition(
    aten.replication_pad1d_backward.default,
    aten.replication_pad2d_backward.default,
    aten.replication_pad3d_backward.default,
)
def replication_pad_gradient(gradient: Tensor, x: Tensor, padding: Sequence[int]) -> Tensor:
    """Adds the sums over the padding of each axis at its edges. Cropped elements have a gradient of 0."""
    for k, (before, after) in enumerate(zip(padding[::2], padding[1::2], strict=True)):
        axis, beside = -1 - k, (0, 0) * k
        size, whole = x.shape[axis], gradient.shape[axis]
        inner = functional.pad(gradient, (*beside, -before, -after))
        if before > 0:
            edge = gradient.narrow(axis, 0, before).sum(axis, keepdim=True)
            inner = inner + functional.pad(edge, (*beside, 0, size - 1))
        if after > 0:
            edge = gradient.narrow(axis, whole - after, after).sum(axis, keepdim=True)
            inner = inner + functional.pad(edge, (*beside, size - 1, 0))
        gradient = inner
    return gradient
