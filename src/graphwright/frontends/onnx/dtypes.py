"""Dtypes by their numbers in ONNX."""

from __future__ import annotations

import onnx

from graphwright.frontends.onnx.faults import Fault
from graphwright.ir.types import DTYPES, STRING, DType

P = onnx.TensorProto
_DTYPES: dict[int, DType] = {
    P.FLOAT: DTYPES["f32"], P.UINT8: DTYPES["u8"], P.INT8: DTYPES["i8"], P.UINT16: DTYPES["u16"],
    P.INT16: DTYPES["i16"], P.INT32: DTYPES["i32"], P.INT64: DTYPES["i64"], P.STRING: STRING,
    P.BOOL: DTYPES["bool"], P.FLOAT16: DTYPES["f16"], P.DOUBLE: DTYPES["f64"], P.UINT32: DTYPES["u32"],
    P.UINT64: DTYPES["u64"], P.COMPLEX64: DTYPES["c64"], P.COMPLEX128: DTYPES["c128"],
    P.BFLOAT16: DTYPES["bf16"],
    P.FLOAT8E4M3FN: DTYPES["f8e4m3fn"], P.FLOAT8E4M3FNUZ: DTYPES["f8e4m3fnuz"], 
    P.FLOAT8E5M2: DTYPES["f8e5m2"],
    P.FLOAT8E5M2FNUZ: DTYPES["f8e5m2fnuz"], P.UINT4: DTYPES["u4"], P.INT4: DTYPES["i4"],
    23: DTYPES["f4e2m1"], 24: DTYPES["f8e8m0"], 25: DTYPES["u2"], 26: DTYPES["i2"],
    27: DTYPES["f6e2m3"], 28: DTYPES["f6e3m2"],
}  # fmt: skip
"""By number. Where there is only a number, onnx 1.17 has no name for it."""


def dtype_from_onnx(number: int) -> DType:
    """The dtype for a number of ``TensorProto.DataType``. Raises Fault."""
    found = _DTYPES.get(number)
    if found is None:
        raise Fault("dtype", f"element type {number} is not supported", "supported are: " + ", ".join(DTYPES))
    return found


_NUMBERS = {dtype: number for number, dtype in _DTYPES.items()}


def onnx_number(dtype: DType) -> int:
    """The ``TensorProto.DataType`` of a dtype."""
    return _NUMBERS[dtype]
