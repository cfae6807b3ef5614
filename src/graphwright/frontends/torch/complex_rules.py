"""Operators on complex numbers as operators on real and imaginary parts, by the rules of PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import torch
from torch import fx
from torch._decomp import global_decomposition_table
from torch._subclasses.complex_tensor import ComplexTensor
from torch._subclasses.complex_tensor._ops.common import lookup_complex
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_leaves, tree_map

from graphwright.frontends.torch.decompositions import REFUSALS, decompositions, fake_mode, operands

_aten: Final = torch.ops.aten


def on_parts(node: fx.Node) -> fx.GraphModule | None:
    """The call of ``node`` as a graph of operators on real tensors; None if there is no rule for it. Its
    arguments and results are those of the call, with two tensors in place of a complex one.
    """
    inputs = operands(node)
    fakes = [each.meta["val"] for each in inputs]
    mode = fake_mode((*fakes, *tree_leaves(node.meta["val"])))
    if mode is None:
        return None

    table: dict[Any, Any] = global_decomposition_table["post_autograd"]

    def call(*given: torch.Tensor) -> Any:
        parts = iter(given)
        values = {each: _joined(fake, parts) for each, fake in zip(inputs, fakes, strict=True)}
        arguments, named = fx.node.map_arg((node.args, node.kwargs), values.__getitem__)
        if node.target in _PRODUCTS:
            arguments = tuple(_tensor(each, node.meta["val"].dtype) for each in arguments)
        target: Any = node.target
        rule: Any = _RULES.get(target) or lookup_complex(target, *arguments, **named) or table.get(target)
        if rule is None:
            raise NotImplementedError  # a RuntimeError, so one of REFUSALS: ends the trace
        return tree_map(_parts, rule(*arguments, **named))

    try:
        with mode, torch.no_grad():
            flat = [part for fake in fakes for part in _fake_parts(fake)]
            traced = make_fx(call, decomposition_table=decompositions())(*flat)
    except REFUSALS:
        return None
    traced.graph.eliminate_dead_code()  # such as is_pinned, whose result is not a tensor
    return traced


def _tensor(given: Any, dtype: torch.dtype) -> Any:
    """``given``; a number becomes a tensor, as PyTorch's rules for products take no numbers."""
    if not isinstance(given, int | float | complex):
        return given
    return ComplexTensor(*(torch.full((), part, dtype=dtype.to_real()) for part in (given.real, given.imag)))


def _power(x: Any, exponent: Any) -> Any:
    """``x ** exponent``, without logarithms where it is a product: 0 has none."""
    if exponent in (2, 3):
        return x * x if exponent == 2 else x * x * x
    rule: Any = lookup_complex(_aten.pow.Tensor_Scalar, x, exponent)
    return rule(x, _tensor(exponent, x.dtype))


def _addmm(x: Any, a: Any, b: Any, *, beta: complex = 1, alpha: complex = 1) -> Any:
    return _scaled(x, beta) + _scaled(torch.mm(a, b), alpha)


def _scaled(x: Any, factor: complex) -> Any:
    return x if factor == 1 else x * _tensor(factor, x.dtype)


def _polar(length: torch.Tensor, angle: torch.Tensor) -> ComplexTensor:
    return ComplexTensor(length * angle.cos(), length * angle.sin())


def _full(size: Any, value: complex, dtype: torch.dtype | None = None, **_: Any) -> ComplexTensor:
    real = (dtype or torch.get_default_dtype().to_complex()).to_real()
    return ComplexTensor(*(torch.full(size, part, dtype=real) for part in (value.real, value.imag)))


def _new_full(x: torch.Tensor, size: Any, value: complex, dtype: Any = None, **_: Any) -> ComplexTensor:
    return _full(size, value, dtype or x.dtype)


_PRODUCTS: Final = frozenset({_aten.mul.Tensor, _aten.mul.Scalar, _aten.div.Tensor, _aten.div.Scalar})
_RULES: Final[Mapping[Any, Callable[..., Any]]] = {
    _aten.pow.Tensor_Scalar: _power,
    _aten.addmm.default: _addmm,
    _aten.polar.default: _polar,
    _aten.full.default: _full,
    _aten.zeros.default: lambda size, **named: _full(size, 0, **named),
    _aten.ones.default: lambda size, **named: _full(size, 1, **named),
    _aten.empty.memory_format: lambda size, **named: _full(size, 0, **named),
    _aten.scalar_tensor.default: lambda value, **named: _full((), value, **named),
    _aten.new_full.default: _new_full,
    _aten.new_zeros.default: lambda x, size, **named: _new_full(x, size, 0, **named),
    _aten.new_ones.default: lambda x, size, **named: _new_full(x, size, 1, **named),
}


def _fake_parts(fake: Any) -> Sequence[Any]:
    if not isinstance(fake, torch.Tensor) or not fake.dtype.is_complex:
        return (fake,)
    return [fake.new_empty(fake.shape, dtype=fake.dtype.to_real()) for _ in range(2)]


def _joined(fake: Any, parts: Iterator[Any]) -> Any:
    is_pair = isinstance(fake, torch.Tensor) and fake.dtype.is_complex
    return ComplexTensor(next(parts), next(parts)) if is_pair else next(parts)


def _parts(result: Any) -> Any:
    return [result.re, result.im] if isinstance(result, ComplexTensor) else result
