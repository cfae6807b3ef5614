"""Reads the nodes of a graph: each call is imported as ops, or decomposed by PyTorch first."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import torch
from torch import fx
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils._python_dispatch import _disable_current_modes

from graphwright.errors import ModelError
from graphwright.frontends.torch.call import Call
from graphwright.frontends.torch.catalog import import_function
from graphwright.frontends.torch.compositions import composed
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
from graphwright.frontends.torch.random_numbers import is_random
from graphwright.frontends.torch.types import (
    Unsupported,
    array_from,
    dim_from,
    dtype_from,
    type_from,
    types_agree,
)
from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.records import dataclass

NO_OP = "there is no op for it"
"""The reason against an operator without an import function."""
MAX_DEPTH = 4
"""The most nested decompositions, as a decomposition can lead to itself."""
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
"""Operators that only check their arguments."""
_ACCEPT_MORE = frozenset({torch.ops.aten.addmm.default, torch.ops.aten.baddbmm.default})
"""Operators whose decomposition accepts operands that the operator rejects, such as those of two dtypes."""
_LOSE_DROPOUT = frozenset(
    {torch.ops.aten.gru.input, torch.ops.aten.rnn_tanh.input, torch.ops.aten.rnn_relu.input}
)
"""Operators whose decomposition leaves out their dropout."""
_NOT_DECOMPOSED = _ACCEPT_MORE | _LOSE_DROPOUT
_ROUNDINGS = frozenset({math.trunc, math.floor, math.ceil})
_LAPACK = "PyTorch computes it with LAPACK"
_FOURIER = "PyTorch's Fourier transforms are faster"
LEFT_TO_PYTORCH: Final[Mapping[Any, str]] = {
    torch.ops.aten.linalg_qr.default: _LAPACK,
    torch.ops.aten._linalg_svd.default: _LAPACK,
    torch.ops.aten._linalg_eigh.default: _LAPACK,
    torch.ops.aten.linalg_lu_factor_ex.default: _LAPACK,
    torch.ops.aten._fft_r2c.default: _FOURIER,
    torch.ops.aten._fft_c2c.default: _FOURIER,
    torch.ops.aten._fft_c2r.default: _FOURIER,
}
"""Operators that are not read although there are ops for them, with the reasons. The ops of factorizations
run in Python: PyTorch's LAPACK is as fast, and its vectors have eager mode's signs.
"""
_FAULTS_OF_IMPORTS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


@dataclass(frozen=True)
class UnsupportedValue:
    """A value that graphwright cannot represent. Operators that read it run in PyTorch."""

    reason: str


class NodeReader:
    """Reads nodes one by one. ``results`` maps each node to a value, a tuple of values, a dim or a number."""

    left_to_pytorch: ClassVar[Mapping[Any, str]] = LEFT_TO_PYTORCH
    """Operators that are not read, with the reasons."""

    def __init__(
        self,
        builder: Builder,
        owner: torch.nn.Module,
        depth: int = 0,
        decomposer: Decomposer | None = None,
    ) -> None:
        """``owner`` has the tensors and subgraphs of the graph as attributes. ``decomposer``: the cache of
        decompositions of an outer graph.
        """
        self._builder, self._owner, self._depth = builder, owner, depth
        self._decomposed = decomposer or Decomposer()
        self.results: dict[fx.Node, Any] = {}

    def read(self, node: fx.Node) -> None:
        """Adds a constant, or the ops of a call. Raises Unsupported; then no constraints on sizes are
        added.
        """
        module, symbols = self._builder.module, self._builder.module.symbols.copy()
        note_hint(node, self._builder)
        note_modules(node, self._builder)
        try:
            self.results[node] = self._attribute(node) if node.op == "get_attr" else self._called(node)
        except Unsupported:
            module.symbols = symbols
            raise

    def resolved(self, given: Any) -> Any:
        """An argument of a call as values, dims and dtypes. Raises Unsupported."""
        if isinstance(given, fx.Node):
            result = self.results[given]
            if isinstance(result, UnsupportedValue):
                raise Unsupported(result.reason)
            return result
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
        with _disable_current_modes():  # constants are real tensors, which fake tensor modes reject
            return self._constant(held)

    def _constant(self, tensor: torch.Tensor) -> Any:
        return self._builder.const(array_from(tensor))

    def _called(self, node: fx.Node) -> Any:
        if node.target is operator.getitem:
            source: Any
            source, index = node.args
            results = self.results[source] if isinstance(source, fx.Node) else source
            if isinstance(results, UnsupportedValue):
                raise Unsupported(results.reason)
            return number_from(node, results[index], self._builder)
        if (inner := wrapped(node)) is not None:
            body, arguments = map(self.resolved, inner)
            return self._part(body, arguments, depth=self._depth)
        if node.target in _CHECKS:
            return None
        if reason := self.left_to_pytorch.get(node.target):
            raise Unsupported(reason)
        result = node.meta.get("val")
        if node.target == torch.ops.aten._local_scalar_dense.default:
            return number_from(node, self.resolved(node.args[0]), self._builder)
        if isinstance(result, torch.SymInt | torch.SymBool | torch.SymFloat):
            return self._number(node, result)
        if decides_sizes(node):
            return with_sizes(node, self._computed(node), self._builder)
        if isinstance(result, int | float | bool):
            return result
        return self._computed(node)

    def _computed(self, node: fx.Node) -> Any:
        """The results of an operator on tensors."""
        try:
            return self._imported(node)
        except Unsupported as error:
            if self._depth == MAX_DEPTH:
                raise
            traced = None if node.target in _NOT_DECOMPOSED else self._decomposed(node)
            if traced is None:
                raise
            try:
                return _with_checked_types(node, self._part(traced, list(map(self.resolved, operands(node)))))
            except Unsupported as refusal:
                raise (refusal if composed(node.target) else error) from None

    def _number(self, node: fx.Node, fake: Any) -> Any:
        """The result of a computation on sizes."""
        if node.target in _ROUNDINGS and not free_unbacked_symbols(fake):
            return dim_from(fake)
        arguments = self.resolved(node.args)
        result = computed(node, arguments, self._builder)
        if result is not None:
            return result
        if not isinstance(fake, torch.SymInt):
            return UnsupportedValue(f"{node.target} of sizes is not supported")
        size(arguments)
        return dim_from(fake)

    def _part(
        self,
        traced: fx.GraphModule,
        arguments: Sequence[Any],
        builder: Builder | None = None,
        depth: int | None = None,
    ) -> Any:
        """Inlines a graph, applied to ``arguments``, at the end of the graph or at ``builder``. Returns its
        results.
        """
        inner_depth = self._depth + 1 if depth is None else depth
        at = builder or self._builder
        inner = type(self)(at, traced, inner_depth, self._decomposed)
        for node, given in zip(traced.graph.find_nodes(op="placeholder"), arguments, strict=True):
            inner.results[node] = number_from(node, given, inner._builder)
        for node in traced.graph.nodes:
            if node.op in ("get_attr", "call_function"):
                inner.read(node)
        return inner.resolved(traced.graph.output_node().args[0])

    def _imported(self, node: fx.Node) -> Any:
        convert = import_function(node.target)
        if convert is None:
            raise Unsupported("it draws random numbers" if is_random(node) else NO_OP)
        bind(node, self.resolved(node.all_input_nodes))
        call = Call(node, self.resolved, self._builder, self._inlined)
        try:
            results = convert(call)
        except ModelError as error:
            raise Unsupported(error.diagnostics[0].message) from error
        except _FAULTS_OF_IMPORTS as error:
            raise Unsupported(f"its import fails: {type(error).__name__}: {error}") from error
        if unread := call.unread():
            raise Unsupported(", ".join(f"{name}={given} is not supported" for name, given in unread.items()))
        return _with_checked_types(node, results)

    def _inlined(self, body: fx.GraphModule, arguments: Sequence[Any], at: Builder) -> Sequence[Any]:
        """Inlines a graph that is an argument of a call, at ``at``. Returns its results."""
        results = self._part(body, arguments, at, self._depth)
        return list(map(scalar, results if isinstance(results, tuple) else (results,)))


def _with_checked_types(node: fx.Node, results: Any) -> Any:
    """``results``, after a check that the results that are read have the types that PyTorch inferred. Raises
    Unsupported.
    """
    stated = node.meta["val"]
    if not isinstance(stated, tuple | list):
        _check_type(results, stated)
        return results
    read = {user.args[1] for user in node.users if user.target is operator.getitem and user.users}
    for index, fake in enumerate(stated):
        if index in read:
            if results[index] is None and fake is not None:
                raise Unsupported(f"its result {index} is not supported")
            _check_type(results[index], fake)
    return results


def _check_type(result: Any, fake: Any) -> None:
    if not isinstance(result, Value) or not isinstance(fake, torch.Tensor):
        return
    stated = type_from(fake)
    if not types_agree(result.type, stated):
        raise Unsupported(f"its result is {result.type}, and {stated} in PyTorch")
