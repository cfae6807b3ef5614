"""Graphs as PyTorch captures them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.func import functionalize
from torch.fx.experimental.proxy_tensor import make_fx

import graphwright as gw
from graphwright.frontends.torch.decompositions import decompositions
from graphwright.frontends.torch.graph import Reading, read_graph
from graphwright.frontends.torch.types import tensor_from


def captured(function: Callable[..., Any], *tensors: torch.Tensor) -> torch.fx.GraphModule:
    """The graph of ATen operators of a call, whose results are a list."""

    def listed(*given: torch.Tensor) -> list[Any]:
        made = function(*given)
        return list(made) if isinstance(made, tuple | list) else [made]

    trace = make_fx(functionalize(listed), decomposition_table=decompositions(), tracing_mode="fake")
    return trace(*tensors)


def reading(function: Callable[..., Any], *tensors: torch.Tensor) -> Reading:
    """What becomes of the graph of a call."""
    graph = captured(function, *tensors)
    return read_graph(graph.graph, graph)


def run(made: Reading, *tensors: torch.Tensor, device: str = "reference") -> list[torch.Tensor]:
    """The results of a graph that has been read whole."""
    assert not made.missing
    model = gw.compile(made.module, options={"device": device})
    arrays = model(*[each.array(tensors[each.position]) for each in made.interface.inputs])
    return made.interface.results(list(map(tensor_from, arrays)), tensors)
