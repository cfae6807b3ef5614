"""Exported programs that compute with complex numbers, compared with NumPy and with eager PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim

import graphwright as gw
from graphwright.errors import ModelError

SIGNAL = np.random.default_rng(0).standard_normal((3, 6, 8), np.float32)


class Calls(nn.Module):
    """Calls a function, and has a complex buffer."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.register_buffer("turn", torch.polar(torch.ones(6, 4), torch.arange(24.0).reshape(6, 4)))

    def forward(self, *arguments: torch.Tensor) -> Any:
        return self.function(self, *arguments)


def ran(function: Callable[..., Any], *arguments: Any) -> Any:
    tensors = tuple(map(torch.from_numpy, arguments))
    return gw.compile(Calls(function), tensors, options={"device": "reference"})(*arguments)


def close(made: Any, expected: Any) -> None:
    assert len(made) == len(expected)
    for each, other in zip(made, expected, strict=True):
        assert each.dtype == other.dtype
        np.testing.assert_allclose(each, other, rtol=1e-4, atol=1e-4)


def parts(array: Any) -> Any:
    """Real and imaginary parts along a last axis, in f32."""
    return np.stack([array.real, array.imag], axis=-1).astype(np.float32)


def test_fourier_transforms_are_those_of_numpy() -> None:
    def forward(module: Any, x: torch.Tensor) -> Any:
        real, fft = torch.view_as_real, torch.fft
        spectrum = fft.fft(x, dim=1)
        return (
            real(spectrum),
            fft.ifft(spectrum, dim=1).real,
            real(fft.rfft(x, norm="ortho")),
            real(fft.rfftn(x, norm="forward")),
            real(fft.fft2(x, norm="ortho")),
            real(fft.ifftn(x)),
            fft.irfft(fft.rfft(x), n=8),
            fft.irfft2(fft.rfft2(x), norm="backward"),
            fft.irfft(spectrum, n=7, norm="ortho"),
        )

    spectrum, fft = np.fft.fft(SIGNAL, axis=1), np.fft
    expected = (
        parts(spectrum),
        SIGNAL,
        parts(fft.rfft(SIGNAL, norm="ortho")),
        parts(fft.rfftn(SIGNAL, norm="forward")),
        parts(fft.fft2(SIGNAL, norm="ortho")),
        parts(fft.ifftn(SIGNAL)),
        SIGNAL,
        SIGNAL,
        fft.irfft(spectrum, n=7, norm="ortho").astype(np.float32),
    )
    close(ran(forward, SIGNAL), expected)


def test_arithmetic_is_that_of_numpy() -> None:
    def forward(module: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
        z = torch.complex(x, y)
        made = (z * z.conj(), z / (z + 2j), z * 0.5, 3 - z, torch.exp(z), z @ z.mT, z.sum(0), z**2, z * x)
        return (*map(torch.view_as_real, made), z.abs(), z.angle(), (z * 0).pow(2).real)

    x, y = SIGNAL[:, :4, :4], SIGNAL[:, 2:, 4:]
    z = x + 1j * y
    made = (
        z * z.conj(), z / (z + 2j), z * 0.5, 3 - z, np.exp(z), z @ z.swapaxes(1, 2), z.sum(0), z**2, z * x
    )  # fmt: skip
    expected = (*map(parts, made), np.abs(z), np.angle(z), np.zeros_like(x))
    close(ran(forward, x, y), expected)


def test_complex_tensors_are_made_and_filled() -> None:
    """As in Fourier neural operators, which write modes to a tensor of zeros, and in rotary embeddings."""

    def forward(module: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
        modes = torch.zeros(3, 4, 4, dtype=torch.cfloat)
        modes[:, :2, -3:] = torch.polar(x, y)[:, 2:, :3]
        ones = modes.new_ones(4), torch.ones_like(modes)
        filled = torch.full((2, 4), 1 - 2j), modes.new_full((4,), 3j), *ones
        return (*map(torch.view_as_real, (modes, modes.tril(), *filled)),)

    x, y = np.abs(SIGNAL[:, :4, :4]), SIGNAL[:, 2:, 4:]
    modes = np.zeros((3, 4, 4), np.complex64)
    modes[:, :2, -3:] = (x * np.exp(1j * y))[:, 2:, :3]
    filled = np.full((2, 4), 1 - 2j), np.full(4, 3j), np.ones(4), np.ones_like(modes)
    close(ran(forward, x, y), tuple(parts(each + 0j) for each in (modes, np.tril(modes), *filled)))


def test_products_and_sums_of_matrices() -> None:
    def forward(module: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
        z = torch.complex(x, y)
        made = (
            torch.nn.functional.linear(z, z[0], z[0, 0]),
            torch.addmm(z[0], z[1], z[2], beta=0.5, alpha=2),
            torch.baddbmm(z, z, z),
            z[0] @ z[1, 0],
        )
        return (*map(torch.view_as_real, made),)

    x, y = SIGNAL[:, :4, :4], SIGNAL[:, 2:, 4:]
    z = x + 1j * y
    made = z @ z[0].T + z[0, 0], 0.5 * z[0] + 2 * z[1] @ z[2], z + z @ z, z[0] @ z[1, 0]
    close(ran(forward, x, y), tuple(map(parts, made)))


def test_rotary_embeddings_with_a_complex_buffer() -> None:
    def forward(module: Any, x: torch.Tensor) -> Any:
        z = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(z * module.turn[: x.shape[1]]).flatten(2)

    made = ran(forward, SIGNAL)
    z = (SIGNAL[..., ::2] + 1j * SIGNAL[..., 1::2]) * np.exp(1j * np.arange(24.0).reshape(6, 4))
    np.testing.assert_allclose(made, parts(z).reshape(3, 6, 8), rtol=1e-4, atol=1e-4)


def test_short_time_fourier_transforms_of_any_batch() -> None:
    def forward(module: Any, x: torch.Tensor) -> Any:
        window = torch.hann_window(16)
        z = torch.stft(x, 16, 4, window=window, return_complex=True)
        return z.abs(), torch.istft(z * 0.5, 16, 4, window=window, length=48)

    module = Calls(forward)
    batch = Dim("batch", min=2, max=64)
    made = gw.compile(module, (torch.rand(2, 48),), dynamic_shapes=(({0: batch},),))
    x = torch.rand(5, 48)
    expected = [each.numpy() for each in module(x)]
    close(made(x), expected)
    np.testing.assert_allclose(expected[1], x.numpy() / 2, rtol=1e-4, atol=1e-5)


def test_complex_results_are_errors_that_say_what_to_return() -> None:
    with pytest.raises(ModelError, match=r"it is complex: return torch\.view_as_real of it"):
        ran(lambda module, x: torch.fft.fft(x), SIGNAL)
