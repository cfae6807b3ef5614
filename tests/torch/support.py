"""Runs functions under ``torch.compile`` and compares them with eager PyTorch."""

from __future__ import annotations

from typing import Any

import torch

from graphwright.torch import backend


def compiled(function: Any, **arguments: Any) -> Any:
    return torch.compile(function, backend=backend, **arguments)


def close(result: Any, expected: Any) -> None:
    torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5)
