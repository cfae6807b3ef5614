"""Decompositions of PyTorch operators: before a graph is read, and of a call that has no import function."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import Any

import torch
from torch import fx
from torch._C import (
    DispatchKey,
    DispatchKeySet,
    FunctionSchema,
    ListType,
    TensorType,
    _dispatch_has_kernel_for_dispatch_key,
)
from torch._decomp import core_aten_decompositions, global_decomposition_table
from torch._dispatch.python import enable_python_dispatcher
from torch._ops import OpOverload
from torch.export import default_decompositions
from torch.func import functionalize
from torch.fx.experimental.proxy_tensor import make_fx

from graphwright.frontends.torch.catalog import import_function
from graphwright.frontends.torch.compositions import COMPOSITIONS, composed
from graphwright.frontends.torch.types import Unsupported

REFUSALS = (ArithmeticError, AssertionError, LookupError, RuntimeError, TypeError, ValueError)
"""The exceptions of decompositions that do not support their arguments."""


@cache
def decompositions() -> dict[Any, Callable[..., Any]]:
    """PyTorch's decompositions to core ATen operators, except of operators with an import function or a
    composition.
    """
    table: dict[Any, Callable[..., Any]] = dict(core_aten_decompositions())
    return {op: body for op, body in table.items() if import_function(op) is None and op not in COMPOSITIONS}


@cache
def export_decompositions() -> dict[Any, Callable[..., Any]]:
    """As :func:`decompositions`, for programs of ``torch.export``. These contain operators that AOTAutograd
    decomposes earlier.
    """
    table: dict[Any, Callable[..., Any]] = default_decompositions().materialize()
    kept = {op: body for op, body in table.items() if import_function(op) is None and op not in COMPOSITIONS}
    return kept | decompositions()


class Decomposer:
    """Decomposes calls, and caches the results for equal calls, such as those in equal layers."""

    def __init__(self, decompose: Callable[[fx.Node], fx.GraphModule | None] | None = None) -> None:
        """``decompose``: :func:`decomposed`, or another function of a call."""
        self._decompose = decompose or decomposed
        self._known: dict[str, fx.GraphModule | None] = {}

    def __call__(self, node: fx.Node) -> fx.GraphModule | None:
        """The cached decomposition of ``node``."""
        kind = _kind(node)
        if kind not in self._known:
            self._known[kind] = self._decompose(node)
        return self._known[kind]


def _kind(node: fx.Node) -> str:
    """A cache key: calls with the same key have the same decomposition."""
    inputs = {each: f"{k}: {_described(_operand(each))}" for k, each in enumerate(node.all_input_nodes)}
    return f"{node.target} {fx.node.map_arg((node.args, node.kwargs), inputs.__getitem__)}"


def operands(node: fx.Node) -> list[fx.Node]:
    """The arguments of ``node`` that are tensors or sizes: the arguments of :func:`decomposed`."""
    return [each for each in node.all_input_nodes if not _is_graph(each)]


def _is_graph(node: fx.Node) -> bool:
    """Whether ``node`` is a graph, which is an argument of a higher-order operator."""
    return node.op == "get_attr" and "val" not in node.meta


def _operand(node: fx.Node) -> Any:
    """The fake tensor, size or graph of ``node``."""
    if not _is_graph(node):
        return node.meta["val"]
    owner: Any = node.graph.owning_module
    return owner.get_submodule(str(node.target))


def _described(fake: Any) -> str:
    if not isinstance(fake, torch.Tensor):
        return str(fake) if isinstance(fake, torch.SymInt | int | float | bool) else str(id(fake))
    sizes = (
        f"{tuple(fake.shape)} {fake.stride()} {fake.storage_offset()}"
        if fake.layout == torch.strided
        else id(fake)
    )
    lazy = f"{fake.is_conj()} {fake.is_neg()}"
    return f"{fake.dtype} {fake.device} {fake.layout} {sizes} {lazy}"


def decomposed(node: fx.Node) -> fx.GraphModule | None:
    """The call of ``node`` as a graph of simpler operators, whose arguments are its :func:`operands`; None if
    it has neither a composition nor a decomposition, and is not composite. Raises Unsupported with the reason
    of a composition.
    """
    table: dict[Any, Callable[..., Any]] = global_decomposition_table["post_autograd"]
    body = composed(node.target) or table.get(node.target) or _composite(node.target)
    if body is None:
        return None
    inputs = operands(node)
    fakes = [each.meta["val"] for each in inputs]
    graphs = {each: _operand(each) for each in node.all_input_nodes if _is_graph(each)}

    def call(*given: Any) -> Any:
        values = graphs | dict(zip(inputs, given, strict=True))
        arguments, named = fx.node.map_arg((node.args, node.kwargs), values.__getitem__)
        return body(*arguments, **named)

    fake = node.meta.get("val")
    results = fake if isinstance(fake, tuple | list) else (fake,)
    mode = fake_mode((*fakes, *results))
    if mode is None:
        return None
    try:
        with mode, torch.no_grad(), enable_python_dispatcher():  # otherwise, C++ fixes some sizes
            return make_fx(call, decomposition_table=decompositions())(*fakes)
    except REFUSALS as error:
        if isinstance(error, NotImplementedError) and composed(node.target) and error.args:
            raise Unsupported(str(error)) from error
        return None


def _composite(target: Any) -> Callable[..., Any] | None:
    """The kernel of the operator ``target`` that only calls other operators, if it has one. Its library may
    have been imported after :func:`export_decompositions` was called.
    """
    if not isinstance(target, OpOverload):
        return None
    if target._can_decompose():
        return target.decompose
    if target.namespace != "aten":  # custom operators are opaque: their kernels may do anything
        return None
    if not _dispatch_has_kernel_for_dispatch_key(target._name, "CompositeExplicitAutograd"):
        return None
    kernel = partial(target.redispatch, DispatchKeySet(DispatchKey.CompositeExplicitAutograd))
    return functionalize(kernel, remove="mutations") if _is_elementary(target._schema) else None


def _is_elementary(schema: FunctionSchema) -> bool:
    """Whether an operator of ``schema`` computes lists of tensors one by one (``_foreach_add``), or creates
    tensors (``hamming_window``). Explicit kernels of others may reinterpret memory, which cannot be traced.
    """
    takes_tensors = any(isinstance(each.type, TensorType) for each in schema.arguments)
    return not takes_tensors or all(isinstance(each.type, ListType) for each in schema.returns)


def fake_mode(fakes: Iterable[Any]) -> Any:
    """The mode of the first fake tensor in ``fakes``; None if there is none."""
    return next((each.fake_mode for each in fakes if hasattr(each, "fake_mode")), None)
