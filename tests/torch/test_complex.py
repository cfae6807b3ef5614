"""Complex tensors under ``torch.compile`` are pairs of real ones, and nothing is left to PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from graphwright.torch import report
from tests.torch.support import close, compiled


def spectrum(*shape: int, dtype: torch.dtype = torch.complex64) -> torch.Tensor:
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(0))


def assert_native(run: Any) -> None:
    missing = [str(each) for each in report(run).missing]
    assert not missing


CALLS: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "arithmetic": lambda z, w: (z * w, z + 2j * w, z / w, z - 1, z**2, -z, z.abs(), z.angle(), z.exp()),
    "products": lambda z, w: (z @ w.mT, z.sum(1), z.mean(), torch.addmm(z[:, :4], z, w.mT)),
    "conjugates": lambda z, w: (z.mH @ w, z.conj() * w, (z * w.conj()).real, z.conj().imag + 1, z.conj()),
    "movement": lambda z, w: (z.T, z[1:, ::2], torch.cat([z, w]), z.reshape(-1), z.flip(0), z.roll(1, 1)),
    "real parts": lambda z, w: (torch.view_as_real(z), z.real @ w.imag.mT, torch.complex(z.real, w.imag[0])),
    "creation": lambda z, w: (
        z.new_zeros(3) + w[0, 0],
        z.new_ones(2, dtype=torch.float32),
        torch.ones_like(z) / w,
    ),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_complex_arguments_and_results(name: str, dtype: torch.dtype) -> None:
    z, w = spectrum(4, 6, dtype=dtype), spectrum(4, 6, dtype=dtype).roll(1)
    run = compiled(CALLS[name])
    with torch.no_grad():
        results, expected = run(z, w), CALLS[name](z, w)
    close(results, expected)
    assert [each.is_conj() for each in results] == [each.is_conj() for each in expected]
    assert [each.is_neg() for each in results] == [each.is_neg() for each in expected]
    assert_native(run)


def test_results_are_those_of_numpy() -> None:
    z = spectrum(3, 8)
    run = compiled(lambda z: (z @ z.mH) / (1 + z.sum() ** 2))
    array = z.numpy()
    expected = (array @ array.conj().T) / (1 + array.sum() ** 2)
    np.testing.assert_allclose(run(z).numpy(), expected, rtol=1e-4, atol=1e-4)
    assert_native(run)


def test_quotients_of_numbers_whose_squares_are_no_floats() -> None:
    z, w = torch.tensor([1e-30 + 2e-30j, 3e30 - 1e30j, 1j]), torch.tensor([2e-30 - 1e-30j, 1e30 + 1e30j, 0j])
    run = compiled(lambda z, w: (z / w, 1 / w[:2]))
    quotients, inverses = run(z, w)
    expected = z.numpy()[:2].astype(np.complex128) / w.numpy()[:2]
    np.testing.assert_allclose(quotients[:2].numpy(), expected, rtol=1e-5)
    np.testing.assert_allclose(inverses.numpy(), 1 / w.numpy()[:2].astype(np.complex128), rtol=1e-5)
    assert not quotients[2].isfinite()
    assert_native(run)


def test_fourier_transforms_stay_with_pytorch() -> None:
    def filtered(x: torch.Tensor) -> torch.Tensor:
        return torch.fft.irfft(torch.fft.rfft(x) * 2j, n=8)

    run, x = compiled(filtered), torch.randn(3, 8, generator=torch.Generator().manual_seed(0))
    close(run(x), filtered(x))
    reasons = {each.operator: each.reason for each in report(run).missing}
    assert reasons == dict.fromkeys(
        ("aten._fft_r2c.default", "aten._fft_c2r.default"), "PyTorch's Fourier transforms are faster"
    )


@pytest.mark.parametrize(
    "given",
    [
        spectrum(5, 4).T,
        spectrum(4, 10)[:, ::2],
        spectrum(1, 5).expand(4, 5),
        spectrum(4, 5).conj(),
        spectrum(5, 4).mH,
        spectrum(0, 5),
        spectrum(1, 1),
    ],
    ids=["transposed", "strided", "expanded", "conjugated", "conjugated and transposed", "empty", "single"],
)
@pytest.mark.parametrize("dynamic", [False, True])
def test_layouts_of_complex_arguments(given: torch.Tensor, dynamic: bool) -> None:
    run = compiled(lambda z: (z * 2j, z.real, z.abs()), dynamic=dynamic)
    for _ in range(2):  # the second call is direct
        close(run(given), (given * 2j, given.real, given.abs()))
    assert_native(run)


def test_negated_arguments() -> None:
    x = spectrum(3).conj().imag
    assert x.is_neg()
    run = compiled(lambda x: x * 2 + 1)
    close(run(x), x * 2 + 1)
    assert_native(run)


def test_complex_arguments_are_written_in_place() -> None:
    def step(z: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        z.mul_(w)
        z[0] = 1j
        return z.abs()

    made, expected = spectrum(4, 5), spectrum(4, 5)
    run, w = compiled(step), spectrum(4, 5).roll(1)
    for _ in range(3):
        close(run(made, w), step(expected, w))
        close(made, expected)
    assert_native(run)


class Turn(nn.Module):
    """Multiplies pairs of numbers by complex parameters and a complex buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(spectrum(4))
        self.register_buffer("turn", torch.polar(torch.ones(4), torch.arange(4.0)))

    def forward(self, x: torch.Tensor) -> Any:
        z = torch.view_as_complex(x.reshape(-1, 4, 2))
        return torch.view_as_real(z * self.weight.conj() * self.turn).flatten(1), z @ self.weight


