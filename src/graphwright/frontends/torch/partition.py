"""Parts a graph into subgraphs that graphwright compiles and operators that PyTorch runs."""

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

from graphwright.frontends.torch.graph import WRITES
from graphwright.frontends.torch.random_numbers import is_random

_AFTER: Final = "graphwright_after"
"""An argument that stands for a dependence, while a graph is parted."""


class _Compiled(OperatorSupportBase):
    """Which nodes graphwright compiles: all calls that compute tensors but ``missing`` ones, and those that
    take graphs.
    """

    def __init__(self, missing: Collection[fx.Node]) -> None:
        self._missing = missing

    def is_node_supported(self, submodules: Mapping[str, torch.nn.Module], node: fx.Node) -> bool:
        if node.op == "get_attr":
            return isinstance(node.meta.get("val"), torch.Tensor)
        if node.op != "call_function" or node in self._missing or node.target == WRITES:
            return False
        if isinstance(node.target, HigherOrderOperator):  # whose graphs a part cannot be handed
            return False
        if node.target is operator.getitem:
            source = node.args[0]
            return not isinstance(source, fx.Node) or self.is_node_supported(submodules, source)
        return _gives_tensors(node.meta.get("val"))


def _gives_tensors(made: Any) -> bool:
    each = made if isinstance(made, tuple | list) else (made,)
    return any(isinstance(one, torch.Tensor) for one in each)


def _order(nodes: Sequence[fx.Node]) -> None:
    """Let each of ``nodes`` depend on the one before it: the partitioner keeps dependences, not the order."""
    for before, node in pairwise(nodes):
        node.kwargs = {**node.kwargs, _AFTER: before}


def partition(module: fx.GraphModule, missing: Collection[fx.Node]) -> list[str]:
    """Make a submodule of every largest group of nodes that graphwright compiles: their names.

    Arguments are changed at the end, behind all that reads them. Operators that draw random numbers keep
    their order, so that a seed gives each what it gives in eager mode.
    """
    _order([node for node in module.graph.nodes if node in missing and is_random(node)])
    parted = CapabilityBasedPartitioner(
        module, _Compiled(missing), allows_single_node_partition=True
    ).partition_and_fuse()
    for node in parted.graph.nodes:
        node.kwargs = {name: given for name, given in node.kwargs.items() if name != _AFTER}
    for node in parted.graph.find_nodes(op="call_function", target=WRITES):
        parted.graph.output_node().prepend(node)
    parted.recompile()
    return [node.target for node in parted.graph.nodes if node.op == "call_module"]
