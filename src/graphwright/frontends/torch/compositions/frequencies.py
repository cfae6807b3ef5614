"""The frequencies of discrete Fourier transforms."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graphwright.frontends.torch.compositions.registry import composition

aten = torch.ops.aten


@composition(aten.fft_fftfreq.default)
def fft_fftfreq(n: int, d: float = 1.0, *, dtype: torch.dtype | None = None, **_: Any) -> Tensor:
    numbers = torch.arange(n, dtype=dtype or torch.get_default_dtype())
    return torch.where(numbers < (n + 1) // 2, numbers, numbers - n) * (1.0 / (n * d))


@composition(aten.fft_rfftfreq.default)
def fft_rfftfreq(n: int, d: float = 1.0, *, dtype: torch.dtype | None = None, **_: Any) -> Tensor:
    return torch.arange(n // 2 + 1, dtype=dtype or torch.get_default_dtype()) * (1.0 / (n * d))
