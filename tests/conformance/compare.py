"""Compares an output with the expected one: dtype, shape and strings exactly, numbers within the tolerances
of the case.
"""

from __future__ import annotations

from typing import Any

import numpy as np

BF16_RTOL = 2.0**-6
"""Two steps of bf16 in the last place, as onnx's runner of backend tests allows."""


def difference(actual: Any, expected: Any, rtol: float, atol: float) -> str:
    """Describes how ``actual`` is wrong, or returns an empty text. NaN equals NaN."""
    if expected is None or actual is None:
        return "" if expected is actual else f"{_kind(actual)} instead of {_kind(expected)}"
    if isinstance(expected, list):
        return _list_difference(actual, expected, rtol, atol)
    if not isinstance(actual, np.ndarray):
        return f"{_kind(actual)} instead of an array"
    if actual.dtype != expected.dtype:
        return f"{actual.dtype} instead of {expected.dtype}"
    if actual.shape != expected.shape:
        return f"shape {actual.shape} instead of {expected.shape}"
    if expected.dtype.kind == "O":
        wrong = actual != expected
        return f"{np.count_nonzero(wrong)} of {wrong.size} strings differ" if np.any(wrong) else ""
    if expected.dtype.kind == "V":  # NumPy does not know how such types compare
        rtol = max(rtol, BF16_RTOL) if expected.dtype.name == "bfloat16" else rtol
        actual, expected = actual.astype(np.float32), expected.astype(np.float32)
    if expected.dtype.kind in "iub":
        wrong = actual != expected
    else:
        wrong = ~np.isclose(actual, expected, rtol=rtol, atol=atol, equal_nan=True)
    if not np.any(wrong):
        return ""
    worst = np.flatnonzero(wrong)[0]
    return (
        f"{np.count_nonzero(wrong)} of {wrong.size} elements differ, the first is "
        f"{actual.ravel()[worst]} instead of {expected.ravel()[worst]}"
    )


def _list_difference(actual: Any, expected: list[Any], rtol: float, atol: float) -> str:
    if not isinstance(actual, list):
        return f"{_kind(actual)} instead of a list"
    if len(actual) != len(expected):
        return f"a list of {len(actual)} instead of {len(expected)}"
    pairs = enumerate(zip(actual, expected, strict=True))
    found = ((k, difference(a, e, rtol, atol)) for k, (a, e) in pairs)
    return next((f"item {k}: {text}" for k, text in found if text), "")


def _kind(value: Any) -> str:
    return "nothing" if value is None else type(value).__name__