def test_complex_parameters_are_constants_that_can_change() -> None:
    module, x = Turn(), torch.randn(3, 8, generator=torch.Generator().manual_seed(1))
    run = compiled(module)
    with torch.no_grad():
        for _ in range(2):
            close(run(x), module(x))
        module.weight.mul_(2j)
        close(run(x), module(x))
    assert_native(run)


def test_gradients_of_complex_parameters_and_arguments() -> None:
    found, expected = [], []
    for grads, wrap in ((found, compiled), (expected, lambda module: module)):
        module = Turn()
        z = spectrum(3, 8).requires_grad_()
        run = wrap(module)
        turned, product = run(z.real * 2)
        (turned.sin().sum() + product.abs().sum()).backward()
        grads += [turned.detach(), product.detach(), z.grad, module.weight.grad]
        if wrap is compiled:
            assert_native(run)
    close(found, expected)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_gradients_of_products_with_numbers(dtype: torch.dtype) -> None:
    """With a gradient g, that of ``c * z`` is ``conj(c) * g``."""

    def call(z: torch.Tensor) -> torch.Tensor:
        out = torch.zeros_like(z)
        out[:2] = z[:2] * (0.1 + 2j)
        out[2:, 1:] = z[2:, 1:] / 4j
        return torch.view_as_real(out)

    z, weights = spectrum(3, 4, dtype=dtype).requires_grad_(), spectrum(3, 4, dtype=dtype)
    run = compiled(call)
    (run(z) * torch.view_as_real(weights)).sum().backward()
    expected = weights.numpy() * (0.1 - 2j)
    expected[2:, 1:] = weights.numpy()[2:, 1:] / -4j
    expected[2:, 0] = 0
    assert z.grad is not None
    rtol = 1e-6 if dtype == torch.complex64 else 1e-14
    np.testing.assert_allclose(z.grad.numpy(), expected, rtol=rtol)
    assert_native(run)


def test_gradients_that_are_conjugated_or_negated_when_they_are_read() -> None:
    class Weighted(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> Any:
            weighted = gradient * torch.arange(1, gradient.numel() + 1)
            return weighted.conj() if gradient.is_complex() else torch._neg_view(weighted)

    run = compiled(lambda x: x * x)
    for given in (spectrum(3), spectrum(3).real.contiguous()):
        x, same = given.clone().requires_grad_(), given.clone().requires_grad_()
        Weighted.apply(run(x)).abs().sum().backward()
        Weighted.apply(same * same).abs().sum().backward()
        close(x.grad, same.grad)


def test_operators_that_pytorch_runs_take_and_return_complex_tensors() -> None:
    def solved(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.linalg.solve(a * 2j + torch.eye(4), b.conj() * 3).conj() + 1

    a, b = spectrum(4, 4), spectrum(4, 2).roll(1)
    close(compiled(solved)(a, b), solved(a, b))
