"""Quantization with parameters that QuantizeLinear and DequantizeLinear do not have, such as zero points that
are floats, and scales and zero points that are chosen at run time.
"""

from __future__ import annotations

from typing import Any

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


@composition(
    "quantized_decomposed.quantize_per_tensor.default", "quantized_decomposed.quantize_per_tensor.tensor"
)
def quantize(x: Tensor, scale: Any, zero: Any, low: int, high: int, dtype: torch.dtype) -> Tensor:
    return torch.clamp(torch.round(x.float() * (1.0 / scale)) + zero, low, high).to(dtype)


@composition("quantized_decomposed.quantize_per_channel.default")
def quantize_channels(
    x: Tensor, scales: Tensor, zeros: Tensor, axis: int, low: int, high: int, dtype: torch.dtype
) -> Tensor:
    shape = _along(axis, x)
    return quantize(x, scales.view(shape), zeros.view(shape), low, high, dtype)


@composition(
    "quantized_decomposed.dequantize_per_tensor.default", "quantized_decomposed.dequantize_per_tensor.tensor"
)
def dequantize(x: Tensor, scale: Any, zero: Any, *_: Any, out_dtype: torch.dtype | None = None) -> Tensor:
    to = out_dtype or torch.float32
    made: Tensor = (x.to(to) - zero) * scale
    return made.to(to)


@composition("quantized_decomposed.dequantize_per_channel.default")
def dequantize_channels(
    x: Tensor, scales: Tensor, zeros: Tensor, axis: int, *_: Any, out_dtype: torch.dtype | None = None
) -> Tensor:
    shape = _along(axis, x)
    return dequantize(x, scales.view(shape), zeros.view(shape), out_dtype=out_dtype)


def _along(axis: int, x: Tensor) -> list[int]:
    return [-1 if k == axis else 1 for k in range(x.dim())]


def _range_with_zero(x: Tensor) -> tuple[Tensor, Tensor]:
    zero = x.new_zeros(())
    return torch.minimum(x.amin(), zero), torch.maximum(x.amax(), zero)


def _at_least(scale: Tensor, eps: float) -> Tensor:
    """A vector of one element."""
    return torch.maximum(scale, torch.full((1,), eps, dtype=torch.float32))
