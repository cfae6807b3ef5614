"""Scales and zero points of tensors that are quantized at run time."""

from __future__ import annotations

import torch
from torch import Tensor

from graphwright.frontends.torch.compositions.registry import composition


@composition("quantized_decomposed.choose_qparams.tensor")
def choose_qparams(
    x: Tensor, quant_min: int, quant_max: int, eps: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    low, high = _range_with_zero(x)
    scale = _at_least((high - low) / float(quant_max - quant_min), eps)
    zero = (quant_min - torch.round(low / scale)).clamp(quant_min, quant_max)
    return scale.double(), zero.long()


@composition("quantized_decomposed.choose_qparams_symmetric.tensor")
def choose_qparams_symmetric(
    x: Tensor, quant_min: int, quant_max: int, eps: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    low, high = _range_with_zero(x)
    scale = _at_least(torch.maximum(-low, high) / (float(quant_max - quant_min) / 2), eps)
    return scale.double(), torch.full((1,), 128 if dtype == torch.uint8 else 0)


def _range_with_zero(x: Tensor) -> tuple[Tensor, Tensor]:
    zero = x.new_zeros(())
    return torch.minimum(x.amin(), zero), torch.maximum(x.amax(), zero)


def _at_least(scale: Tensor, eps: float) -> Tensor:
    """A vector of one element."""
    return torch.maximum(scale, torch.full((1,), eps, dtype=torch.float32))
