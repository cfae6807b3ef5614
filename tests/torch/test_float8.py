"""Floats of 8 bits: weights, arguments and results."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import graphwright as gw
from tests.torch.support import close, compiled

FLOATS = (torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz)


class Small(nn.Module):
    """A linear layer with weights of 8 bits, and a scale for each column."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(24, 40).to(dtype), requires_grad=False)
        self.register_buffer("scale", torch.rand(24))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(x, self.weight.to(x.dtype) * self.scale[:, None])


@pytest.mark.parametrize("dtype", FLOATS)
def test_weights_of_8_bits_give_what_eager_mode_gives(dtype: torch.dtype) -> None:
    module, x = Small(dtype).eval(), torch.randn(3, 40)
    with torch.no_grad():
        expected, run = module(x), compiled(module)
        close(run(x), expected)
        assert not gw.torch.report(run).missing
        close(torch.from_numpy(gw.compile(module, (x,))(x)), expected)


@pytest.mark.parametrize("dtype", FLOATS)
def test_arguments_and_results(dtype: torch.dtype) -> None:
    def pair(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.to(dtype), y.float() * 2

    x = torch.tensor([0.0, -0.0, 1.3, -3.7, 17.0, 1e-3, 447.0, 465.0, -1e6, float("inf"), float("nan")])
    y, run = x.to(dtype), compiled(pair)
    made, expected = run(x, y), pair(x, y)
    assert made[0].dtype == dtype
    for result, wanted in zip(made, expected, strict=True):
        torch.testing.assert_close(result.float(), wanted.float(), rtol=0, atol=0, equal_nan=True)
    assert not gw.torch.report(run).missing
