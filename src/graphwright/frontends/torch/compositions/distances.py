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


def _gradient(gradient: Tensor, x: Tensor, p: float, norm: Tensor) -> Tensor:
    """The gradient of x, given that of its ``p``-norms along the last axis. It is 0 where x is 0."""
    if p == 0:
        return torch.zeros_like(x)
    gradient, norm = gradient.unsqueeze(-1), norm.unsqueeze(-1)
    if p == 1:
        return gradient * x.sign()
    if p == math.inf:
        return torch.where(x.abs() == norm, gradient * x.sign(), 0.0)
    inside = x if p == 2 else x.sign() * x.abs().pow(p - 1)
    outside = norm if p == 2 else norm.pow(p - 1)
    return torch.where((x == 0) | (norm == 0), 0.0, gradient * inside / outside)


@composition(aten._cdist_backward.default)
def cdist_gradient(gradient: Tensor, a: Tensor, b: Tensor, p: float, distances: Tensor) -> Tensor:
    """The gradient of ``a``."""
    if a.shape[:-2] != b.shape[:-2]:
        raise NotImplementedError(
            "gradients of distances between batches of different shapes are not supported"
        )
    return _gradient(gradient, a.unsqueeze(-2) - b.unsqueeze(-3), p, distances).sum(-2)


@composition(aten._pdist_backward.default)
def pdist_gradient(gradient: Tensor, x: Tensor, p: float, distances: Tensor) -> Tensor:
    if not isinstance(x.shape[0], int):
        raise NotImplementedError("the number of rows is not known")
    first, second = torch.triu_indices(x.shape[0], x.shape[0], 1)
    pairs = _gradient(gradient, x[first] - x[second], p, distances)
    return torch.zeros_like(x).index_add(0, first, pairs).index_add(0, second, -pairs)
