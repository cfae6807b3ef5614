"""Constants that users give instead of inputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.arrays import Array
from graphwright.ir.constants.conversion import exact_array
from graphwright.ir.types import TensorType, type_of


def constant_for(value: Any, declared: TensorType) -> Array:
    """``value`` as an array for an input of type ``declared``. Raises ValueError if it does
    not fit.

    Arrays must have the dtype of the input; numbers and lists are converted if that is exact. A single number
    fits every input of one element.
    """
    is_array = isinstance(value, np.ndarray | np.generic)
    array = np.asarray(value) if is_array else exact_array(value, declared.dtype)
    if not is_array and array.shape == () and declared.is_static and set(declared.sizes) <= {1}:
        array = array.reshape(declared.sizes)
    given = type_of(array)
    if given.dtype != declared.dtype or not _fits(array.shape, declared):
        raise ValueError(f"the constant has type {given}, but the input has type {declared}")
    return array


def _fits(sizes: tuple[int, ...], declared: TensorType) -> bool:
    if declared.shape is None:
        return True
    return len(declared.shape) == len(sizes) and all(
        not isinstance(want, int) or want == have for want, have in zip(declared.shape, sizes, strict=True)
    )
