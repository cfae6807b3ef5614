"""Functions on elements that several compositions use."""

from __future__ import annotations

import math

import torch
from torch import Tensor

MOST_BITS = 31
"""The bits of the greatest dynamic size."""


def lowest(x: Tensor) -> float:
    if x.dtype == torch.bool:
        return False
    return -math.inf if x.dtype.is_floating_point else torch.iinfo(x.dtype).min


def highest(x: Tensor) -> float:
    if x.dtype == torch.bool:
        return True
    return math.inf if x.dtype.is_floating_point else torch.iinfo(x.dtype).max


def isnan(x: Tensor) -> Tensor:
    return x.isnan() if x.dtype.is_floating_point else torch.zeros_like(x, dtype=torch.bool)


def positions(x: Tensor, dim: int) -> Tensor:
    """The index of each element along ``dim``, as a tensor that broadcasts to ``x``."""
    shape = [1] * x.dim()
    shape[dim] = x.shape[dim]
    return torch.arange(x.shape[dim]).reshape(shape)
