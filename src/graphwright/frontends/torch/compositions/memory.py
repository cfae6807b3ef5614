"""Uninitialized tensors, which become zeros, and zeros without memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from graphwright.frontends.torch.compositions.registry import composition

aten = torch.ops.aten


@composition(aten.new_empty_strided.default)
def new_empty_strided(x: Tensor, size: Sequence[int], stride: Sequence[int], **named: Any) -> Tensor:
    return torch.zeros(size, dtype=named.get("dtype") or x.dtype)


@composition(aten._new_zeros_with_same_feature_meta.default)
def new_zeros_with_same_feature_meta(x: Tensor, other: Tensor, *, self_num_batch_dims: int = 0) -> Tensor:
    return x.new_zeros([*x.shape[:self_num_batch_dims], *other.shape])


@composition(aten._efficientzerotensor.default)
def efficient_zero_tensor(size: Sequence[int], **named: Any) -> Tensor:
    return torch.zeros(size, dtype=named.get("dtype") or torch.get_default_dtype())


@composition(aten.empty_permuted.default)
def empty_permuted(size: Sequence[int], physical_layout: Sequence[int], **named: Any) -> Tensor:
    return torch.zeros(size, dtype=named.get("dtype") or torch.get_default_dtype())
