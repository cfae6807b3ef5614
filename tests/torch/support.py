"""Runs functions under ``torch.compile`` or as modules, and compares them with eager PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from graphwright.torch import backend


def compiled(function: Any, **arguments: Any) -> Any:
    return torch.compile(function, backend=backend, **arguments)


def close(result: Any, expected: Any, rtol: float = 1e-4) -> None:
    """Arrays and tensors in the same containers."""
    plain = torch.utils._pytree.tree_map_only(np.ndarray, lambda a: torch.from_numpy(np.array(a)), result)
    torch.testing.assert_close(plain, expected, rtol=rtol, atol=1e-5)


class Applies(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)
