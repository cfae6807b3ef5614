"""Constants as C literals, and the identities of combiners."""

from __future__ import annotations

import numpy as np

from graphwright.ir.types import BOOL, F32, U32, U64, DType


def literal(number: float, dtype: DType) -> str:
    """A C literal of exactly the value that ``number`` has in ``dtype``."""
    if dtype == BOOL:
        return "1" if number else "0"
    if dtype.is_integer:
        return integer_literal(int(number), dtype)
    wide = float(np.asarray(number).astype(dtype.numpy))
    single = dtype.computed == F32
    if np.isnan(wide):
        return f'__builtin_nan{"f" if single else ""}("")'
    if np.isinf(wide):
        return f"{'-' if wide < 0 else ''}__builtin_inf{'f' if single else ''}()"
    return f"{np.float32(wide)!s}f" if single else repr(wide)


def integer_literal(number: int, dtype: DType) -> str:
    """``number`` wrapped to ``dtype``, of that C type or int."""
    number &= (1 << dtype.bits) - 1
    if dtype.kind == "int" and number >> (dtype.bits - 1):
        number -= 1 << dtype.bits
    if dtype.bits < 32 or dtype.name == "i32":
        return f"(-{-number - 1} - 1)" if number == -(2**31) else str(number)
    if dtype == U32:
        return f"{number}u"
    if dtype == U64:
        return f"UINT64_C({number})"
    return "(-INT64_C(9223372036854775807) - 1)" if number == -(2**63) else f"INT64_C({number})"


def identity(combiner: str, dtype: DType) -> float:
    """The identity of a combiner, such as 0 of a sum."""
    if combiner in ("add", "or"):
        return 0
    if combiner == "mul":
        return 1
    if combiner == "and":
        return 1 if dtype == BOOL else -1
    if dtype == BOOL:
        return 0 if combiner == "max" else 1
    if dtype.is_float:
        return float("-inf") if combiner == "max" else float("inf")
    lowest = -(1 << (dtype.bits - 1)) if dtype.kind == "int" else 0
    return lowest if combiner == "max" else lowest + (1 << dtype.bits) - 1
