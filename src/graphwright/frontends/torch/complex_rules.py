"""Operators on complex numbers as operators on real and imaginary parts, by the rules of PyTorch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import torch
from torch import fx
from torch._decomp import global_decomposition_table
from torch._subclasses.complex_tensor import ComplexTensor
from torch._subclasses.complex_tensor._ops.common import lookup_complex
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_leaves

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
    made = node.meta["val"]

    def call(*given: torch.Tensor) -> Any:
        parts = iter(given)
        values = {each: _joined(fake, parts) for each, fake in zip(inputs, fakes, strict=True)}
        arguments, named = fx.node.map_arg((node.args, node.kwargs), values.__getitem__)
        if node.target in _PRODUCTS:
            arguments = tuple(_tensor(each, made.dtype) for each in arguments)
        target: Any = node.target
        rule: Any = _RULES.get(target) or lookup_complex(target, *arguments, **named) or table.get(target)
        if rule is None:
            raise NotImplementedError  # a RuntimeError, so one of REFUSALS: ends the trace
        results = rule(*arguments, **named)
        if isinstance(made, tuple | list):
            return [_parts(each, fake) for each, fake in zip(results, made, strict=True)]
        return _parts(results, made)

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


def _conjugate(x: Any) -> Any:
    """The conjugate of a tensor, or of a number: gradients of products with numbers call the operator so."""
    if isinstance(x, int | float | complex):
        return _tensor(x.conjugate(), torch.complex128)
    rule: Any = lookup_complex(_aten._conj.default, x)
    return rule(x)


def _power(x: Any, exponent: Any) -> Any:
    """``x ** exponent``, without logarithms where it is a product: 0 has none."""
    if exponent in (2, 3):
        return x * x if exponent == 2 else x * x * x
    rule: Any = lookup_complex(_aten.pow.Tensor_Scalar, x, exponent)
    return rule(x, _tensor(exponent, x.dtype))


def _scaled(x: Any, factor: complex) -> Any:
    return x if factor == 1 else x * _tensor(factor, x.dtype)


def _polar(length: torch.Tensor, angle: torch.Tensor) -> ComplexTensor:
    return ComplexTensor(length * angle.cos(), length * angle.sin())


def _full(size: Any, value: complex, dtype: torch.dtype | None = None, **_: Any) -> Any:
    if dtype is not None and not dtype.is_complex:
        return torch.full(size, value, dtype=dtype)
    real = (dtype or torch.get_default_dtype().to_complex()).to_real()
    return ComplexTensor(*(torch.full(size, part, dtype=real) for part in (value.real, value.imag)))


def _new_full(x: torch.Tensor, size: Any, value: complex, dtype: Any = None, **_: Any) -> Any:
    return _full(size, value, dtype or x.dtype)


def _divided(x: Any, y: Any) -> Any:
    """``x / y``, scaled by the larger part of ``y``: its square may be 0 or infinite."""
    if not isinstance(y, ComplexTensor):
        return ComplexTensor(x.re / y, x.im / y)
    scale = torch.maximum(y.re.abs(), y.im.abs())
    real, imag = y.re / scale, y.im / scale
    length = (real * real + imag * imag) * scale
    a, b = (x.re, x.im) if isinstance(x, ComplexTensor) else (x, torch.zeros_like(x))
    return ComplexTensor((a * real + b * imag) / length, (b * real - a * imag) / length)


def _reciprocal(x: Any) -> Any:
    return _divided(torch.ones_like(x.re), x)


def _sum_of_products(multiply: Callable[..., Any]) -> Callable[..., Any]:
    """The rule of ``beta * x + alpha * multiply(a, b)``."""

    def rule(x: Any, a: Any, b: Any, *, beta: complex = 1, alpha: complex = 1) -> Any:
        return _scaled(x, beta) + _scaled(multiply(a, b), alpha)

    return rule


def _on_each_part(target: Any) -> Callable[..., Any]:
    """The rule of an operator that moves elements: it moves real and imaginary parts separately."""
    names = [each.name for each in target._schema.arguments]

    def rule(*arguments: Any, **named: Any) -> Any:
        given = dict(zip(names, arguments, strict=False)) | named
        return ComplexTensor(
            *(target(**{name: part(name, each) for name, each in given.items()}) for part in (_real, _imag))
        )

    return rule


def _real(name: str, given: Any) -> Any:
    if isinstance(given, ComplexTensor):
        return given.re
    return given.real if name == "value" else given


def _imag(name: str, given: Any) -> Any:
    if isinstance(given, ComplexTensor):
        return given.im
    if name == "value":
        return given.imag
    is_real = isinstance(given, torch.Tensor) and given.is_floating_point()
    return torch.zeros_like(given) if is_real else given


_MOVEMENTS: Final = (
    _aten.as_strided.default,
    _aten.as_strided_copy.default,
    _aten.as_strided_scatter.default,
    _aten.index_copy.default,
    _aten.index_fill.int_Scalar,
    _aten.index_put.default,
    _aten.lift_fresh_copy.default,
    _aten.put.default,
    _aten.reflection_pad1d.default,
    _aten.reflection_pad1d_backward.default,
    _aten.reflection_pad2d.default,
    _aten.reflection_pad2d_backward.default,
    _aten.reflection_pad3d.default,
    _aten.replication_pad1d.default,
    _aten.replication_pad2d.default,
    _aten.replication_pad3d.default,
    _aten.roll.default,
    _aten.scatter.src,
    _aten.scatter.value,
    _aten.slice_scatter.default,
    _aten.select_scatter.default,
    _aten.unfold.default,
    _aten.unfold_backward.default,
)
_PRODUCTS: Final = frozenset({_aten.mul.Tensor, _aten.mul.Scalar, _aten.div.Tensor, _aten.div.Scalar})
_RULES: Final[Mapping[Any, Callable[..., Any]]] = {
    _aten._conj.default: _conjugate,
    _aten.pow.Tensor_Scalar: _power,
    _aten.addmm.default: _sum_of_products(torch.mm),
    _aten.addmv.default: _sum_of_products(lambda a, b: torch.mm(a, b.unsqueeze(1)).squeeze(1)),
    _aten.addbmm.default: _sum_of_products(lambda a, b: torch.bmm(a, b).sum(0)),
    _aten.baddbmm.default: _sum_of_products(torch.bmm),
    _aten.div.Tensor: _divided,
    _aten.reciprocal.default: _reciprocal,
    _aten.log2.default: lambda x: x.log() * _tensor(1 / math.log(2), x.dtype),
    _aten.log10.default: lambda x: x.log() * _tensor(1 / math.log(10), x.dtype),
    _aten.exp2.default: lambda x: (x * _tensor(math.log(2), x.dtype)).exp(),
    **{each: _on_each_part(each) for each in _MOVEMENTS},
    _aten.complex.default: lambda real, imag: ComplexTensor(*_aten.broadcast_tensors.default((real, imag))),
    _aten.polar.default: _polar,
    _aten.full.default: _full,
    _aten.zeros.default: lambda size, **named: _full(size, 0, **named),
    _aten.ones.default: lambda size, **named: _full(size, 1, **named),
    _aten.empty.memory_format: lambda size, **named: _full(size, 0, **named),
    _aten.scalar_tensor.default: lambda value, **named: _full((), value, **named),
    _aten.new_full.default: _new_full,
    _aten.new_zeros.default: lambda x, size, **named: _new_full(x, size, 0, **named),
    _aten.new_empty_strided.default: lambda x, size, stride, **named: _new_full(x, size, 0, **named),
    _aten.new_ones.default: lambda x, size, **named: _new_full(x, size, 1, **named),
}


def _fake_parts(fake: Any) -> Sequence[Any]:
    if not isinstance(fake, torch.Tensor) or not fake.dtype.is_complex:
        return (fake,)
    return [fake.new_empty(fake.shape, dtype=fake.dtype.to_real()) for _ in range(2)]


def _joined(fake: Any, parts: Iterator[Any]) -> Any:
    is_pair = isinstance(fake, torch.Tensor) and fake.dtype.is_complex
    return ComplexTensor(next(parts), next(parts)) if is_pair else next(parts)


def _parts(result: Any, fake: Any) -> Any:
    """The parts of a result, in the dtype that PyTorch inferred; what is not complex as it is."""
    if not isinstance(result, ComplexTensor):
        return result
    if not fake.dtype.is_complex:
        raise NotImplementedError
    return [part.to(fake.dtype.to_real()) for part in (result.re, result.im)]
