"""Reinterpretation of bits as another dtype."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.op import Array, Fact, Importer, Inference, Op, Sample, arg, op
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
from graphwright.ops.core.cast import Cast
from graphwright.ops.core.common import dtype_attribute


@op("BitCast")
class BitCast(Op):
    """The bits of ``x`` as elements of ``to``, which has as many; bits that are not all 0 are a true bool."""

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
        """Integers of as many bits wrap when they are cast; other dtypes have no simpler op."""
        kinds = {x.type.dtype.kind, self.to.kind}
        if self.to.bits < 8 or not kinds <= {"int", "uint", "bool"}:
            return None
        cast: Value = b(Cast(self.to), x)
        return cast


def _codes(x: Array) -> Array:
    """Elements of at most 8 bits, each a byte in memory, as numbers >= 0."""
    return np.asarray(np.ascontiguousarray(x).reshape(x.shape).view(np.uint8) & ((1 << dtype_of(x).bits) - 1))


def _from_codes(codes: Array, dtype: DType) -> Array:
    """Elements of fewer than 8 bits; integers by value: in memory, the sign fills a byte."""
    if dtype.kind == "float":
        return codes.view(dtype.numpy)
    sign = 1 << (dtype.bits - 1)
    values = codes.astype(np.int8)
    return np.asarray((values ^ sign) - sign if dtype.kind == "int" else values).astype(dtype.numpy)


def _import(i: Importer) -> Any:
    return i.emit(BitCast(dtype_attribute(i, i.required_attr("to"))), i.input(0))


BitCast.onnx = {("BitCast", 26): _import}
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
