"""The C types of dtypes.

Memory has the *storage* elements of a dtype, registers its *values*. Floats of at most 16 bits are computed
as f32 and rounded after each function, as in NumPy. Integers of fewer than 8 bits are computed in a byte. A
bool is 0 or 1 as a scalar, and 0 or -1 in an i32 lane of a vector (a mask). All other dtypes have the same
form in memory and registers.
"""

from __future__ import annotations

from typing import Final

from graphwright.errors import Diagnostic, ToolchainError
from graphwright.ir.types import BOOL, I32, U8, U16, DType
from graphwright.targets.cpu.c.helpers.small_dtypes import SMALL_FLOATS

C_TYPES: Final[dict[str, str]] = {
    "bool": "uint8_t", "i8": "int8_t", "i16": "int16_t", "i32": "int32_t", "i64": "int64_t",
    "u8": "uint8_t", "u16": "uint16_t", "u32": "uint32_t", "u64": "uint64_t",
    "f16": "uint16_t", "bf16": "uint16_t", "f32": "float", "f64": "double",
    **dict.fromkeys((*SMALL_FLOATS, "f8e8m0", "i4", "u4", "i2", "u2"), "uint8_t"),
}  # fmt: skip
"""The C type of a stored element."""


def stored_dtype(dtype: DType) -> DType:
    """The plain dtype whose C type stores ``dtype``."""
    if dtype == BOOL or dtype.computed != dtype:
        return U16 if dtype.bits == 16 else U8
    return dtype


def lane_dtype(dtype: DType) -> DType:
    """The dtype of a lane that holds a value of ``dtype``."""
    return I32 if dtype == BOOL else dtype.computed


def has_code(dtype: DType) -> bool:
    """Whether the emitter can store ``dtype``."""
    return dtype.name in C_TYPES


def check_dtype(dtype: DType) -> None:
    """Raises ToolchainError if the emitter cannot store ``dtype``."""
    if not has_code(dtype):
        known = ", ".join(C_TYPES)
        raise ToolchainError(
            Diagnostic("emit-dtype", f"no C code for {dtype}", hint=f"cast to one of {known}")
        )
