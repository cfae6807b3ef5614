"""Exact conversion of Python numbers and lists to arrays of a given dtype."""

from __future__ import annotations

from typing import Any

from graphwright.ir.arrays import Array, np
from graphwright.ir.dtypes import DType


def exact_array(value: Any, dtype: DType) -> Array:
    """Numbers, bools and lists of them as an array of ``dtype``. Raises ValueError if the conversion is not
    exact.
    """
    try:
        plain = np.asarray(value)
        if plain.dtype.kind == "c" and dtype.kind != "complex":
            raise ValueError("it has complex elements")
        with np.errstate(all="ignore"):
            converted = plain.astype(dtype.numpy)
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueError(f"{short_repr(value)} is not a tensor of {dtype}: {error}") from error
    exact = dtype.is_integer or dtype.kind == "bool"
    if plain.dtype.kind not in "biufc" and dtype.kind != "string":
        raise ValueError(f"{short_repr(value)} is not a number or a list of numbers")
    if exact and not bool((converted.astype(object) == plain.astype(object)).all()):
        raise ValueError(f"{short_repr(value)} has elements that {dtype} cannot represent")
    if dtype.is_float and bool((np.isinf(converted.astype(np.float64)) & np.isfinite(plain)).any()):
        raise ValueError(f"{short_repr(value)} has elements outside the range of {dtype}")
    return converted


def short_repr(value: Any) -> str:
    """``value`` as messages show it, shortened."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
