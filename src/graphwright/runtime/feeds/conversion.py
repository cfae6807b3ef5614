"""Converts feeds to NumPy arrays: arrays of other libraries without a copy, and Python numbers and lists."""

from __future__ import annotations

import sys
from typing import Any

from graphwright import _native
from graphwright.errors import Diagnostic, FeedError
from graphwright.ir.arrays import Array, np
from graphwright.ir.constants.conversion import exact_array
from graphwright.ir.dtypes import DTYPES, STRING, DType

_DLPACK = {
    4: "bf16", 10: "f8e4m3fn", 11: "f8e4m3fnuz", 12: "f8e5m2", 13: "f8e5m2fnuz", 14: "f8e8m0",
}  # fmt: skip
"""Codes of DLPack 1.1 (DLDataTypeCode) of types that NumPy does not exchange."""
_FAULTS = (TypeError, ValueError, RuntimeError, BufferError)
_PLAIN = (bool, int, float, complex, list, tuple, range)
"""Types of values without an element type: they take the dtype of the input."""


def read_array(given: Any, dtype: DType, what: str, hint: str = "") -> Array:
    """Converts ``given`` to an array of ``dtype`` in native byte order.

    Arrays must have ``dtype`` already; numbers and lists are converted if ``dtype`` can represent them.
    Raises FeedError otherwise, whose message begins with ``what``, such as ``input 'x'``.
    """
    try:
        array = _array_of(given, dtype)
        if dtype is STRING and array.dtype.kind in "OS":
            array = _decoded(array)
    except _FAULTS as error:
        message = f"{what} cannot be read as an array: {error}"
        raise FeedError(Diagnostic("feed-dtype", message, hint=hint)) from error
    wanted, kind = dtype.numpy, array.dtype.kind
    texts = dtype is STRING and kind in "TU"  # T: NumPy's strings of any length, which have no byte order
    if texts or (kind != "T" and array.dtype.newbyteorder("=") == wanted):
        return array.astype(wanted, copy=False)
    if array.dtype.kind in "OSU" and not hasattr(given, "dtype"):  # no array: NumPy takes any object for one
        message = f"{what} takes {dtype}, not {type(given).__name__}"
        raise FeedError(Diagnostic("feed-dtype", message, hint=hint))
    remedy = f"convert it, as array.astype({wanted.name!r}) does"
    message = f"{what} takes {dtype}, not {array.dtype}"
    raise FeedError(Diagnostic("feed-dtype", message, hint="; ".join(filter(None, (remedy, hint)))))


def _decoded(array: Array) -> Array:
    """An array of texts from one of texts and UTF-8 bytes. Raises ValueError for other elements."""
    elements = array.ravel().tolist()
    if set(map(type, elements)) <= {str}:
        return array
    texts = np.empty(len(elements), object)
    for position, element in enumerate(elements):
        if not isinstance(element, (str, bytes)):
            raise ValueError(f"{element!r} is not a text, but of type {type(element).__name__}")
        texts[position] = element if isinstance(element, str) else element.decode()
    return texts.reshape(array.shape)


def _array_of(given: Any, dtype: DType) -> Array:
    """``given`` as an array; numbers and lists become arrays of ``dtype``.

    Raises the exceptions of ``_FAULTS`` with the message of the library that refused the value.
    """
    if isinstance(given, _PLAIN) and dtype is not STRING:
        return exact_array(given, dtype)
    masked = sys.modules.get("numpy.ma")
    if masked is not None and masked.is_masked(given):
        raise ValueError("it has masked elements: replace them by values, as array.filled(0) does")
    if not hasattr(given, "__dlpack__"):
        return np.asarray(given, object if isinstance(given, _PLAIN) else None)
    try:
        return np.asarray(given) if hasattr(given, "__array__") else np.from_dlpack(given)
    except _FAULTS:
        array = narrow_float_view(given)
        if array is None:
            raise
        return array


def narrow_float_view(tensor: Any) -> Array | None:
    """A view of a bfloat16 or 8-bit float tensor in CPU memory; None for any other tensor."""
    try:
        bits, code = _native.dlpack_bits(tensor)
    except _FAULTS:
        return None
    name = _DLPACK.get(code)
    return None if name is None else bits.view(DTYPES[name].numpy)


def narrow_float_capsule(array: Array, dtype: DType) -> object:
    """A DLPack capsule of an array of bfloat16 or 8-bit floats, which NumPy does not make; else None."""
    code = next((code for code, name in _DLPACK.items() if name == dtype.name), None)
    return None if code is None else _native.dlpack_capsule(array.view(f"u{array.itemsize}"), code)
