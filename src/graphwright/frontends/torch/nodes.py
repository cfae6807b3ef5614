"""Reads the calls of a captured graph: each becomes an op, or what PyTorch's decomposition makes of it."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx
from torch.utils._python_dispatch import _disable_current_modes

from graphwright.errors import ModelError
from graphwright.frontends.torch.call import Call
from graphwright.frontends.torch.catalogue import import_function
from graphwright.frontends.torch.decompositions import decomposed
from graphwright.frontends.torch.types import Unsupported, array_from, dim_from, dtype_from
from graphwright.ir.build import Builder
from graphwright.ir.graph import Graph, Value
from graphwright.ir.types import TensorType
from graphwright.records import dataclass

MAX_DEPTH = 4
"""Decompositions within each other: one that leads to itself ends there."""
_FAULTS_OF_IMPORTS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


@dataclass(frozen=True)
class Foreign:
    """Stands for a value that graphwright cannot hold: what reads it runs in PyTorch."""

    reason: str


class NodeReader:
    """``made`` has what became of each node: values, tuples of values, dims or numbers."""

    def __init__(self, builder: Builder, owner: torch.nn.Module, depth: int = 0) -> None:
        """``owner`` has the tensors and subgraphs of the graph as attributes."""
        self._builder, self._owner, self._depth = builder, owner, depth
        self.made: dict[fx.Node, Any] = {}

    def read(self, node: fx.Node) -> None:
        """Add a constant, or the ops of a call. Raises Unsupported, and nothing is demanded of sizes then."""
        module, demands = self._builder.module, self._builder.module.symbols.copy()
        try:
            self.made[node] = self._attribute(node) if node.op == "get_attr" else self._called(node)
        except Unsupported:
            module.symbols = demands
            raise

    def resolved(self, given: Any) -> Any:
        """An argument of a call. Raises Unsupported for values that graphwright cannot hold."""
        if isinstance(given, fx.Node):
            made = self.made[given]
            if isinstance(made, Foreign):
                raise Unsupported(made.reason)
            return made
        if isinstance(given, list | tuple):
            return tuple(map(self.resolved, given))
        return dtype_from(given) if isinstance(given, torch.dtype) else given

    def _attribute(self, node: fx.Node) -> Any:
        held: Any = self._owner
        for part in str(node.target).split("."):
            held = getattr(held, part)
        if not isinstance(held, torch.Tensor):
            return held
        with _disable_current_modes():  # the graph's constants are real tensors, which its modes refuse
            return self._builder.const(array_from(held))

    def _called(self, node: fx.Node) -> Any:
        if node.target is operator.getitem:
            source: Any
            source, index = node.args
            made = self.made[source] if isinstance(source, fx.Node) else source
            return made[index]
        result = node.meta.get("val")
        if node.meta.get("unbacked_bindings"):
            raise Unsupported("elements decide the size of its result")
        if isinstance(result, torch.SymInt):
            return dim_from(result)
        if isinstance(result, int | float | bool):
            return result
        try:
            return self._imported(node)
        except Unsupported as error:
            if self._depth == MAX_DEPTH:
                raise
            traced = decomposed(node)
            if traced is None:
                raise
            try:
                return self._part(traced, [self.resolved(each) for each in node.all_input_nodes])
            except Unsupported:
                raise error from None

    def _part(self, traced: fx.GraphModule, arguments: Sequence[Any]) -> Any:
        """The results of a graph of these arguments, added in place."""
        inner = NodeReader(self._builder, traced, self._depth + 1)
        inner.made.update(zip(traced.graph.find_nodes(op="placeholder"), arguments, strict=True))
        for node in traced.graph.nodes:
            if node.op in ("get_attr", "call_function"):
                inner.read(node)
        return inner.resolved(traced.graph.output_node().args[0])

    def _imported(self, node: fx.Node) -> Any:
        convert = import_function(node.target)
        if convert is None:
            raise Unsupported("there is no op for it")
        call = Call(node, self.resolved, self._builder, self._region)
        try:
            made = convert(call)
        except ModelError as error:
            raise Unsupported(error.diagnostics[0].message) from error
        except _FAULTS_OF_IMPORTS as error:
            raise Unsupported(f"its import fails: {type(error).__name__}: {error}") from error
        if unread := call.unread():
            raise Unsupported(", ".join(f"{name}={given} is not supported" for name, given in unread.items()))
        for value, stated in zip(made if isinstance(made, tuple) else (made,), call.results, strict=False):
            if value is not None and not _agree(value.type, stated):
                raise Unsupported(f"its result is {value.type}, and {stated} in PyTorch")
        return made

    def _region(self, body: fx.GraphModule, receives: Sequence[TensorType]) -> tuple[Graph, list[Value]]:
        raise Unsupported("graphs as operands are not supported")


def _agree(made: TensorType, stated: TensorType) -> bool:
    """Whether a type may be that which PyTorch states: open sizes may be written in other ways."""
    if made.dtype != stated.dtype or made.rank != stated.rank:
        return False
    pairs = zip(made.dims, stated.dims, strict=True)
    return all(a == b for a, b in pairs if isinstance(a, int) and isinstance(b, int))
