"""Hints in PyTorch code: ``graphwright.torch.fuse`` in modules that are compiled and exported."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch

import graphwright as gw
from graphwright.errors import ModelError
from graphwright.torch import compiled_graph

X = torch.linspace(-2, 2, 24).reshape(3, 8)


class Chain(torch.nn.Module):
    """``exp(x * sigmoid(x)) + x``, of which the operators in blocks are hinted."""

    def __init__(self, first: str | None, second: str | None) -> None:
        super().__init__()
        self.first, self.second = first, second

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with nullcontext() if self.first is None else gw.torch.fuse(self.first):
            y = x * torch.sigmoid(x)
        with nullcontext() if self.second is None else gw.torch.fuse(self.second):
            z = torch.exp(y)
        return z + x


class Unlike(torch.nn.Module):
    """A matrix product, and a softmax, which reads whole rows of it: no kernel computes both."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.linspace(-1, 1, 40).reshape(8, 5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with gw.torch.fuse("g"):
            return torch.softmax(torch.relu(x @ self.weight), -1)


def kernels(model: gw.Model) -> list[set[str]]:
    """The source nodes of each task."""
    (program,) = model.package.programs()
    (target,) = program.targets.values()
    return [set(task.name.split(" + ")) for task in target.task_graph.tasks]


def exported(module: torch.nn.Module, strict: bool) -> Any:
    return torch.export.export(module, (X,), strict=strict)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (None, None, [{"sigmoid", "mul", "exp", "add"}]),
        ("gate", None, [{"sigmoid", "mul"}, {"exp", "add"}]),
        ("gate", "never", [{"sigmoid", "mul"}, {"exp"}, {"add"}]),
        ("same", "same", [{"sigmoid", "mul", "exp"}, {"add"}]),
        ("never", None, [{"sigmoid"}, {"mul"}, {"exp", "add"}]),
    ],
)
def test_kernels_of_an_exported_program(
    first: str | None, second: str | None, expected: list[set[str]], strict: bool
) -> None:
    module = Chain(first, second)
    model = gw.compile(exported(module, strict))
    assert kernels(model) == expected
    torch.testing.assert_close(torch.from_numpy(model(X.numpy())), module(X))


def test_a_saved_program_keeps_its_hints() -> None:
    data = io.BytesIO()
    torch.export.save(exported(Chain("gate", None), strict=False), data)
    data.seek(0)
    assert kernels(gw.compile(torch.export.load(data))) == [{"sigmoid", "mul"}, {"exp", "add"}]


def test_a_module_that_is_compiled_with_examples() -> None:
    assert kernels(gw.compile(Chain("gate", None), (X,))) == [{"sigmoid", "mul"}, {"exp", "add"}]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[gw.Model]:
    """The models that ``torch.compile`` makes."""
    found: list[gw.Model] = []

    def noting(function: Callable[..., gw.Model]) -> Callable[..., gw.Model]:
        def call(*arguments: Any, **named: Any) -> gw.Model:
            found.append(function(*arguments, **named))
            return found[-1]

        return call

    for name in ("compile", "compile_with_weights"):
        monkeypatch.setattr(compiled_graph, name, noting(getattr(compiled_graph, name)))
    return found


def compiled(module: Callable[..., Any]) -> Any:
    torch._dynamo.reset()
    return torch.compile(module, backend="graphwright", options={"cache_limit": 0})


def test_kernels_of_a_compiled_module(made: list[gw.Model]) -> None:
    module = Chain("gate", "never")
    with torch.no_grad():
        torch.testing.assert_close(compiled(module)(X), module(X))
    assert [kernels(model) for model in made] == [[{"sigmoid", "mul"}, {"exp"}, {"add"}]]


def test_a_backward_graph_has_no_hints(made: list[gw.Model]) -> None:
    """Its nodes come from nodes of the forward graph, and need not be in one kernel."""
    x, y = (X.clone().requires_grad_() for _ in range(2))
    module = Chain("gate", "never")
    compiled(module)(x).sum().backward()
    module(y).sum().backward()
    torch.testing.assert_close(x.grad, y.grad)
    forward, backward = made
    assert "hint" in forward.entry.graph and "hint" not in backward.entry.graph


def test_a_hint_that_cannot_be_obeyed_names_both_nodes_and_the_reason() -> None:
    for strict in (False, True):
        with pytest.raises(ModelError) as caught:
            gw.compile(exported(Unlike(), strict))
        (fault,) = caught.value.diagnostics
        assert fault.code == "fusion-hint"
        assert fault.where == "relu and _softmax"
        assert "[FUSE_EPILOGUE_REDUCTION]" in fault.message
    with torch.no_grad(), pytest.raises(Exception, match=r"relu and _softmax.*FUSE_EPILOGUE_REDUCTION"):
        compiled(Unlike())(X)


def test_a_group_with_an_operator_that_is_left_to_pytorch() -> None:
    def parted(x: torch.Tensor) -> torch.Tensor:
        with gw.torch.fuse("g"):
            y = torch.linalg.inv(x @ x.t() + torch.eye(3)) * 2
        return y

    with (
        torch.no_grad(),
        pytest.raises(Exception, match="linalg_inv_ex is left to PyTorch: its result 1 is not supported"),
    ):
        compiled(parted)(X)


def test_a_group_on_both_sides_of_an_operator_of_pytorch() -> None:
    def parted(x: torch.Tensor) -> torch.Tensor:
        with gw.torch.fuse("g"):
            y = torch.exp(x @ x.t()) + torch.eye(3)
        y = torch.linalg.inv(y)
        with gw.torch.fuse("g"):
            return torch.tanh(y)

    with torch.no_grad(), pytest.raises(Exception, match="PyTorch runs an operator between them"):
        compiled(parted)(X)


@pytest.mark.parametrize("group", ["", None, 3])
def test_invalid_groups_are_rejected(group: Any) -> None:
    with pytest.raises(ValueError, match="a group is a name"):
        gw.torch.fuse(group)
    module = Chain(None, None)
    program = exported(module, strict=False)
    node = next(node for node in program.graph.nodes if node.op == "call_function")
    node.meta["custom"] = {"graphwright.fuse": group}
    if group is not None:
        with pytest.raises(ModelError, match=r"the metadata graphwright\.fuse is"):
            gw.compile(program)


def test_eager_mode_is_as_without() -> None:
    torch.testing.assert_close(Chain("gate", "never")(X), Chain(None, None)(X))
