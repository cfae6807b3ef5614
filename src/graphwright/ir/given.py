"""Constants that users give in place of inputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.op import Array
from graphwright.ir.types import DType, TensorType, type_of


def constant_for(value: Any, declared: TensorType) -> Array:
    """``value`` as an array for an input of type ``declared``. A ValueError says what does not fit.

    Arrays keep their dtype, which must be the input's; numbers and lists take it where it holds them. One
    number fits every input of one element.
    """
    is_array = isinstance(value, np.ndarray | np.generic)
    array = np.asarray(value) if is_array else _converted(value, declared.dtype)
    if not is_array and array.shape == () and declared.is_static and set(declared.sizes) <= {1}:
        array = array.reshape(declared.sizes)
    made = type_of(array)
    if made.dtype != declared.dtype or not _fits(array.shape, declared):
        raise ValueError(f"the constant is {made}, the input is {declared}")
    return array


def _fits(sizes: tuple[int, ...], declared: TensorType) -> bool:
    if declared.shape is None:
        return True
    return len(declared.shape) == len(sizes) and all(
        not isinstance(want, int) or want == have for want, have in zip(declared.shape, sizes, strict=True)
    )


def _converted(value: Any, dtype: DType) -> Array:
    """Numbers, truth values and lists of them as an array of ``dtype``."""
    try:
        plain = np.asarray(value)
        with np.errstate(all="ignore"):
            made = plain.astype(dtype.numpy)
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueError(f"{shown(value)} is no tensor of {dtype}: {error}") from error
    exact = dtype.is_integer or dtype.kind == "bool"
    if plain.dtype.kind not in "biuf" and dtype.kind != "string":
        raise ValueError(f"{shown(value)} is no number, nor a list of numbers")
    if exact and not bool((made.astype(object) == plain.astype(object)).all()):
        raise ValueError(f"{shown(value)} has elements that {dtype} does not hold")
    if dtype.is_float and bool((np.isinf(made.astype(np.float64)) & np.isfinite(plain)).any()):
        raise ValueError(f"{shown(value)} has elements beyond {dtype}")
    return made


def shown(value: Any) -> str:
    """``value`` as a message shows it."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
