"""What users feed as NumPy arrays: arrays of other libraries without a copy, numbers and lists."""

from __future__ import annotations

from typing import Any

from graphwright import _native
from graphwright.ir.arrays import Array, np
from graphwright.ir.conversion import converted
from graphwright.ir.dtypes import DTYPES, STRING, DType

_DLPACK = {
    4: "bf16", 10: "f8e4m3fn", 11: "f8e4m3fnuz", 12: "f8e5m2", 13: "f8e5m2fnuz", 14: "f8e8m0",
}  # fmt: skip
"""Codes of DLPack 1.1 (DLDataTypeCode) of types that NumPy does not exchange."""
_FAULTS = (TypeError, ValueError, RuntimeError, BufferError)
_PLAIN = (bool, int, float, complex, list, tuple, range)
"""What has no element type of its own."""


def array_of(given: Any, dtype: DType) -> Array:
    """``given`` as an array; numbers and lists as one of ``dtype``, where it holds them.

    Raises ValueError, TypeError, RuntimeError or BufferError, in the words of whatever refused it.
    """
    if isinstance(given, _PLAIN) and dtype is not STRING:
        return converted(given, dtype)
    if not hasattr(given, "__dlpack__"):
        return np.asarray(given)
    try:
        return np.asarray(given) if hasattr(given, "__array__") else np.from_dlpack(given)
    except _FAULTS:
        array = _narrow(given)
        if array is None:
            raise
        return array


def _narrow(tensor: Any) -> Array | None:
    """A view of a tensor of bfloat16 or of 8-bit floats in the CPU's memory; None for others."""
    try:
        bits, code = _native.dlpack_bits(tensor)
    except _FAULTS:
        return None
    name = _DLPACK.get(code)
    return None if name is None else bits.view(DTYPES[name].numpy)
