"""Partitions a graph into subgraphs that graphwright compiles, and operators that PyTorch runs."""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from typing import Any, Final

import torch
from torch import fx
from torch._ops import HigherOrderOperator
from torch.fx.passes.utils.fuser_utils import fuse_by_partitions

from graphwright.frontends.torch.graph import COPY_BACK
from graphwright.frontends.torch.random_numbers import is_random

_AFTER: Final = "graphwright_after"
"""The name of an argument that represents a dependence during partitioning."""


def _is_compiled(node: fx.Node, unsupported: Collection[fx.Node]) -> bool:
    """Whether graphwright compiles ``node``: calls that compute tensors, except ``unsupported`` ones and
    higher-order operators.
    """
    if node.op == "get_attr":
        return isinstance(node.meta.get("val"), torch.Tensor)
    if node.op != "call_function" or node in unsupported or node.target == COPY_BACK:
        return False
    if isinstance(node.target, HigherOrderOperator):  # its graphs cannot be passed to a submodule
        return False
    if node.target is operator.getitem:
        source = node.args[0]
        return not isinstance(source, fx.Node) or _is_compiled(source, unsupported)
    return _gives_tensors(node.meta.get("val"))


def _gives_tensors(results: Any) -> bool:
    each = results if isinstance(results, tuple | list) else (results,)
    return any(isinstance(one, torch.Tensor) for one in each)


def _order(nodes: Sequence[fx.Node]) -> None:
    """Makes each of ``nodes`` depend on the previous one, because partitioning only keeps dependences."""
    for before, node in pairwise(nodes):
        node.kwargs = {**node.kwargs, _AFTER: before}


def _earliest(graph: fx.Graph, compiled: Collection[fx.Node]) -> dict[fx.Node, int]:
    """The index of the first subgraph that can contain each node. Operators of PyTorch with index k run
    between the subgraphs k and k + 1.
    """
    indices: dict[fx.Node, int] = {}
    for node in graph.nodes:
        indices[node] = max(
            (
                indices[each] + int(each.op == "call_function" and each not in compiled and node in compiled)
                for each in node.all_input_nodes
            ),
            default=0,
        )
    return indices


def _sink(graph: fx.Graph, compiled: Collection[fx.Node], indices: dict[fx.Node, int]) -> None:
    """Moves nodes that depend only on arguments and constants to the first subgraph that reads them, so that
    no subgraph has only such nodes, and their results are not kept for long.
    """
    movable: set[fx.Node] = set()
    for node in graph.nodes:
        if node in compiled and all(
            each in movable or each.op == "placeholder" for each in node.all_input_nodes
        ):
            movable.add(node)
    first = min((indices[node] for node in compiled if node not in movable), default=0)
    for node in reversed(graph.nodes):
        if node not in movable or node.target is operator.getitem:
            continue
        moved = [node, *_elements(node)]
        readers = {user for each in moved for user in each.users if user.op != "output"}.difference(moved)
        index = min((indices[user] for user in readers), default=first)
        indices.update(dict.fromkeys(moved, index))


def _elements(node: fx.Node) -> Iterator[fx.Node]:
    """The nodes that take elements of the tuple that ``node`` returns."""
    for user in node.users:
        if user.target is operator.getitem:
            yield user
            yield from _elements(user)


def partition(module: fx.GraphModule, unsupported: Collection[fx.Node]) -> list[str]:
    """Moves the nodes that graphwright compiles to as few submodules as possible. Returns their names.

    Arguments are written at the end of the graph, after all reads. Random operators keep their order, so that
    each of them returns the same numbers as in eager mode.
    """
    graph = module.graph
    _order([node for node in graph.nodes if node in unsupported and is_random(node)])
    compiled = {node: None for node in graph.nodes if _is_compiled(node, unsupported)}
    indices = _earliest(graph, compiled)
    _sink(graph, compiled, indices)
    subgraphs: dict[int, dict[fx.Node, int | None]] = {}
    for node in compiled:
        subgraphs.setdefault(indices[node], {})[node] = None
    partitioned = fuse_by_partitions(module, list(subgraphs.values()))
    for node in partitioned.graph.nodes:
        node.kwargs = {name: given for name, given in node.kwargs.items() if name != _AFTER}
    for node in partitioned.graph.find_nodes(op="call_function", target=COPY_BACK):
        partitioned.graph.output_node().prepend(node)
    partitioned.recompile()
    return [node.target for node in partitioned.graph.nodes if node.op == "call_module"]
