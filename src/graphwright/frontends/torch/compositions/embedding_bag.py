"""Embedding bags: reductions over groups of rows of a table."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from graphwright.frontends.torch.compositions.registry import composition

aten = torch.ops.aten


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
    bag = (torch.arange(rows.shape[0]).unsqueeze(1) >= offsets).to(torch.int64).sum(1) - 1
    counts = torch.ones_like(rows) if padding_idx < 0 else (rows != padding_idx).to(torch.int64)
    sizes = torch.zeros(bags, dtype=torch.int64).scatter_add(0, bag, counts)
    taken = weight.index_select(0, rows)
    if per_sample_weights is not None:
        taken = taken * per_sample_weights.unsqueeze(1)
    where = bag.unsqueeze(1).expand(rows.shape[0], width)
    used = counts.unsqueeze(1) != 0
    if mode == 2:
        low = torch.full((bags, width), -math.inf, dtype=weight.dtype)
        reduced = low.scatter_reduce(0, where, taken.masked_fill(~used, -math.inf), "amax")
        reduced = torch.where(sizes.unsqueeze(1) > 0, reduced, 0.0)
    else:
        nothing = torch.zeros((bags, width), dtype=weight.dtype)
        reduced = nothing.scatter_add(0, where, torch.where(used, taken, 0.0))
    if mode == 1:
        reduced = reduced / sizes.clamp(min=1).unsqueeze(1)
    return reduced, bag.to(indices.dtype), sizes.to(indices.dtype), sizes.to(indices.dtype)
