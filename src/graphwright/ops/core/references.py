"""Functions on arrays that references of many ops share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from math import prod
from typing import Any

import numpy as np

from graphwright.ir.op import Array


def positive_axes(axes: Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """``axes`` as non-negative numbers; None means all axes. For references, whose axes are valid."""
    return tuple(range(rank)) if axes is None else tuple(axis % max(rank, 1) for axis in axes)


def like(array: Any, model: Array) -> Array:
    """``array`` as an ndarray of the dtype of ``model``. NumPy functions may return scalars or promote
    dtypes.
    """
    return np.asarray(array, dtype=model.dtype)


def zero_of(array: Array) -> Any:
    """The zero of the dtype of ``array``: 0, or an empty string."""
    return "" if array.dtype == object else array.dtype.type(0)


def quiet(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` without NumPy's floating-point warnings: NaN and infinity are valid results."""

    @wraps(function)
    def silent(*arguments: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(*arguments)

    return silent


def mean_over(array: Array, axes: tuple[int, ...]) -> Array:
    """The mean along ``axes``, which stay with size 1. The mean of no elements is NaN, without NumPy's
    warning.
    """
    total = array.sum(axis=axes, keepdims=True, dtype=array.dtype)
    return np.asarray(total / array.dtype.type(prod(array.shape[axis] for axis in axes)))


def widened(array: Array) -> Array:
    """``array``, converted to f32 if it has 16-bit floats, which are summed in f32."""
    return array.astype(np.float32) if array.dtype.name in ("float16", "bfloat16") else array
