"""Distances between rows."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from graphwright.frontends.torch.compositions.registry import composition

aten = torch.ops.aten


def _norm(x: Tensor, p: float) -> Tensor:
    """The ``p``-norm along the last axis."""
    size = x.abs()
    if p == 0:
        return (size != 0).to(x.dtype).sum(-1)
    if p == 1:
        return size.sum(-1)
    if p == math.inf:
        return size.amax(-1) if x.shape[-1] else x.sum(-1)
    return (x * x).sum(-1).sqrt() if p == 2 else size.pow(p).sum(-1).pow(1 / p)


@composition(aten._cdist_forward.default)
def cdist(a: Tensor, b: Tensor, p: float, compute_mode: int | None = None) -> Tensor:
    return _norm(a.unsqueeze(-2) - b.unsqueeze(-3), p)


@composition(aten._pdist_forward.default)
def pdist(x: Tensor, p: float = 2.0) -> Tensor:
    if not isinstance(x.shape[0], int):
        raise NotImplementedError
    first, second = torch.triu_indices(x.shape[0], x.shape[0], 1)
    return _norm(x[first] - x[second], p)
