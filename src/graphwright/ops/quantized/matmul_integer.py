"""MatMulInteger."""

from __future__ import annotations

from math import inf

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Node, Value
from graphwright.ir.interfaces.arithmetic import Arithmetic, product_operations
from graphwright.ir.op import Array, Fact, Inference, Op, Sample, Trait, arg, op
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.symbols import Dim, symbol
from graphwright.ir.types import F32, I8, I32, U8, DType, TensorType
from graphwright.ops.core.binary import Sub
from graphwright.ops.core.cast import as_dtype
from graphwright.ops.core.checks import need_broadcast, need_dtype, rank_of
from graphwright.ops.core.imports import simple
from graphwright.ops.core.matmul import MatMul
from graphwright.ops.core.reshape import reshaped
from graphwright.ops.quantized.quantized import BYTES, exact_sums, is_single, sums_are_exact


@op("MatMulInteger")
class MatMulInteger(Arithmetic, Op):
    """``(a - a_zero) @ (b - b_zero)`` in i32; a and b are i8 or u8. Shapes: see :class:`MatMul`.

    The optional operands 2 and 3 are the zero points. ``a_zero`` is a scalar, or has one element per row: [M]
    or [..., M, 1]. ``b_zero`` is a scalar, or has one element per column: [N] or [..., 1, N]. Sums that
    exceed i32 wrap around.
    """

    traits = Trait.CONTRACTION
    optional_inputs = frozenset({2, 3})

    def infer(
        self, at: Inference, a: Fact, b: Fact, a_zero: Fact | None = None, b_zero: Fact | None = None
    ) -> TensorType:
        for operand, zero, what in ((a, a_zero, "a"), (b, b_zero, "b")):
            need_dtype(at, operand, BYTES, what)
            if zero is not None:
                need_dtype(at, zero, {operand.dtype}, f"the zero point of {what}")
        if a_zero is not None:
            need_per_row(at, a, a_zero, "the zero point of a")
        if b_zero is not None:
            need_per_column(at, b, b_zero, "the zero point of b")
        return MatMul().infer(at, Fact(TensorType(I32, a.shape)), Fact(TensorType(I32, b.shape)))

    def operations(self, node: Node) -> Dim:
        return product_operations(node)

    def reference(
        self, a: Array, b: Array, a_zero: Array | None = None, b_zero: Array | None = None
    ) -> Array:
        return product(a, b, a_zero, b_zero, I32)

    def decompose(
        self, b: Builder, left: Value, right: Value, a_zero: Value | None = None, b_zero: Value | None = None
    ) -> Value:
        return product_of_values(b, left, right, a_zero, b_zero, I32)


def need_per_row(at: Inference, a: Fact, parameter: Fact, what: str) -> None:
    """Raises InferError unless ``parameter`` is a scalar or has one element per row of ``a[..., M, K]``."""
    if is_single(parameter.shape):
        return
    if a.rank < 2:
        raise at.fail(f"{what} is {parameter.type}; for {a.type} it must be a scalar")
    if parameter.rank == 1:
        at.require_broadcast(parameter.shape[0], a.shape[-2], f"{what} and rows")
    else:
        need_broadcast(at, parameter, (*a.shape[:-1], 1), what)


def need_per_column(at: Inference, b: Fact, parameter: Fact, what: str) -> None:
    """Raises InferError unless ``parameter`` is a scalar or has one element per column of ``b[..., K,
    N]``.
    """
    if is_single(parameter.shape):
        return
    if b.rank < 2:
        raise at.fail(f"{what} is {parameter.type}; for {b.type} it must be a scalar")
    need_broadcast(at, parameter, (*b.shape[:-2], 1, b.shape[-1]), what)


def product(a: Array, b: Array, a_zero: Array | None, b_zero: Array | None, dtype: DType) -> Array:
    """``(a - a_zero) @ (b - b_zero)`` in ``dtype``; sums that exceed its range wrap around."""
    left, right = a.astype(dtype.numpy), b.astype(dtype.numpy)
    if a_zero is not None:
        left = left - per_row(a_zero).astype(dtype.numpy)
    if b_zero is not None:
        right = right - per_column(b_zero).astype(dtype.numpy)
    return np.asarray(np.matmul(left, right), dtype.numpy)


