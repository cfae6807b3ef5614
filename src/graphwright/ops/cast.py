"""Conversion between dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.loops.nodes import Scalar, cast, maximum, minimum
from graphwright.ir.op import (
    Array,
    Fact,
    Importer,
    Inference,
    InferError,
    Op,
    Sample,
    Trait,
    arg,
    is_known,
    op,
)
from graphwright.ir.symbols import symbol
from graphwright.ir.types import BF16, BOOL, DTYPES, F16, F32, F64, I8, I32, I64, STRING, DType, TensorType
from graphwright.ops.common import dtype_attribute, elementwise_fact, quiet, size_fact

_E8M0 = DTYPES["f8e8m0"]
_LARGEST = {"f8e4m3fn": 448.0, "f8e4m3fnuz": 240.0, "f8e5m2": 57344.0, "f8e5m2fnuz": 57344.0}
_ROUND_MODES = ("up", "down", "nearest")


def _largest(dtype: DType) -> float | None:
    """The largest number of an 8-bit float; None of other dtypes."""
    return _LARGEST.get(dtype.name)


@op("Cast")
class Cast(Op):
    """``x`` as ``to``.

    Floats become integers by truncation, integers wrap, everything but 0 is true. Floats of 8 bits take their
    largest value where ``saturate``, else NaN or infinity; ``round_mode`` (up, down, nearest) is for f8e8m0.
    """

    to: DType
    saturate: bool = True
    round_mode: str = "up"
    traits = Trait.ELEMENTWISE

    def verify(self) -> None:
        if self.round_mode not in _ROUND_MODES:
            raise InferError(f"round_mode {self.round_mode!r} is none of {', '.join(_ROUND_MODES)}")

    def infer(self, at: Inference, x: Fact) -> TensorType | Fact:
        if x.dtype == self.to:
            return x
        type = TensorType(self.to, x.type.shape)
        known = size_fact(at.symbols, x) if x.dtype.is_float or self.to.is_float else x
        if known is None or known.elements is None:
            return type
        if self.to != BOOL:
            return elementwise_fact(type, (known,), lambda element: element)
        return elementwise_fact(type, (known,), lambda e: int(e != 0)) if is_known(known.elements) else type

    def forwards(self, gives: TensorType, x: Fact) -> int | None:
        return 0 if gives == x.type else None

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
        limit = _largest(self.to)
        if limit is not None and self.saturate:
            x = np.clip(x.astype(np.float32), -limit, limit)
        return x.astype(target)

    def _to_powers(self, x: Array) -> Array:
        """Powers of two from f32: the exponent's bits (OCP Microscaling Formats, 2023), rounded as asked."""
        bits = x.view(np.uint32)
        exponent, fraction = (bits >> 23) & 0xFF, bits & 0x7FFFFF
        round_up = {"up": fraction > 0, "down": fraction < 0, "nearest": fraction >= 0x400000}[
            self.round_mode
        ]
        code = exponent + round_up
        code = np.where(code > 254, 254 if self.saturate else 255, code)
        lost = np.isnan(x) if self.saturate else np.isnan(x) | (x < 2.0**-127)
        code = np.where(lost, 255, code)
        return code.astype(np.uint8).view(self.to.numpy)

    def expression(self, x: Scalar) -> Scalar:
        if STRING in (x.dtype, self.to) or self.to == _E8M0:
            raise NotImplementedError(f"{x.dtype} to {self.to} has no scalar expression")
        limit = _largest(self.to)
        if limit is not None and self.saturate and x.dtype.is_float:
            x = minimum(maximum(cast(x, F32), -limit), limit)
        return cast(x, self.to)


def in_f32(b: Builder, x: Value) -> Value:
    """``x``, as f32 if it is a 16-bit float: where sums are formed, those lose too much."""
    return as_dtype(b, x, F32) if x.type.dtype in (F16, BF16) else x


def as_dtype(b: Builder, x: Value, dtype: DType) -> Value:
    """``x`` as ``dtype``; itself if it is one."""
    if x.type.dtype == dtype:
        return x
    made: Value = b(Cast(dtype), x)
    return made


def _import(i: Importer) -> Any:
    return i.emit(_made(i, dtype_attribute(i, i.required_attr("to"))), i.input(0))


def _import_like(i: Importer) -> Any:
    return i.emit(_made(i, i.input(1).type.dtype), i.input(0))


def _made(i: Importer, to: DType) -> Cast:
    return Cast(to, bool(i.attr("saturate", 1)), str(i.attr("round_mode", "up")))


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
    Sample(Cast(F32, round_mode="sideways"), (arg(F32, 2),), "sideways"),
)  # fmt: skip
