"""Embedding bags: reductions over groups of rows of a table."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from graphwright.frontends.torch.compositions.registry import composition

aten = torch.ops.aten


def _bags(rows: Tensor, offsets: Tensor) -> Tensor:
    """The number of the bag of each row."""
    return (torch.arange(rows.shape[0]).unsqueeze(1) >= offsets).to(torch.int64).sum(1) - 1


def _sums_without_bags(weight: Tensor, scales: Tensor | None, padding_idx: int) -> bool:
    """Whether PyTorch sums without the numbers of bags, which are empty then."""
    if weight.dtype not in (torch.float32, torch.float16) or weight.stride(1) != 1:
        return False
    return padding_idx < 0 and (scales is None or scales.stride(0) == 1)


@composition(aten._embedding_bag_forward_only.default, aten._embedding_bag.default)
def embedding_bag(
    weight: Tensor, indices: Tensor, offsets: Tensor, scale_grad_by_freq: bool = False, mode: int = 0,
    sparse: bool = False, per_sample_weights: Tensor | None = None, include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Sums (mode 0), means (1) or maxima (2) of the rows of each bag, without rows of index
    ``padding_idx``.
    """
    if include_last_offset:
        offsets = offsets[:-1]
    bags, width, rows = offsets.shape[0], weight.shape[1], indices.to(torch.int64)
    bag = _bags(rows, offsets)
    counts = torch.ones_like(rows) if padding_idx < 0 else (rows != padding_idx).to(torch.int64)
    sizes = torch.zeros(bags, dtype=torch.int64).scatter_add(0, bag, counts)
    gathered = weight.index_select(0, rows)
    if per_sample_weights is not None:
        gathered = gathered * per_sample_weights.unsqueeze(1)
    where = bag.unsqueeze(1).expand(rows.shape[0], width)
    used = counts.unsqueeze(1) != 0
    if mode == 2:
        low = torch.full((bags, width), -math.inf, dtype=weight.dtype)
        reduced = low.scatter_reduce(0, where, gathered.masked_fill(~used, -math.inf), "amax")
        reduced = torch.where(sizes.unsqueeze(1) > 0, reduced, 0.0)
    else:
        nothing = torch.zeros((bags, width), dtype=weight.dtype)
        reduced = nothing.scatter_add(0, where, torch.where(used, gathered, 0.0))
    if mode == 1:
        reduced = reduced / sizes.clamp(min=1).unsqueeze(1)
    if mode == 0 and _sums_without_bags(weight, per_sample_weights, padding_idx):
        bag = bag[:0]
    return reduced, bag.to(indices.dtype), sizes.to(indices.dtype), sizes.to(indices.dtype)


@composition(aten._embedding_bag_backward.default)
def embedding_bag_gradient(
    gradient: Tensor, indices: Tensor, offsets: Tensor, offset2bag: Tensor, bag_size: Tensor,
    maximum_indices: Tensor, num_weights: int, scale_grad_by_freq: bool, mode: int, sparse: bool,
    per_sample_weights: Tensor | None, padding_idx: int = -1,
) -> Tensor:  # fmt: skip
    """The gradient of the table, of sums and means."""
    if mode == 2 or sparse or scale_grad_by_freq:
        raise NotImplementedError(
            "sparse gradients, gradients of maxima and scale_grad_by_freq are not supported"
        )
    rows = indices.to(torch.int64)
    bag = _bags(rows, offsets)
    grad_rows = gradient.index_select(0, bag)
    if mode == 1:
        grad_rows = grad_rows / bag_size.index_select(0, bag).clamp(min=1).unsqueeze(1)
    if per_sample_weights is not None:
        grad_rows = grad_rows * per_sample_weights.unsqueeze(1)
    if padding_idx >= 0:
        grad_rows = torch.where((rows == padding_idx).unsqueeze(1), 0.0, grad_rows)
    return grad_rows.new_zeros(num_weights, grad_rows.shape[1]).index_add(0, rows, grad_rows)


@composition(aten._embedding_bag_per_sample_weights_backward.default)
def sample_weights_gradient(
    gradient: Tensor, weight: Tensor, indices: Tensor, offsets: Tensor, offset2bag: Tensor, mode: int,
    padding_idx: int = -1,
) -> Tensor:  # fmt: skip
    """The gradient of the factors of a weighted sum."""
    rows = indices.to(torch.int64)
    products = (gradient.index_select(0, _bags(rows, offsets)) * weight.index_select(0, rows)).sum(1)
    return torch.where(rows == padding_idx, 0.0, products) if padding_idx >= 0 else products
