"""Operators of ``torch.library`` are opaque: PyTorch runs their kernels at each call."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch.library import custom_op

from graphwright.torch import report
from tests.torch.support import close, compiled

CALLS: list[int] = []


@pytest.fixture(autouse=True)
def _no_calls() -> Iterator[None]:
    CALLS.clear()
    yield
    CALLS.clear()


@custom_op("graphwright_tests::counted", mutates_args=())
def counted(x: torch.Tensor) -> list[torch.Tensor]:
    CALLS.append(1)
    return [x * len(CALLS), x + len(CALLS)]


@counted.register_fake
def _(x: torch.Tensor) -> list[torch.Tensor]:
    return [torch.empty_like(x), torch.empty_like(x)]


@custom_op("graphwright_tests::step", mutates_args=())
def step(size: int) -> torch.Tensor:
    CALLS.append(1)
    return torch.full((size,), float(len(CALLS)))


@step.register_fake
def _(size: int) -> torch.Tensor:
    return torch.empty(size)


def test_kernels_that_return_lists_are_called_at_each_run() -> None:
    run = compiled(lambda x: [each.sin() for each in counted(x * 2)])
    x = torch.arange(4.0)
    run(x)
    for number in range(len(CALLS) + 1, len(CALLS) + 3):
        close(run(x), [(x * 2 * number).sin(), (x * 2 + number).sin()])
    assert [each.operator for each in report(run).missing] == ["graphwright_tests.counted.default"]


def test_kernels_without_tensor_arguments_are_called_at_each_run() -> None:
    run = compiled(lambda x: x + step(4))
    x = torch.arange(4.0)
    run(x)
    for number in range(len(CALLS) + 1, len(CALLS) + 3):
        close(run(x), x + number)
