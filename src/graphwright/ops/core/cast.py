"""Conversion between dtypes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Node, Value
from graphwright.ir.interfaces.copied_elements import CopiesElements
from graphwright.ir.loops.nodes import Const, Scalar, apply, bits, cast, maximum, minimum, select
from graphwright.ir.op import (
    Array,
    AtenImporter,
    Fact,
    Importer,
    Inference,
    InferError,
    Op,
    Sample,
    Trait,
    arg,
    op,
)
from graphwright.ir.op.exporter import Exporter
from graphwright.ir.symbols import Dim, symbol
from graphwright.ir.types import (
    BF16,
    BOOL,
    DTYPES,
    F16,
    F32,
    F64,
    I8,
    I32,
    I64,
    STRING,
    U8,
    DType,
    TensorType,
)
from graphwright.ops.core.checks import FLOATS
from graphwright.ops.core.imports import dtype_attribute
from graphwright.ops.core.known_elements import elementwise_fact, size_fact
from graphwright.ops.core.references import quiet

_E8M0 = DTYPES["f8e8m0"]
_LARGEST = {"f8e4m3fn": 448.0, "f8e4m3fnuz": 240.0, "f8e5m2": 57344.0, "f8e5m2fnuz": 57344.0}
_ROUND_DOWN_MAX = {"up": 0, "down": 0x7FFFFF, "nearest": 0x3FFFFF}
"""By round mode: the largest f32 fraction field that is rounded down to a power of two. With ``nearest`` and
an exponent field of 0 it is one larger, because 2^-127 has no implied leading bit.
"""


def _largest(dtype: DType) -> float | None:
    """The largest number of an 8-bit float; None of other dtypes."""
    return _LARGEST.get(dtype.name)


@op("Cast")
class Cast(CopiesElements, Op):
    """``x`` converted to the dtype ``to``.

    Floats are truncated to integers, integers wrap around, and every number but 0 is true. Out-of-range
    values of 8-bit floats become the largest number with ``saturate``, else NaN or infinity. ``round_mode``
    (up, down, nearest) applies to f8e8m0. ``excess``: a kernel that widens the result again may skip the
    rounding (excess precision, as in C).
    """

    to: DType
    saturate: bool = True
    round_mode: str = "up"
    excess: bool = False
    traits = Trait.ELEMENTWISE

    def verify(self) -> None:
        if self.round_mode not in _ROUND_DOWN_MAX:
            raise InferError(f"round_mode {self.round_mode!r} is not one of {', '.join(_ROUND_DOWN_MAX)}")

    def infer(self, at: Inference, x: Fact) -> TensorType | Fact:
        if x.dtype == self.to:
            return x
        type = TensorType(self.to, x.type.shape)
        known = size_fact(at.symbols, x) if x.dtype.is_float or self.to.is_float else x
        return elementwise_fact(type, (known,), self._cast_size)

    def _cast_size(self, element: Dim) -> Dim | None:
        if self.to != BOOL:
            return element
        return int(element != 0) if isinstance(element, int) else None

    def forwarded_operand(self, gives: TensorType, x: Fact) -> int | None:
        return 0 if gives == x.type else None

    def copied_from(
        self, node: Node, element: int | None, facts: Mapping[Value, Fact]
    ) -> tuple[int, int | None] | None:
        return 0, element

    @quiet
    def reference(self, x: Array) -> Array:
        target = self.to.numpy
        if x.dtype == target and self.to != STRING:
            return x
        if self.to == STRING:
            return np.array([str(v) for v in x.ravel()], dtype=object).reshape(x.shape)
        if x.dtype.kind in "OSU":
            x = np.array([float(v) for v in x.ravel()], dtype=np.float64).reshape(x.shape)
        if self.to == _E8M0:
            return self._to_powers(x.astype(np.float32))
        if self.to.is_float and self.to.bits <= 8:
            x, limit = x.astype(np.float32), _largest(self.to)
            x = x if limit is None or not self.saturate else np.clip(x, -limit, limit)
        return x.astype(target)

    def _to_powers(self, x: Array) -> Array:
        """f32 rounded to f8e8m0, a power of two in an exponent of 8 bits (OCP Microscaling Formats, 2023)."""
        pattern = x.view(np.uint32)
        exponent, fraction = (pattern >> 23) & 0xFF, pattern & 0x7FFFFF
        whole = (exponent == 0) if self.round_mode == "nearest" else 0
        code = exponent + (fraction > _ROUND_DOWN_MAX[self.round_mode] + whole)
        code = np.where(code > 254, 254 if self.saturate else 255, code)
        lost = np.isnan(x) if self.saturate else np.isnan(x) | (x < 2.0**-127)
        code = np.where(lost, 255, code)
        return code.astype(np.uint8).view(self.to.numpy)

    def expression(self, x: Scalar) -> Scalar:
        if STRING in (x.dtype, self.to):
            raise NotImplementedError(f"{x.dtype} to {self.to} has no scalar expression")
        if self.to == _E8M0:
            return self._power_of(cast(x, F32))
        limit = _largest(self.to)
        if limit is not None and self.saturate:
            x = minimum(maximum(cast(x, F32), -limit), limit)
        return cast(x, self.to)

    def _power_of(self, x: Scalar) -> Scalar:
        """:meth:`_to_powers` as a scalar expression."""
        pattern = bits(x, I32)
        exponent = apply("and", apply("shr", pattern, 23), 0xFF)
        limit: Scalar = Const(_ROUND_DOWN_MAX[self.round_mode], I32)
        if self.round_mode == "nearest":
            limit = limit + cast(exponent < 1, I32)
        code = exponent + cast(limit < apply("and", pattern, 0x7FFFFF), I32)
        code = select(Const(254, I32) < code, 254 if self.saturate else 255, code)
        lost = apply("isnan", x)
        if not self.saturate:
            lost = apply("or", lost, x < 2.0**-127)
        return bits(cast(select(lost, 255, code), U8), self.to)


def in_f32(b: Builder, x: Value) -> Value:
    """``x``, converted to f32 if it is a 16-bit float: sums in 16 bits lose too much precision."""
    return as_dtype(b, x, F32) if x.type.dtype in (F16, BF16) else x


def in_wide_float(b: Builder, x: Value) -> Value:
    """``x``, converted to f32 if it is a float of 8 bits: elementwise ops take floats of at least 16 bits."""
    dtype = x.type.dtype
    return as_dtype(b, x, F32) if dtype.is_float and dtype not in FLOATS else x


def as_dtype(b: Builder, x: Value, dtype: DType) -> Value:
    """``x`` converted to ``dtype``, or ``x`` itself if it has this dtype."""
    if x.type.dtype == dtype:
        return x
    result: Value = b(Cast(dtype), x)
    return result


def _import(i: Importer) -> Any:
    return i.emit(_cast(i, dtype_attribute(i, i.required_attr("to"))), i.input(0))


def _import_like(i: Importer) -> Any:
    return i.emit(_cast(i, i.input(1).type.dtype), i.input(0))


def _cast(i: Importer, to: DType) -> Cast:
    return Cast(to, bool(i.attr("saturate", 1)), str(i.attr("round_mode", "up")))


def _export(e: Exporter, op: Cast, x: Value) -> Any:
    """``excess`` has no counterpart in ONNX: it only permits a more precise result."""
    if op.round_mode != "up":
        return e.emit("Cast", x, since=24, to=op.to, round_mode=op.round_mode, saturate=op.saturate)
    return e.emit("Cast", x, to=op.to, saturate=None if op.saturate else False)


Cast.to_onnx = _export
Cast.onnx = {("Cast", 6): _import, ("CastLike", 15): _import_like}
_N = symbol("N")
_EDGE = (0.0, -0.0, 1.5, 1e30, -1e30, float("inf"), float("-inf"), float("nan"))
Cast.samples = (
    Sample(Cast(F32), (arg(F32, 2, 3),)),
    Sample(Cast(F16), (arg(F32, 2, 3),)),
    Sample(Cast(I32), (arg(F32, 2, 3),)),
    Sample(Cast(BOOL), (arg(F32, 8, values=_EDGE),)),
    Sample(Cast(F32), (arg(BOOL, 4, fill="mask"),)),
    Sample(Cast(I8), (arg(I64, 3, values=(200, -129, 5)),)),
    Sample(Cast(I64), (arg(I32, 3, values=(1, 0, -3)),)),
    Sample(Cast(BOOL), (arg(I64, 3, values=(1, 0, -3)),)),
    Sample(Cast(F64), (arg(I64, _N, fill="index"),)),
    *(Sample(Cast(DTYPES[n]), (arg(F32, 8, values=_EDGE),)) for n in _LARGEST),
    Sample(Cast(DTYPES["f8e4m3fn"], saturate=False), (arg(F32, 8, values=_EDGE),)),
    *(
        Sample(Cast(_E8M0, saturate, mode), (arg(F32, 8, values=_EDGE),))
        for mode in _ROUND_DOWN_MAX for saturate in (True, False)
    ),
    *(Sample(Cast(DTYPES[n]), (arg(I32, 5, values=(-9, -1, 0, 7, 21)),)) for n in ("i4", "u4", "i2", "u2")),
    *(Sample(Cast(F32), (arg(DTYPES[n], 4, fill="index"),)) for n in ("i4", "u2", "f4e2m1", "f8e5m2")),
    Sample(Cast(F32, round_mode="sideways"), (arg(F32, 2),), "sideways"),
)  # fmt: skip


def _aten_convert(i: AtenImporter) -> Any:
    return i.result(i.input(0)) if i.attr("dtype") is not None else i.input(0)


Cast.aten = {
    "_to_copy": _aten_convert,
    "clone": lambda i: i.input(0),
    "alias": lambda i: i.input(0),
    "detach": lambda i: i.input(0),
    "lift_fresh_copy": lambda i: i.input(0),
    "prims.convert_element_type": _aten_convert,
}
