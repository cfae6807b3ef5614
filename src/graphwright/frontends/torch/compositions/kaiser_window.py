"""The window of Kaiser, whose kernel in PyTorch writes memory itself and cannot be traced."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graphwright.frontends.torch.compositions.registry import composition

aten = torch.ops.aten


@composition(aten.kaiser_window.default, aten.kaiser_window.periodic, aten.kaiser_window.beta)
def kaiser_window(
    length: int, periodic: bool = True, beta: float = 12.0, *, dtype: torch.dtype | None = None, **_: Any
) -> Tensor:
    """``I0(beta * sqrt(1 - x**2)) / I0(beta)`` for ``length`` numbers ``x`` from -1 to 1, the last of which a
    periodic window leaves out.
    """
    intervals = max(length if periodic else length - 1, 1)
    x = torch.arange(length, dtype=torch.float64) * (2 / intervals) - (length > 1)
    window = torch.i0(beta * (1 - x * x).clamp(min=0).sqrt()) / torch.i0(torch.tensor(beta).double())
    return window.to(dtype or torch.get_default_dtype())
