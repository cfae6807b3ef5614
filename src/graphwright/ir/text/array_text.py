"""The elements of constants as printed modules contain them."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from graphwright.ir.arrays import Array, is_repeated
from graphwright.ir.text.quoting import quote, unquote
from graphwright.ir.types import STRING, dtype_of

ConstantStyle = Literal["full", "short"]
SHORT_ELEMENTS = 16
"""The most elements of a constant that is printed as a list. Larger constants are printed in base64, or as
``...`` in short texts.
"""
LARGE = 1 << 20
"""Bytes above which a short text elides an array without reading it."""
_SAMPLE = 64
"""Elements that are compared first, which rules out most arrays that are not splats."""


def array_text(array: Array, style: ConstantStyle) -> str:
    """The elements of a constant: a list, ``splat`` of one element, or base64; ``...`` if ``style`` is short
    and the constant is large.
    """
    if style == "short" and array.nbytes > LARGE and not is_repeated(array):
        return "..."
    splat = _splat_text(array)
    if splat is not None:
        return splat
    if array.size <= SHORT_ELEMENTS or dtype_of(array) is STRING:
        texts = [_element_text(v) for v in array.reshape(-1)]
        if style == "short" and len(texts) > SHORT_ELEMENTS:
            return "..."
        if _same_bytes(elements_array(texts, array.dtype), array.reshape(-1)):
            return texts[0] if array.ndim == 0 else f"[{', '.join(texts)}]"
    if style == "short":
        return "..."
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return f'base64 "{base64.b64encode(little.tobytes()).decode()}"'


def _splat_text(array: Array) -> str | None:
    """``splat 0.0`` if all elements have the same bits; None if not, or if there is only one."""
    if array.size < 2 or array.dtype == object:
        return None
    flat = array[(0,) * array.ndim].reshape(1) if is_repeated(array) else array.reshape(-1)
    bits = flat.view(np.uint8).reshape(flat.size, -1)
    sample = bits[:: -(-flat.size // _SAMPLE)]
    if not bool((sample == bits[0]).all()) or not bool((bits == bits[0]).all()):
        return None
    text = _element_text(flat[0])
    return f"splat {text}" if _same_bytes(elements_array([text], array.dtype), flat[:1]) else None


def _element_text(element: Any) -> str:
    if isinstance(element, str):
        return quote(element)
    if isinstance(element, bytes):
        return "b" + quote(element.decode("latin-1"))
    if isinstance(element, np.bool_):
        return str(bool(element))
    if isinstance(element, np.float32 | np.float16):
        return str(element)  # the shortest text that is parsed as the same number of this type
    if isinstance(element, np.complexfloating):
        return repr(complex(element)).strip("()")
    if dtype_of(np.asarray(element)).is_integer:
        return str(int(element))
    return repr(float(element))


def elements_array(texts: Sequence[str], dtype: np.dtype[Any]) -> Array:
    """The array of ``dtype`` with the elements in ``texts``."""
    if dtype.kind == "O":
        array = np.empty(len(texts), object)
        array[:] = [unquote(t[1:]).encode("latin-1") if t[0] == "b" else unquote(t) for t in texts]
        return array
    kind = dtype_of(np.empty(0, dtype)).kind
    if kind == "complex":
        return np.array([complex(t) for t in texts], dtype)
    if kind == "bool":
        return np.array([{"True": True, "False": False}[t] for t in texts], dtype)
    if kind in ("int", "uint"):
        return np.array([int(t) for t in texts], object).astype(dtype)
    return np.array([float(t) for t in texts], np.float64).astype(dtype)


def _same_bytes(a: Array, b: Array) -> bool:
    if a.dtype == object:
        return bool(a.tolist() == b.tolist())
    return a.tobytes() == b.tobytes()
