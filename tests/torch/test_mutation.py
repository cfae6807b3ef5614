"""Graphs that mutate their arguments, compared with eager PyTorch."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.torch.support import close, compiled


def test_changed_arguments_are_written_in_place() -> None:
    def put(cache: torch.Tensor, rows: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        cache.index_copy_(2, at, rows)
        return cache.sum(2)

    run = compiled(put)
    for seed, cache in enumerate((torch.zeros(2, 3, 8, 5), torch.zeros(2, 8, 3, 5).transpose(1, 2))):
        expected, place, version = cache.clone(), cache.data_ptr(), cache._version
        for k in range(3):
            torch.manual_seed(10 * seed + k)
            rows, at = torch.randn(2, 3, 2, 5), torch.tensor([2 * k + 1, 2 * k])
            close(run(cache, rows, at), put(expected, rows, at))
            close(cache, expected)
        assert cache.data_ptr() == place
        assert cache._version > version


def test_a_changed_argument_with_gaps_in_memory() -> None:
    def grow(x: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        return x + 1

    memory = torch.arange(12.0).reshape(3, 4)
    run = compiled(grow)
    close(run(memory[:, :2]), torch.tensor([[1.0, 3], [9, 11], [17, 19]]))
    assert memory.tolist() == [[0, 2, 2, 3], [8, 10, 6, 7], [16, 18, 10, 11]]


def test_a_partitioned_graph_changes_an_argument() -> None:
    def call(x: torch.Tensor) -> torch.Tensor:
        before = torch.linalg.cholesky(x @ x.T + torch.eye(3)) + x
        x.add_(1)
        return before + torch.linalg.det(x)

    x = torch.randn(3, 3)
    mine = x.clone()
    close(compiled(call)(mine), call(x))
    close(mine, x)


def test_a_changed_argument_is_the_result() -> None:
    x = torch.zeros(3)
    result = compiled(lambda t: t.add_(1))(x)
    result.add_(1)
    assert x.tolist() == [2, 2, 2]


@pytest.mark.parametrize("dynamic", [False, True])
def test_results_that_are_views_of_a_changed_argument(dynamic: bool) -> None:
    def second_half(x: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        return x.chunk(2)[1]

    def negated_halves(x: torch.Tensor) -> list[torch.Tensor]:
        return [half.neg_() for half in x.chunk(2)]

    memory = torch.arange(12.0).reshape(6, 2)
    half = compiled(second_half, dynamic=dynamic)(memory[1:5])
    assert half.tolist() == [[12, 14], [16, 18]]
    half.zero_()
    assert memory.tolist() == [[0, 1], [4, 6], [8, 10], [0, 0], [0, 0], [10, 11]]
    columns = torch.arange(12.0).reshape(4, 3)[:, :2]
    first, second = compiled(negated_halves, dynamic=dynamic)(columns)
    assert first.tolist() == [[0, -1], [-3, -4]]
    assert second.tolist() == [[-6, -7], [-9, -10]]
    assert second.data_ptr() == columns[2].data_ptr()


def test_a_changed_argument_whose_transpose_is_another_argument() -> None:
    """PyTorch makes both from one tensor, of which only the offset is symbolic."""

    def change(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.unbind(1)[0].mul_(2)
        y[:, 0] = y[:, 1].clone()
        return (y + y).view(-1)[2:]

    x = torch.tensor([[1.0, 2, 3], [4, 5, 6], [7, 8, 9]]).t()
    with torch.no_grad():
        result = compiled(change, dynamic=True)(x, x.t())
    assert result.tolist() == [12, 10, 10, 12, 16, 16, 18]
    assert x.tolist() == [[4, 5, 8], [4, 5, 8], [6, 6, 9]]


def test_a_frozen_parameter_that_another_graph_changes() -> None:
    model, x = nn.Linear(4, 3), torch.randn(2, 4)
    with torch.no_grad():
        run, change = compiled(model), compiled(lambda weight: weight.mul_(3))
        for _ in range(3):
            close(run(x), model(x))
            change(model.weight)
