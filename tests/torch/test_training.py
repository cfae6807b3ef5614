"""Gradients are native: whole backward graphs, whose gradients are those of eager mode."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

from graphwright.torch import report
from tests.torch.support import compiled

IMAGE, SIGNAL = (2, 6, 11, 9), (3, 4, 23)
CONVOLUTIONS: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "3x3": (nn.Conv2d(6, 8, 3, padding=1), IMAGE),
    "1x1": (nn.Conv2d(6, 5, 1, bias=False), IMAGE),
    "strides": (nn.Conv2d(6, 4, (3, 2), stride=(2, 3), padding=(2, 1)), IMAGE),
    "a stride larger than the kernel": (nn.Conv2d(6, 4, 2, stride=3), IMAGE),
    "dilations": (nn.Conv2d(6, 4, 3, dilation=(2, 3), padding=1), IMAGE),
    "groups": (nn.Conv2d(6, 9, 3, groups=3, padding=1), IMAGE),
    "depthwise": (nn.Conv2d(6, 12, 5, groups=6, padding=2), IMAGE),
    "padding beyond the window": (nn.Conv2d(6, 4, 1, padding=1), IMAGE),
    "1-D": (nn.Conv1d(4, 6, 5, padding=2), SIGNAL),
    "1-D with strides": (nn.Conv1d(4, 6, 4, stride=4), SIGNAL),
    "3-D": (nn.Conv3d(2, 3, (2, 3, 3), stride=(1, 2, 1), padding=1), (1, 2, 4, 7, 6)),
    "transposed": (nn.ConvTranspose2d(6, 4, 3, stride=2, padding=1, output_padding=1), IMAGE),
    "transposed, groups": (nn.ConvTranspose2d(6, 4, 3, groups=2, dilation=2), IMAGE),
    "transposed, 1-D": (nn.ConvTranspose1d(4, 6, 4, stride=3), SIGNAL),
}


def gradients(run: Any, module: nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    """The gradients of the input and of the parameters."""
    x = x.detach().clone().requires_grad_()
    run(x).sin().sum().backward()
    assert x.grad is not None
    made = [each.grad for each in module.parameters()]
    return [x.grad, *(each for each in made if each is not None)]


def assert_trains_natively(module: nn.Module, x: torch.Tensor, **how: Any) -> None:
    """The compiled module has the gradients of eager mode, and PyTorch runs no operator of its graphs."""
    other = copy.deepcopy(module)
    run = compiled(other, **how)
    found, expected = gradients(run, other, x), gradients(module, module, x)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    graphs = report(run).graphs
    assert {graph.kind for graph in graphs} == {"forward", "backward"}
    assert not [each for graph in graphs for each in graph.missing]


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_gradients_of_convolutions(name: str) -> None:
    torch.manual_seed(0)
    module, shape = CONVOLUTIONS[name]
    assert_trains_natively(module, torch.randn(shape))


def test_gradients_of_convolutions_of_any_batch_and_size() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(3, 6, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(6, 4, 3, padding=1))
    for shape in ((2, 3, 9, 12), (5, 3, 10, 7)):
        other = copy.deepcopy(module)
        run = compiled(other, dynamic=True)
        found, expected = (
            gradients(each, own, torch.ones(shape)) for each, own in ((run, other), (module, module))
        )
        module.zero_grad()
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_gradients_of_convolutions_in_f64() -> None:
    torch.manual_seed(0)
    module = nn.Conv2d(3, 4, 3, padding=1).double()
    assert_trains_natively(module, torch.randn(2, 3, 6, 5, dtype=torch.float64))


def test_frozen_weights_need_no_gradient() -> None:
    torch.manual_seed(0)
    module = nn.Conv2d(3, 4, 3, padding=1)
    module.weight.requires_grad_(requires_grad=False)
    assert_trains_natively(module, torch.randn(2, 3, 6, 5))
    assert module.weight.grad is None
