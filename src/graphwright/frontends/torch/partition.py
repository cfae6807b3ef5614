"""Partitions a graph into subgraphs that graphwright compiles, and operators that PyTorch runs."""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import torch
from torch import fx
from torch._ops import HigherOrderOperator
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from graphwright.frontends.torch.graph import COPY_BACK
from graphwright.frontends.torch.random_numbers import is_random

_AFTER: Final = "graphwright_after"
"""The name of an argument that represents a dependence during partitioning."""


class _Compiled(OperatorSupportBase):
    """Decides which nodes graphwright compiles: calls that compute tensors, except ``unsupported`` ones and
    higher-order operators.
    """

    def __init__(self, unsupported: Collection[fx.Node]) -> None:
        self._unsupported = unsupported

    def is_node_supported(self, submodules: Mapping[str, torch.nn.Module], node: fx.Node) -> bool:
        if node.op == "get_attr":
            return isinstance(node.meta.get("val"), torch.Tensor)
        if node.op != "call_function" or node in self._unsupported or node.target == COPY_BACK:
            return False
        if isinstance(node.target, HigherOrderOperator):  # its graphs cannot be passed to a submodule
            return False
        if node.target is operator.getitem:
            source = node.args[0]
            return not isinstance(source, fx.Node) or self.is_node_supported(submodules, source)
        return _gives_tensors(node.meta.get("val"))


def _gives_tensors(results: Any) -> bool:
    each = results if isinstance(results, tuple | list) else (results,)
    return any(isinstance(one, torch.Tensor) for one in each)


def _order(nodes: Sequence[fx.Node]) -> None:
    """Makes each of ``nodes`` depend on the previous one, because the partitioner only keeps dependences."""
    for before, node in pairwise(nodes):
        node.kwargs = {**node.kwargs, _AFTER: before}


def partition(module: fx.GraphModule, unsupported: Collection[fx.Node]) -> list[str]:
    """Moves the nodes that graphwright compiles to submodules, as large as possible. Returns their names.

    Arguments are written at the end of the graph, after all reads. Random operators keep their order, so that
    each of them returns the same numbers as in eager mode.
    """
    _order([node for node in module.graph.nodes if node in unsupported and is_random(node)])
    partitioned = CapabilityBasedPartitioner(
        module, _Compiled(unsupported), allows_single_node_partition=True
    ).partition_and_fuse()
    for node in partitioned.graph.nodes:
        node.kwargs = {name: given for name, given in node.kwargs.items() if name != _AFTER}
    for node in partitioned.graph.find_nodes(op="call_function", target=COPY_BACK):
        partitioned.graph.output_node().prepend(node)
    partitioned.recompile()
    return [node.target for node in partitioned.graph.nodes if node.op == "call_module"]
