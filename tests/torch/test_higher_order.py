"""PyTorch's branches and loops, exported and under ``torch.compile``."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from torch import nn
from torch._higher_order_ops import associative_scan, scan, while_loop
from torch._higher_order_ops.map import map as map_rows
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.utils.checkpoint import checkpoint

import graphwright as gw
from graphwright.torch import backend, report
from tests.torch.support import close


class Calls(nn.Module):
    """``body`` of a linear layer and the arguments."""

    def __init__(self, body: Any) -> None:
        super().__init__()
        self.body, self.linear = body, nn.Linear(3, 3)

    def forward(self, *arguments: torch.Tensor) -> Any:
        return self.body(self.linear, *arguments)


def branches(linear: nn.Linear, x: torch.Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda x: (linear(x), x + 1), lambda x: (x * 2, x - linear.bias), (x,))


def nested(linear: nn.Linear, x: torch.Tensor) -> Any:
    def inner(x: torch.Tensor) -> Any:
        return torch.cond(x.max() > 9, lambda x: x.clone(), lambda x: x * 2, (x,))

    return torch.cond(x.sum() > 0, inner, lambda x: linear(x), (x,))


def countdown(linear: nn.Linear, n: torch.Tensor, x: torch.Tensor) -> Any:
    return while_loop(lambda n, x: n > 0, lambda n, x: (n - 1, linear(x)), (n, x))


def counted(linear: nn.Linear, x: torch.Tensor) -> Any:
    _, made = while_loop(lambda n, x: n < 4, lambda n, x: (n + 1, x * 2), (0, x))
    return made


def sums(linear: nn.Linear, x: torch.Tensor) -> Any:
    return scan(lambda c, row: (c * 0.5 + row @ linear.weight, c + row), torch.zeros(3), x)


def backwards(linear: nn.Linear, x: torch.Tensor) -> Any:
    return scan(lambda c, row: (c * 0.5 + row, c * row), torch.ones(3), x, reverse=True)


def rows(linear: nn.Linear, x: torch.Tensor) -> Any:
    return map_rows(lambda row, scale: linear(row) * scale, x, x[0] + 1)


def wrapped(linear: nn.Linear, x: torch.Tensor) -> Any:
    with torch.no_grad():
        y = linear(x)
    with torch.enable_grad():
        y = linear(y)
    return checkpoint(lambda y: linear(y).relu(), y, use_reentrant=False)


def scores_of(change: Any, mask: Any = None) -> Any:
    """Attention of two groups of heads, whose scores ``change`` computes."""

    def body(linear: nn.Linear, x: torch.Tensor) -> Any:
        query = (x @ linear.weight.detach()).view(1, 1, *x.shape) * torch.arange(4.0).view(1, 4, 1, 1)
        key = torch.stack([x, x * 2])[None]
        block_mask = None if mask is None else create_block_mask(mask, None, None, len(x), len(x), "cpu")
        return flex_attention(query, key, key + 1, change, block_mask, enable_gqa=True)

    return body


distances = scores_of(lambda score, batch, head, query, key: score - (query - key).abs() * 0.5)
slopes = scores_of(lambda score, batch, head, query, key: score.tanh() * torch.arange(1.0, 5.0)[head])
visible = scores_of(None, lambda batch, head, query, key: query >= key)
hidden_rows = scores_of(None, lambda batch, head, query, key: query > key)


X = torch.linspace(-1, 2, 15).reshape(5, 3)
CASES = {
    "cond": (branches, [(X,), (-X,)]),
    "nested cond": (nested, [(X,), (X + 10,), (-X,)]),
    "while": (countdown, [(torch.tensor(3), X), (torch.tensor(0), X), (torch.tensor(1), X)]),
    "while with a number": (counted, [(X,)]),
    "scan": (sums, [(X,)]),
    "reverse scan": (backwards, [(X,)]),
    "map": (rows, [(X,)]),
    "wrappers": (wrapped, [(X,)]),
    "attention by distance": (distances, [(X,)]),
    "attention with slopes": (slopes, [(X,)]),
    "causal attention": (visible, [(X,)]),
    "attention that sees nothing in a row": (hidden_rows, [(X,)]),
}


@cache
def expected(name: str) -> list[Any]:
    """The results of a case in PyTorch, which traces these operators in eager mode too: that takes long."""
    body, calls = CASES[name]
    torch.manual_seed(0)
    module = Calls(body)
    with torch.no_grad():
        return [module(*arguments) for arguments in calls]


@pytest.mark.parametrize("name", CASES)
def test_exported_higher_order_operators(name: str) -> None:
    body, calls = CASES[name]
    model = gw.compile(Calls(body), calls[0])
    for arguments, results in zip(calls, expected(name), strict=True):
        close(model(*arguments), results, rtol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_compiled_higher_order_operators(name: str) -> None:
    body, calls = CASES[name]
    made = torch.compile(Calls(body), backend=backend, fullgraph=True)
    for arguments, results in zip(calls, expected(name), strict=True):
        with torch.no_grad():
            close(made(*arguments), results, rtol=1e-5)
    assert report()[-1].missing == ()


def test_branches_run_in_pytorch_if_one_of_their_operators_is_missing() -> None:
    def body(linear: nn.Linear, x: torch.Tensor) -> Any:
        return torch.linalg.svdvals(branches(linear, x)[0]) + 1

    module = Calls(body)
    with torch.no_grad():
        close(torch.compile(module, backend=backend)(X), module(X), rtol=1e-5)
    assert report()[-1].missing


def test_pytorch_runs_a_higher_order_operator_without_an_op() -> None:
    def body(linear: nn.Linear, x: torch.Tensor) -> Any:
        return associative_scan(lambda a, b: a * b, linear(x), dim=0, combine_mode="generic") + 1

    module = Calls(body)
    with torch.no_grad():
        close(torch.compile(module, backend=backend)(X), module(X), rtol=1e-5)


def test_data_dependent_numbers_as_sizes() -> None:
    class Sizes(nn.Module):
        def forward(self, x: torch.Tensor, n: torch.Tensor) -> Any:
            k = n.item()
            torch._check(k >= 0)
            return x + k, torch.ones(k + 2), k

    model = gw.compile(Sizes(), (X, torch.tensor(3)))
    for n in (3, 0, 7):
        close(model(X, torch.tensor(n)), (X + n, torch.ones(n + 2), n), rtol=1e-5)


@pytest.mark.parametrize("mode", ["default", "eager"])
def test_repeated_regions_train(mode: str) -> None:
    """PyTorch calls one graph for equal regions, and its fake tensors say that their results share memory."""

    @torch.compiler.nested_compile_region
    def region(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x @ weight) + x

    torch.manual_seed(0)
    x, weights = torch.randn(3, 4), [torch.randn(4, 4, requires_grad=True) for _ in range(4)]

    def loss() -> torch.Tensor:
        result = x
        for weight in weights:
            result = region(result, weight)
        return result.square().sum()

    run = torch.compile(loss, backend=backend, options={"mode": mode}, fullgraph=True)
    found, expected = (torch.autograd.grad(each(), weights) for each in (run, loss))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
