"""BindSize, which defines a data-dependent dimension. An op of graphwright, without ONNX counterpart."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import prod
from typing import Any

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.op import Array, Fact, Inference, InferError, Op, Sample, arg, op
from graphwright.ir.symbols import Dim, Range, product, symbol
from graphwright.ir.types import F32, I64, TensorType
from graphwright.ops.core.checks import need_dtype
from graphwright.ops.core.gather import Gather
from graphwright.ops.core.reshape import Reshape


@op("BindSize")
class BindSize(Op):
    """Binds the data-dependent dimension ``size``, and slices over-allocated buffers to it, without a copy.

    Operand 0, an i64 scalar, is the size. The other operands are buffers; result k is the leading elements of
    buffer k in row-major order, in the shape ``shapes[k]``, in which -1 denotes ``size``. An op whose results
    have an upper bound can so run in a program: it writes into buffers of the maximum size, and later ops see
    the actual size.
    """

    size: str
    shapes: tuple[tuple[int, ...], ...]

    def output_count(self) -> int:
        return len(self.shapes)

    def verify(self) -> None:
        if not self.size.isidentifier():
            raise InferError(f"{self.size!r} is not an identifier; it must be the name of a size")
        for shape in self.shapes:
            if min(shape, default=0) < -1:
                raise InferError(f"{list(shape)} is not a shape")

    def infer(self, at: Inference, count: Fact, *buffers: Fact) -> tuple[TensorType, ...]:
        need_dtype(at, count, {I64}, "the count")
        if count.shape != ():
            raise at.fail(f"the count is {count.type}; it must be a scalar")
        if len(buffers) != len(self.shapes):
            raise at.fail(f"{len(buffers)} buffers for {len(self.shapes)} shapes: the numbers must be equal")
        size = symbol(self.size)
        shapes = [tuple(size if dim < 0 else dim for dim in shape) for shape in self.shapes]
        return tuple(TensorType(b.dtype, shape) for b, shape in zip(buffers, shapes, strict=True))

    def reference(self, count: Array, *buffers: Array) -> tuple[Array, ...]:
        sizes = (shape_with(shape, int(count)) for shape in self.shapes)
        return tuple(first_elements(buffer, shape) for buffer, shape in zip(buffers, sizes, strict=True))


def shape_with(shape: Sequence[int], count: int) -> tuple[int, ...]:
    """``shape`` with -1 replaced by ``count``."""
    return tuple(count if dim < 0 else dim for dim in shape)


def first_elements(buffer: Array, shape: tuple[int, ...]) -> Array:
    """A view of the leading elements of a contiguous ``buffer``. Raises ValueError if it is too small."""
    elements = prod(shape)
    if min(shape, default=0) < 0 or elements > buffer.size:
        raise ValueError(f"a buffer of {buffer.size} elements cannot be sliced to the shape {list(shape)}")
    return np.asarray(buffer.reshape(-1)[:elements].reshape(shape))


def bind_size(b: Builder, size: Dim, count: Value, *buffers: tuple[Value, tuple[int, ...]]) -> Any:
    """Binds the symbol ``size`` to ``count``, an i64 scalar, and slices ``buffers`` to their shapes, in which
    -1 denotes ``size``. The size is at most what the buffers hold.
    """
    _limit(b, str(size), buffers)
    return b(
        BindSize(str(size), tuple(shape for _, shape in buffers)), count, *(value for value, _ in buffers)
    )


def _limit(b: Builder, size: str, buffers: Sequence[tuple[Value, tuple[int, ...]]]) -> None:
    table = b.module.symbols
    known = table.ranges.get(size, Range())
    highs = [known.high]
    for buffer, shape in buffers:
        elements, others = table.range_of(product(buffer.type.dims)).high, prod(d for d in shape if d >= 0)
        if elements is not None and others and shape.count(-1) == 1:
            highs.append(elements // others)
    table.ranges[size] = Range(known.low, min((high for high in highs if high is not None), default=None))
    if any(size in each.names and table.refutes(each) for each in table.guards):
        table.ranges[size] = known  # no run satisfies the guards: a range of no sizes would refute types


def bind_symbol(b: Builder, size: Dim, count: Value) -> None:
    """Binds the symbol ``size`` to ``count``, an i64 of one element."""
    scalar = count if count.type.shape == () else b(Reshape(()), count)
    bind_size(b, size, scalar, (b.const(np.zeros(0, np.uint8)), (-1, 0)))


def bind_symbols(
    b: Builder, dims: Sequence[Dim], axes: Sequence[int], sizes: Value, defined: Collection[str]
) -> None:
    """Binds each symbol of ``dims`` that is in ``defined``: the size of axis ``axes[k]`` is element k of
    ``sizes``.
    """
    names: dict[str, int] = {}
    for index, axis in enumerate(axes):
        if str(dims[axis]) in defined:
            names.setdefault(str(dims[axis]), index)
    for index in names.values():
        bind_symbol(b, dims[axes[index]], b(Gather(0), sizes, b.const(index, I64)))


_TWO = arg(I64, values=(2,))
BindSize.samples = (
    Sample(BindSize("some", ((-1, 3),)), (_TWO, arg(F32, 4, 3))),
    Sample(
        BindSize("none", ((2, -1), (-1,))), (arg(I64, values=(0,)), arg(F32, 9), arg(I64, 5, fill="index"))
    ),
    Sample(BindSize("no name", ((-1,),)), (_TWO, arg(F32, 4)), "must be the name of a size"),
    Sample(BindSize("some", ((-2,),)), (_TWO, arg(F32, 4)), "is not a shape"),
    Sample(BindSize("some", ((-1,),)), (arg(I64, 1, values=(2,)), arg(F32, 4)), "must be a scalar"),
    Sample(BindSize("some", ()), (_TWO, arg(F32, 4)), "1 buffers for 0 shapes"),
)
