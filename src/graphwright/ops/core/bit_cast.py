"""BitCast, and PyTorch operators on the bits of floats."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.op import Array, AtenImporter, Fact, Importer, Inference, Op, Sample, arg, op
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.symbols import symbol
from graphwright.ir.types import (
    BF16,
    BOOL,
    C64,
    DTYPES,
    F16,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    STRING,
    U8,
    U16,
    U32,
    DType,
    TensorType,
    dtype_of,
)
from graphwright.ops.core.aten_imports import by_overload, number
from graphwright.ops.core.binary import Add, And, BitwiseAnd, BitwiseOr, Less, Mul, Or, Sub, Xor
from graphwright.ops.core.cast import Cast
from graphwright.ops.core.div import Div
from graphwright.ops.core.equal import Equal
from graphwright.ops.core.imports import dtype_attribute
from graphwright.ops.core.unary import Abs, IsNaN, Neg, Not
from graphwright.ops.core.where import Where


@op("BitCast")
class BitCast(Op):
    """The bits of each element of ``x``, reinterpreted as an element of ``to``. Both dtypes must have the
    same number of bits. Any bits other than all zeros become the bool true.
    """

    to: DType

    def infer(self, at: Inference, x: Fact) -> TensorType | Fact:
        if STRING in (x.dtype, self.to):
            raise at.fail("strings do not have a fixed number of bits")
        if x.dtype.bits != self.to.bits:
            raise at.fail(
                f"{x.dtype} has {x.dtype.bits} bits and {self.to} {self.to.bits}: the numbers must be equal"
            )
        return x if x.dtype == self.to else TensorType(self.to, x.type.shape)

    def forwarded_operand(self, gives: TensorType, x: Fact) -> int | None:
        return 0 if gives == x.type else None

    def reference(self, x: Array) -> Array:
        if x.dtype == self.to.numpy:
            return x
        if self.to.bits < 8:
            return _from_codes(_codes(x), self.to)
        if self.to == BOOL:
            return np.asarray(_codes(x) != 0)
        return np.ascontiguousarray(x).reshape(x.shape).view(self.to.numpy)

    def decompose(self, b: Builder, x: Value) -> Value | None:
        """For integers this is Cast, which wraps around; other dtypes have no simpler op."""
        kinds = {x.type.dtype.kind, self.to.kind}
        if self.to.bits < 8 or not kinds <= {"int", "uint", "bool"}:
            return None
        cast: Value = b(Cast(self.to), x)
        return cast


def _codes(x: Array) -> Array:
    """The bit patterns of elements of at most 8 bits, as unsigned numbers; each element is a byte
    in memory.
    """
    return np.asarray(np.ascontiguousarray(x).reshape(x.shape).view(np.uint8) & ((1 << dtype_of(x).bits) - 1))


def _from_codes(codes: Array, dtype: DType) -> Array:
    """Elements of fewer than 8 bits from their bit patterns. Integers are sign-extended to a byte
    in memory.
    """
    if dtype.kind == "float":
        return codes.view(dtype.numpy)
    sign = 1 << (dtype.bits - 1)
    values = codes.astype(np.int8)
    return np.asarray((values ^ sign) - sign if dtype.kind == "int" else values).astype(dtype.numpy)


def _import(i: Importer) -> Any:
    return i.emit(BitCast(dtype_attribute(i, i.required_attr("to"))), i.input(0))


def _bits_of(i: AtenImporter, x: Value) -> Any:
    """The bits of a float as a signed integer; both have the same sign bit."""
    return i.emit(BitCast(_INTEGERS[x.type.dtype.bits]), x)


def _has_sign(i: AtenImporter, x: Value) -> Any:
    bits = _bits_of(i, x) if x.type.dtype.is_float else x
    return i.emit(Less(), bits, number(i, 0, bits))


def _aten_signbit(i: AtenImporter) -> Any:
    """Whether the sign bit is set, also for zeros and NaN."""
    x = i.input(0)
    return i.emit(Xor(), x, x) if x.type.dtype == BOOL else _has_sign(i, x)


def _aten_copysign(i: AtenImporter) -> Any:
    """The magnitude of operand 0 with the sign of operand 1."""
    a, b = i.promoted(0, 1, floats=True)
    magnitude = i.emit(Abs(), a)
    return i.emit(Where(), _has_sign(i, b), i.emit(Neg(), magnitude), magnitude)


def _aten_nextafter(i: AtenImporter) -> Any:
    """The next float after operand 0 in the direction of operand 1. The bits of a float, read as an integer,
    grow with its magnitude: those of the next float are one more or one less.
    """
    a, b = i.promoted(0, 1)
    dtype, bits, zero = a.type.dtype, _bits_of(i, a), number(i, 0, a)
    one = number(i, 1, bits)
    grows = i.emit(Equal(), i.emit(Less(), a, b), i.emit(Less(), zero, a))
    stepped = i.emit(Where(), grows, i.emit(Add(), bits, one), i.emit(Sub(), bits, one))
    least = i.emit(BitCast(dtype), one)
    from_zero = i.emit(Where(), i.emit(Less(), zero, b), least, i.emit(Neg(), least))
    nearest = i.emit(Where(), i.emit(Equal(), a, zero), from_zero, i.emit(BitCast(dtype), stepped))
    nearest = i.emit(Where(), i.emit(Equal(), a, b), b, nearest)
    unordered = i.emit(Or(), i.emit(IsNaN(), a), i.emit(IsNaN(), b))
    return i.emit(Where(), unordered, i.emit(Add(), a, b), nearest)


def _aten_frexp(i: AtenImporter) -> Any:
    """The mantissa, with a magnitude in [0.5, 1), and the exponent of the power of two that it is multiplied
    by.

    Subnormal numbers are scaled to normal ones first. The exponent of 0, infinity and NaN is 0.
    """
    x = i.input(0)
    dtype = x.type.dtype
    if dtype not in (F16, F32, F64):
        raise i.fail(f"{dtype} is not supported")
    float_info = np.finfo(dtype.numpy)
    mantissa_bits = float_info.nmant
    subnormal = i.emit(Less(), i.emit(Abs(), x), number(i, float_info.smallest_normal, x))
    scaled = i.emit(Mul(), x, number(i, 2.0**mantissa_bits, x))
    bits = _bits_of(i, i.emit(Where(), subnormal, scaled, x))
    half = 2 ** (float_info.nexp - 1) - 2  # the biased exponent of 0.5
    mask = ((1 << float_info.nexp) - 1) << mantissa_bits
    biased = i.emit(BitwiseAnd(), bits, number(i, mask, bits))
    exponent = i.emit(Cast(I32), i.emit(Div(), biased, number(i, 1 << mantissa_bits, bits)))
    exponent = i.emit(Sub(), exponent, number(i, half, exponent))
    unscaled = i.emit(Sub(), exponent, number(i, mantissa_bits, exponent))
    exponent = i.emit(Where(), subnormal, unscaled, exponent)
    rest = i.emit(BitwiseAnd(), bits, number(i, ~mask, bits))
    mantissa = i.emit(BitCast(dtype), i.emit(BitwiseOr(), rest, number(i, half << mantissa_bits, bits)))
    zero = number(i, 0, x)
    is_finite = i.emit(Equal(), i.emit(Sub(), x, x), zero)
    has_exponent = i.emit(And(), is_finite, i.emit(Not(), i.emit(Equal(), x, zero)))
    exponent = i.emit(Where(), has_exponent, exponent, number(i, 0, exponent))
    return i.emit(Where(), has_exponent, mantissa, x), exponent


BitCast.aten = {
    "signbit": _aten_signbit,
    **by_overload("copysign", _aten_copysign, "Tensor", "Scalar"),
    "nextafter": _aten_nextafter,
    "frexp.Tensor": _aten_frexp,
}
BitCast.onnx = {("BitCast", 26): _import}
BitCast.to_onnx = as_onnx("BitCast", since=26, to="to")
_INTEGERS = {16: I16, 32: I32, 64: I64}
_EDGE = (0.0, -0.0, 1.5, -1e-40, float("inf"), float("nan"))
BitCast.samples = (
    Sample(BitCast(I32), (arg(F32, 6, values=_EDGE),)),
    Sample(BitCast(F32), (arg(I32, 2, symbol("N")),)),
    Sample(BitCast(F64), (arg(C64, 3),)),
    Sample(BitCast(I64), (arg(F64, 2, 3),)),
    Sample(BitCast(U16), (arg(BF16, 4),)),
    Sample(BitCast(BF16), (arg(F16),)),
    Sample(BitCast(U32), (arg(I32, 3, values=(-1, 0, 7)),)),
    Sample(BitCast(I8), (arg(U8, 3, values=(255, 128, 7)),)),
    Sample(BitCast(U8), (arg(BOOL, 5),)),
    Sample(BitCast(BOOL), (arg(U8, 3, values=(0, 1, 255)),)),
    Sample(BitCast(DTYPES["u4"]), (arg(DTYPES["i4"], 4, values=(-8, -1, 0, 7)),)),
    Sample(BitCast(DTYPES["i4"]), (arg(DTYPES["f4e2m1"], 4, values=(-0.0, -6.0, 0.5, 3.0)),)),
    Sample(BitCast(F32), (arg(F32, 0, 3),)),
    Sample(BitCast(I64), (arg(F32, 2),), "f32 has 32 bits and i64 64"),
    Sample(BitCast(STRING), (arg(F32, 2),), "strings do not have a fixed number of bits"),
)
