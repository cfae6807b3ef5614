"""Modules that PyTorch quantized in a graph: the operators that ``convert_pt2e`` writes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import graphwright as gw
from tests.torch.support import close, compiled

pytest.importorskip("torch.ao.quantization.fx._decomposed")
decomposed = torch.ops.quantized_decomposed

BYTES = (0, 255, torch.uint8)


class Quantized(nn.Module):
    """A convolution of bytes with a scale for each channel, and a linear layer."""

    def __init__(self, *, dynamic: bool) -> None:
        super().__init__()
        self.dynamic = dynamic
        for name, shape in (("image", (16, 3, 3, 3)), ("linear", (10, 256))):
            self.register_buffer(name, torch.randint(-128, 128, shape, dtype=torch.int8))
            self.register_buffer(f"{name}_scales", torch.rand(shape[0]) * 0.01 + 0.001)
            self.register_buffer(f"{name}_zeros", torch.zeros(shape[0], dtype=torch.int64))

    def weight(self, name: str) -> torch.Tensor:
        scales, zeros = self.get_buffer(f"{name}_scales"), self.get_buffer(f"{name}_zeros")
        weight = self.get_buffer(name)
        made: torch.Tensor = decomposed.dequantize_per_channel(
            weight, scales, zeros, 0, -128, 127, torch.int8
        )
        return made

    def rounded(self, x: torch.Tensor, scale: float, zero: int) -> torch.Tensor:
        given: tuple[Any, Any] = (scale, zero)
        if self.dynamic:
            given = decomposed.choose_qparams.tensor(x, 0, 255, 2.0**-12, torch.uint8)
        quantized = decomposed.quantize_per_tensor(x, *given, *BYTES)
        made: torch.Tensor = decomposed.dequantize_per_tensor(quantized, *given, *BYTES)
        return made

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = nn.functional.conv2d(self.rounded(x, 2**-5, 120), self.weight("image")).relu()
        y = self.rounded(y, 2**-6, 0).flatten(1)
        return nn.functional.linear(y, self.weight("linear"))


@pytest.mark.parametrize("dynamic", [False, True])
def test_quantized_modules_run_without_pytorch(dynamic: bool) -> None:
    torch.manual_seed(0)
    module, x = Quantized(dynamic=dynamic).eval(), torch.randn(2, 3, 6, 6)
    with torch.no_grad():
        expected = module(x)
        run = compiled(module)
        most = expected.abs().max() * 0.01  # a value halfway between two bytes may become either
        torch.testing.assert_close(run(x), expected, rtol=0, atol=float(most))
        assert not gw.torch.report(run).missing
        made = torch.from_numpy(gw.compile(module, (x,))(x))
    torch.testing.assert_close(made, expected, rtol=0, atol=float(most))


@pytest.mark.parametrize(
    ("low", "high", "dtype"),
    [(-128, 127, torch.int8), (-127, 127, torch.int8), (-8, 7, torch.int8), (0, 127, torch.uint8)],
)
def test_narrow_ranges_of_integers(low: int, high: int, dtype: torch.dtype) -> None:
    def quantize(x: torch.Tensor, scales: torch.Tensor, zeros: torch.Tensor) -> Any:
        single = decomposed.quantize_per_tensor(x, 0.0625, 3, low, high, dtype)
        each = decomposed.quantize_per_channel(x, scales, zeros, 1, low, high, dtype)
        return single, each, decomposed.dequantize_per_channel(each, scales, zeros, 1, low, high, dtype)

    x = torch.linspace(-20, 20, 60).reshape(4, 5, 3)
    scales, zeros = 2.0 ** -torch.arange(5), torch.tensor([0, 1, 2, 3, 4])
    run = compiled(quantize)
    close(run(x, scales, zeros), quantize(x, scales, zeros))
    assert not gw.torch.report(run).missing


@pytest.mark.parametrize("shift", [-9.0, 0.0, 9.0])
def test_parameters_chosen_at_run_time(shift: float) -> None:
    def choose(x: torch.Tensor) -> Any:
        return (
            decomposed.choose_qparams.tensor(x, 0, 255, 2.0**-12, torch.uint8),
            decomposed.choose_qparams_symmetric.tensor(x, -127, 127, 2.0**-12, torch.int8),
            decomposed.choose_qparams_symmetric.tensor(x * 0, 0, 255, 2.0**-12, torch.uint8),
        )

    x, run = torch.linspace(-3, 2, 12).reshape(3, 4) + shift, compiled(choose)
    close(run(x), choose(x))
    assert not gw.torch.report(run).missing


def test_parameters_that_the_quantized_dtype_does_not_have() -> None:
    def quantize(x: torch.Tensor, scales: torch.Tensor, zeros: torch.Tensor) -> Any:
        far = decomposed.quantize_per_tensor(x, 0.5, 300, *BYTES)
        wide = decomposed.quantize_per_tensor(x, 0.5, 5, -(2**20), 2**20, torch.int32)
        each = decomposed.quantize_per_channel(x, scales, zeros, 0, *BYTES)
        return (
            (far, decomposed.dequantize_per_tensor(far, 0.5, 300, *BYTES)),
            (wide, decomposed.dequantize_per_tensor(wide, 0.5, 5, -(2**20), 2**20, torch.int32)),
            (each, decomposed.dequantize_per_channel(each, scales, zeros, 0, *BYTES)),
        )

    x = torch.linspace(-100, 20, 12).reshape(3, 4)
    scales, zeros = torch.tensor([0.5, 0.25, 1.0]), torch.tensor([0.5, 30.0, 99.5])
    run = compiled(quantize)
    close(run(x, scales, zeros), quantize(x, scales, zeros))
    assert not gw.torch.report(run).missing
