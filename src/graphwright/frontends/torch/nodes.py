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
from graphwright.frontends.torch.decompositions import Decomposer, operands
from graphwright.frontends.torch.higher_order import wrapped
from graphwright.frontends.torch.hints import note_hint
from graphwright.frontends.torch.module_scopes import note_modules
from graphwright.frontends.torch.numbers import (
    bind,
    computed,
    decides_sizes,
    number_from,
    scalar,
    size,
    with_sizes,
)
from graphwright.frontends.torch.types import Unsupported, array_from, dim_from, dtype_from, type_from
from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.types import TensorType
from graphwright.records import dataclass

MAX_DEPTH = 4
"""Decompositions within each other: one that leads to itself ends there."""
_CHECKS = frozenset(
    {
        torch.ops.aten._assert_async.msg,
        torch.ops.aten._assert_async.default,
        torch.ops.aten._assert_scalar.default,
        torch.ops.aten._assert_tensor_metadata.default,
        torch.ops.aten.sym_constrain_range.default,
        torch.ops.aten.sym_constrain_range_for_size.default,
    }
)
"""Operators that only check what they are given."""
_FAULTS_OF_IMPORTS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


@dataclass(frozen=True)
class Foreign:
    """Stands for a value that graphwright cannot hold: what reads it runs in PyTorch."""

    reason: str


class NodeReader:
    """``made`` has what became of each node: values, tuples of values, dims or numbers."""

    def __init__(
        self,
        builder: Builder,
        owner: torch.nn.Module,
        depth: int = 0,
        decomposer: Decomposer | None = None,
    ) -> None:
        """``owner`` has the tensors and subgraphs of the graph as attributes; ``decomposer``: that of the
        graph that this one is a part of.
        """
        self._builder, self._owner, self._depth = builder, owner, depth
        self._decomposed = decomposer or Decomposer()
        self.made: dict[fx.Node, Any] = {}

    def read(self, node: fx.Node) -> None:
        """Add a constant, or the ops of a call. Raises Unsupported, and nothing is demanded of sizes then."""
        module, demands = self._builder.module, self._builder.module.symbols.copy()
        note_hint(node, self._builder)
        note_modules(node, self._builder)
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
        if isinstance(given, torch.SymInt):
            return dim_from(given)
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
            if isinstance(made, Foreign):
                raise Unsupported(made.reason)
            return number_from(node, made[index], self._builder)
        if (inner := wrapped(node)) is not None:
            body, arguments = map(self.resolved, inner)
            return self._part(body, arguments, depth=self._depth)
        if node.target in _CHECKS:
            return None
        result = node.meta.get("val")
        if node.target == torch.ops.aten._local_scalar_dense.default:
            return number_from(node, self.resolved(node.args[0]), self._builder)
        if isinstance(result, torch.SymInt | torch.SymBool | torch.SymFloat):
            return self._number(node, result)
        if decides_sizes(node):
            return with_sizes(node, self._imported(node), self._builder)
        if isinstance(result, int | float | bool):
            return result
        try:
            return self._imported(node)
        except Unsupported as error:
            if self._depth == MAX_DEPTH:
                raise
            traced = self._decomposed(node)
            if traced is None:
                raise
            try:
                return _agreeing(node, self._part(traced, list(map(self.resolved, operands(node)))))
            except Unsupported:
                raise error from None

    def _number(self, node: fx.Node, fake: Any) -> Any:
        """What is computed of sizes."""
        arguments = self.resolved(node.args)
        made = computed(node, arguments, self._builder)
        if made is not None:
            return made
        if not isinstance(fake, torch.SymInt):
            return Foreign(f"{node.target} of sizes is not supported")
        size(arguments)
        return dim_from(fake)

    def _part(
        self,
        traced: fx.GraphModule,
        arguments: Sequence[Any],
        builder: Builder | None = None,
        depth: int | None = None,
    ) -> Any:
        """The results of a graph of these arguments, added in place, or where ``builder`` stands."""
        inner_depth = self._depth + 1 if depth is None else depth
        inner = NodeReader(builder or self._builder, traced, inner_depth, self._decomposed)
        for node, given in zip(traced.graph.find_nodes(op="placeholder"), arguments, strict=True):
            inner.made[node] = number_from(node, given, inner._builder)
        for node in traced.graph.nodes:
            if node.op in ("get_attr", "call_function"):
                inner.read(node)
        return inner.resolved(traced.graph.output_node().args[0])

    def _imported(self, node: fx.Node) -> Any:
        convert = import_function(node.target)
        if convert is None:
            raise Unsupported("there is no op for it")
        bind(node, self.resolved(node.all_input_nodes))
        call = Call(node, self.resolved, self._builder, self._inlined)
        try:
            made = convert(call)
        except ModelError as error:
            raise Unsupported(error.diagnostics[0].message) from error
        except _FAULTS_OF_IMPORTS as error:
            raise Unsupported(f"its import fails: {type(error).__name__}: {error}") from error
        if unread := call.unread():
            raise Unsupported(", ".join(f"{name}={given} is not supported" for name, given in unread.items()))
        return _agreeing(node, made)

    def _inlined(self, body: fx.GraphModule, arguments: Sequence[Any], at: Builder) -> Sequence[Any]:
        """The results of a graph that is an operand, added where ``at`` stands."""
        made = self._part(body, arguments, at, self._depth)
        return list(map(scalar, made if isinstance(made, tuple) else (made,)))


def _agreeing(node: fx.Node, made: Any) -> Any:
    """``made``, whose tensors that are read have the types that PyTorch states. Raises Unsupported."""
    stated = node.meta["val"]
    if not isinstance(stated, tuple | list):
        _require_agreement(made, stated)
        return made
    read = {user.args[1] for user in node.users if user.target is operator.getitem and user.users}
    for index, fake in enumerate(stated):
        if index in read:
            _require_agreement(made[index], fake)
    return made


def _require_agreement(made: Any, fake: Any) -> None:
    if not isinstance(made, Value) or not isinstance(fake, torch.Tensor):
        return
    stated = type_from(fake)
    if not _agree(made.type, stated):
        raise Unsupported(f"its result is {made.type}, and {stated} in PyTorch")


def _agree(made: TensorType, stated: TensorType) -> bool:
    """Whether a type may be that which PyTorch states: open sizes may be written in other ways."""
    if made.dtype != stated.dtype or made.rank != stated.rank:
        return False
    pairs = zip(made.dims, stated.dims, strict=True)
    return all(a == b for a, b in pairs if isinstance(a, int) and isinstance(b, int))
