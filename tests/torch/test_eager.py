"""Graphs that run op by op."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import graphwright as gw
from tests.torch.support import close, compiled


def model() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8), nn.ReLU(), nn.LayerNorm(8)).eval()


def test_each_operator_can_be_looked_at() -> None:
    steps: list[gw.torch.OperatorResult] = []
    module, x = model(), torch.randn(3, 8)
    run = compiled(lambda given: module(given) * 1.0, options={"mode": "eager", "hook": steps.append})
    with torch.no_grad():
        close(run(x), module(x))
    relus = [step for step in steps if step.operator == "aten.relu.default"]
    assert len(relus) == 2
    close(relus[0].results[0], module[:2](x))
    close(relus[1].results[0], module[:4](x))
    assert all(not step.by_pytorch for step in relus)
    assert all("test_eager.py:" in step.line for step in relus)
    assert str(relus[0]).startswith("relu = aten.relu.default (")
    assert steps[-2].operator == "aten.native_layer_norm.default"
    assert len(steps[-2].results) == 3
    report = gw.torch.report(run)[0]
    assert (report.kind, report.missing) == ("inference", ())


def test_equal_operators_share_a_program() -> None:
    run = compiled(lambda x: x.sin().sin().sin() + 1, options={"mode": "eager"})
    x = torch.randn(5)
    close(run(x), x.sin().sin().sin() + 1)
    assert gw.torch.report(run)[0].compilations == 2


def test_the_first_nan_is_named() -> None:
    def call(x: torch.Tensor) -> torch.Tensor:
        y = x.sqrt()
        return (y * 2).sum()

    run = compiled(call, options={"mode": "eager", "check_nan": True})
    close(run(torch.ones(4)), torch.tensor(8.0))
    with pytest.raises(
        gw.GraphwrightError,
        match=r"sqrt \(.*test_eager.py:\d+\).*sqrt.default is the first whose .* NaN: 1 of 4",
    ):
        run(torch.tensor([1.0, -1, 2, 3]))


def test_gradients_op_by_op() -> None:
    x = torch.randn(4, requires_grad=True)
    compiled(lambda t: (t.sin() ** 2).sum(), options={"mode": "eager"})(x).backward()
    close(x.grad, torch.sin(2 * x.detach()))


def test_operators_of_pytorch_are_steps_as_well() -> None:
    steps: list[gw.torch.OperatorResult] = []
    x = torch.eye(3)
    run = compiled(lambda x: torch.linalg.cholesky(x)[0] * 2, options={"mode": "eager", "hook": steps.append})
    close(run(x), torch.tensor([2.0, 0, 0]))
    assert [s.operator for s in steps if s.by_pytorch].count("aten.linalg_cholesky_ex.default") == 1


def test_changed_arguments_and_dynamic_sizes() -> None:
    def call(x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x.view(-1) * x.shape[0]

    run = compiled(call, dynamic=True, options={"mode": "eager"})
    for n in (2, 5):
        mine, other = torch.zeros(n, 3), torch.zeros(n, 3)
        close(run(mine), call(other))
        close(mine, other)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hook": print}, "hook needs eager mode"),
        ({"check_nan": True, "hook": print}, "hook and check_nan need eager mode"),
        ({"mode": "eager", "hook": 3}, "hook=3 is not a function"),
        ({"mode": "eager", "check_nan": 1}, "neither True nor False"),
        (
            {"mode": "slow"},
            "the modes are default, .*, max-autotune, max-autotune-no-cudagraphs, eager",
        ),
    ],
)
def test_wrong_options_are_rejected(options: dict[str, Any], message: str) -> None:
    with pytest.raises(Exception, match=message):
        compiled(lambda x: x + 1, options=options)(torch.ones(2))


def test_an_error_names_the_node() -> None:
    run = compiled(lambda x, i: (x + 1)[i] * 2, options={"mode": "eager"})
    with pytest.raises(gw.GraphwrightError, match=r"index.* \(.*test_eager.py:\d+\): .*out of range: 7"):
        run(torch.ones(3), torch.tensor([7]))