def product_of_values(
    b: Builder, left: Value, right: Value, a_zero: Value | None, b_zero: Value | None, dtype: DType
) -> Value:
    """:func:`product` as nodes. 8-bit integers are multiplied in f32 if all sums are exact."""
    size = right.type.dims[-2:][0] if rank_of(right) else 0
    bound = 255 * size if isinstance(size, int) else inf
    exact_in_f32 = dtype == I32 and sums_are_exact(bound, _LIMIT)
    wide = F32 if exact_in_f32 else dtype
    left, right = as_dtype(b, left, wide), as_dtype(b, right, wide)
    if a_zero is not None:
        left = b(Sub(), left, as_dtype(b, per_row_value(b, a_zero), wide))
    if b_zero is not None:
        right = b(Sub(), right, as_dtype(b, per_column_value(b, b_zero), wide))
    if exact_in_f32:
        return exact_sums(b, left, bound, _LIMIT, lambda part: b(MatMul(), part, right))
    result: Value = b(MatMul(), left, right)
    return result


_LIMIT = 2**24
"""f32 represents every integer up to this magnitude."""


def per_row(parameter: Array) -> Array:
    """A parameter of the left operand, reshaped to broadcast to it and to the product."""
    if is_single(parameter.shape):
        return parameter.reshape(())
    return parameter[:, None] if parameter.ndim == 1 else parameter


def per_column(parameter: Array) -> Array:
    """A parameter of the right operand, reshaped to broadcast to it and to the product."""
    return parameter.reshape(()) if is_single(parameter.shape) else parameter


def per_row_value(b: Builder, parameter: Value) -> Value:
    """:func:`per_row` as nodes."""
    rank, dims = rank_of(parameter), parameter.type.dims
    if is_single(dims):
        return reshaped(b, parameter, ())
    return reshaped(b, parameter, (*dims, 1)) if rank == 1 else parameter


def per_column_value(b: Builder, parameter: Value) -> Value:
    """:func:`per_column` as nodes."""
    rank_of(parameter)
    return reshaped(b, parameter, ()) if is_single(parameter.type.dims) else parameter


MatMulInteger.onnx = {("MatMulInteger", 10): simple(MatMulInteger)}
MatMulInteger.to_onnx = as_onnx("MatMulInteger")
MatMulInteger.aten = {"_int_mm": lambda i: i.emit(MatMulInteger(), i.input(0), i.input(1))}
_N, _K = symbol("N"), symbol("K")
MatMulInteger.samples = (
    *(Sample(MatMulInteger(), (arg(s, 3, 4), arg(t, 4, 5))) for s in (U8, I8) for t in (U8, I8)),
    Sample(MatMulInteger(), (arg(U8, 3, 4), arg(I8, 4, 5), arg(U8), arg(I8, 1))),
    Sample(MatMulInteger(), (arg(U8, 3, 4), arg(I8, 4, 5), None, arg(I8, 5))),
    Sample(MatMulInteger(), (arg(U8, 3, 4), arg(I8, 4, 5), arg(U8, 3), arg(I8, 5))),
    Sample(MatMulInteger(), (arg(U8, 2, 3, 4), arg(I8, 4, 5), arg(U8, 2, 3, 1))),
    Sample(MatMulInteger(), (arg(U8, 3, 4), arg(I8, 2, 4, 5), arg(U8), arg(I8, 2, 1, 5))),
    Sample(MatMulInteger(), (arg(U8, _N, _K), arg(U8, _K, 5), arg(U8, _N), arg(U8, 5))),
    Sample(MatMulInteger(), (arg(U8, 4), arg(U8, 4), arg(U8), arg(U8))),
    Sample(MatMulInteger(), (arg(U8, 3, 0), arg(U8, 0, 2), arg(U8))),
    Sample(MatMulInteger(), (arg(F32, 3, 4), arg(U8, 4, 5)), "a is f32"),
    Sample(MatMulInteger(), (arg(U8, 3, 4), arg(U8, 5, 2)), "4 and 5 differ"),
    Sample(MatMulInteger(), (arg(U8, 3, 4), arg(U8, 4, 5), arg(I8)), "the zero point of a is i8"),
    Sample(MatMulInteger(), (arg(U8, 3, 4), arg(U8, 4, 5), arg(U8, 4)), "zero point of a and rows: 4 and 3"),
    Sample(MatMulInteger(), (arg(U8, 3, 4), arg(U8, 4, 5), None, arg(U8, 4)), "the zero point of b: 4 and 5"),
    Sample(MatMulInteger(), (arg(U8, 4), arg(U8, 4, 5), arg(U8, 4)), "it must be a scalar"),
)
