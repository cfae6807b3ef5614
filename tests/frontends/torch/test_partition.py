"""Graphs in which PyTorch runs some operators are partitioned into few subgraphs, in linear time."""

from __future__ import annotations

import cProfile
import pstats

import torch
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx

from graphwright.frontends.torch.partition import partition


def chain(length: int) -> tuple[fx.GraphModule, list[fx.Node]]:
    """A graph in which each of ``length`` determinants, which PyTorch runs, needs the previous one."""

    def compute(x: torch.Tensor, *factors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        sums, first = [], x
        for factor in factors:
            x = x * factor.sin() * torch.det(x)
            sums.append(x.sum())
        return x, first.cos(), *sums

    module = make_fx(compute)(torch.eye(2), *[torch.ones(2, 2)] * length)
    left = [
        node
        for node in module.graph.nodes
        if node.target in (torch.ops.aten.det.default, torch.ops.aten._linalg_det.default)
    ]
    assert len(left) == length
    return module, left


def operators(module: fx.GraphModule, name: str) -> list[str]:
    return [
        str(node.target).split(".")[1]
        for node in module.get_submodule(name).graph.nodes
        if node.op == "call_function" and "getitem" not in str(node.target)
    ]


def test_each_node_is_next_to_the_operators_that_it_depends_on() -> None:
    module, left = chain(3)
    arguments = [torch.tensor([[2.0, 1.0], [1.0, 3.0]]), *(torch.full((2, 2), k + 1.0) for k in range(3))]
    results = module(*arguments)
    names = partition(module, left)
    # only the result needs the cosine: it needs no subgraph of its own
    assert [sorted(operators(module, name)) for name in names] == [
        ["cos", "mul", "mul", "mul", "sin", "sin", "sum"],
        ["mul", "mul", "sin", "sum"],
        ["mul", "sum"],
    ]
    for result, expected in zip(module(*arguments), results, strict=True):
        torch.testing.assert_close(result, expected, rtol=0, atol=0)


def test_the_time_of_partitioning_is_linear() -> None:
    calls = []
    for length in (40, 80):
        module, left = chain(length)
        profile = cProfile.Profile()
        names = profile.runcall(partition, module, left)
        assert len(names) == length
        calls.append(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]
    assert calls[1] < 2.5 * calls[0]
