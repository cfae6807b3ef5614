"""Data-dependent numbers, which PyTorch calls unbacked symbols, and computations on them.

Such a number is a scalar tensor. It becomes a size only if an operator uses it as one.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch.fx.experimental.symbolic_shapes import resolve_unbacked_bindings
from torch.utils import _pytree as pytree

from graphwright.frontends.torch.types import Unsupported, dim_from
from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.op import Op
from graphwright.ir.symbols import Dim, names_in
from graphwright.ir.types import F64, I64
from graphwright.ops.control.region_imports import tensors_of
from graphwright.ops.core.binary import Add, Greater, GreaterOrEqual, Less, LessOrEqual, Max, Min, Mul, Sub
from graphwright.ops.core.bind_size import bind_size, bind_symbol
from graphwright.ops.core.cast import as_dtype
from graphwright.ops.core.div import Div
from graphwright.ops.core.equal import Equal
from graphwright.ops.core.identity import Identity
from graphwright.ops.core.pow import Pow
from graphwright.ops.core.reshape import Reshape
from graphwright.ops.core.shape import Shape
from graphwright.ops.core.unary import Abs, Neg, Sqrt
from graphwright.records import dataclass

_OPS: Mapping[Any, Op] = {
    operator.add: Add(),
    operator.sub: Sub(),
    operator.mul: Mul(),
    torch.sym_max: Max(),
    torch.sym_min: Min(),
    operator.lt: Less(),
    operator.le: LessOrEqual(),
    operator.gt: Greater(),
    operator.ge: GreaterOrEqual(),
    operator.eq: Equal(),
}
"""The op for each operator on numbers. PyTorch evaluates other operators on sizes symbolically."""
_FLOAT_OPS: Mapping[Any, Op] = {
    **_OPS,
    operator.truediv: Div(),
    operator.pow: Pow(),
    operator.neg: Neg(),
    operator.abs: Abs(),
    torch.sym_sqrt: Sqrt(),
    torch.sym_float: Identity(),
}
"""The op for each operator whose result is a float, which is computed in f64 as in Python."""


@dataclass(eq=False)
class UnbackedInt:
    """A data-dependent integer."""

    value: Value
    """The number as an i64 scalar."""
    size: Dim
    """The number as an expression of PyTorch symbols."""
    builder: Builder
    operands: tuple[UnbackedInt, ...] = ()
    """The numbers from which it is computed."""
    is_bound: bool = False

    def dim(self) -> Dim:
        """The number as a size. The first call binds its symbols."""
        if not self.is_bound:
            self.is_bound = True
            for each in self.operands:
                each.dim()
            if not self.operands:
                bind_symbol(self.builder, self.size, self.value)
        return self.size


def number_from(node: fx.Node, value: Any, builder: Builder) -> Any:
    """``value``; or an UnbackedInt of it if the result of ``node`` is a size in PyTorch."""
    fake = node.meta.get("val")
    if not isinstance(fake, torch.SymInt) or not isinstance(value, Value):
        return value
    size = dim_from(fake)
    return size if isinstance(size, int) else UnbackedInt(as_dtype(builder, value, I64), size, builder)


def computed(node: fx.Node, arguments: Sequence[Any], builder: Builder) -> Any:
    """The result of ``node``, which computes with sizes and numbers; None if no op computes it."""
    fake = node.meta["val"]
    numbers = tuple(each for each in arguments if isinstance(each, UnbackedInt))
    if isinstance(fake, torch.SymInt) and not numbers:
        return None
    has_floats = any(isinstance(each, float | torch.SymFloat) for each in (fake, *map(_number, node.args)))
    op = (_FLOAT_OPS if has_floats else _OPS).get(node.target)
    if op is None:
        return None
    operands = tensors_of(builder, [scalar(each) for each in arguments])
    result = builder(op, *[as_dtype(builder, each, F64) for each in operands] if has_floats else operands)
    return UnbackedInt(result, dim_from(fake), builder, numbers) if isinstance(fake, torch.SymInt) else result


def _number(argument: Any) -> Any:
    """The number in PyTorch that ``argument`` of a call stands for."""
    return argument.meta.get("val") if isinstance(argument, fx.Node) else argument


def bind(node: fx.Node, arguments: Sequence[Any]) -> None:
    """Binds the numbers in ``arguments`` on which sizes of the results of ``node`` depend."""
    numbers = [each for each in arguments if isinstance(each, UnbackedInt)]
    if numbers:
        names = names_in(*map(dim_from, _sizes(node)))
        for each in numbers:
            if not names.isdisjoint(names_in(each.size)):
                each.dim()


def decides_sizes(node: fx.Node) -> bool:
    """Whether the results of ``node`` have data-dependent sizes."""
    defined = _defined_symbols(node)
    sizes = [each.node.expr for each in _sizes(node) if isinstance(each, torch.SymInt)]
    return any(str(symbol) in defined for size in sizes for symbol in size.free_symbols)


def _defined_symbols(node: fx.Node) -> set[str]:
    """The symbols of data-dependent sizes that ``node`` defines, by their current names: PyTorch renames them
    when it captures a graph again.
    """
    bindings = node.meta.get("unbacked_bindings") or {}
    tables = {each.node.shape_env for each in _sizes(node) if isinstance(each, torch.SymInt)}
    return {str(symbol) for table in tables for symbol in resolve_unbacked_bindings(table, bindings) or ()}


def with_sizes(node: fx.Node, results: Any, builder: Builder) -> Any:
    """Binds the data-dependent sizes of ``results`` to the symbols of PyTorch. Raises Unsupported."""
    fakes, names = node.meta["val"], _defined_symbols(node)
    if not isinstance(results, tuple):
        return _with_size(results, fakes, names, builder)
    return tuple(_with_size(each, fake, names, builder) for each, fake in zip(results, fakes, strict=True))


def _with_size(value: Any, fake: Any, names: set[str], builder: Builder) -> Any:
    dims = list(map(dim_from, fake.shape)) if isinstance(fake, torch.Tensor) else []
    found = [axis for axis, dim in enumerate(dims) if str(dim) in names]
    if value is None or not found:
        return value
    known = [-1 if axis in found else dim for axis, dim in enumerate(dims)]
    shape = tuple(dim for dim in known if isinstance(dim, int))
    if len(found) > 1 or len(shape) < len(known):
        raise Unsupported("its result has data-dependent sizes and other dynamic sizes")
    (axis,) = found
    count = builder(Reshape(()), builder(Shape(axis, axis + 1), value))
    return bind_size(builder, dims[axis], count, (value, shape))


def _sizes(node: fx.Node) -> list[Any]:
    """The sizes of all results of ``node`` that are tensors."""
    results = pytree.tree_leaves(node.meta.get("val"))
    return [dim for each in results if isinstance(each, torch.Tensor) for dim in each.shape]


def scalar(given: Any) -> Any:
    """The tensor of an UnbackedInt; other values are not changed."""
    return given.value if isinstance(given, UnbackedInt) else given


def size(given: Any) -> Any:
    """The size of an UnbackedInt, also in tuples; other values are not changed."""
    if isinstance(given, tuple):
        return tuple(map(size, given))
    return given.dim() if isinstance(given, UnbackedInt) else given
