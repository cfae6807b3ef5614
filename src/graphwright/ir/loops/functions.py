"""The scalar functions of the loop IR and their meaning in NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from graphwright.records import dataclass

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Function:
    """A scalar function. A ``predicate`` returns bool; other functions return the dtype of their operands."""

    arity: int
    numpy: Callable[..., Any]
    predicate: bool = False


def _erf(x: Array) -> Array:
    return np.asarray(np.vectorize(math.erf, otypes=[np.float64])(x), x.dtype)


def _erfc(x: Array) -> Array:
    return np.asarray(np.vectorize(math.erfc, otypes=[np.float64])(x), x.dtype)


def _lgamma(x: Array) -> Array:
    return np.asarray(np.vectorize(_lgamma_of, otypes=[np.float64])(x), x.dtype)


def _lgamma_of(x: float) -> float:
    try:
        return math.lgamma(x)
    except (ValueError, OverflowError):  # at 0, at negative integers, and for overflow
        return math.inf


def _sigmoid(x: Array) -> Array:
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + e), e / (1 + e)).astype(x.dtype)


def _divide(a: Array, b: Array) -> Array:
    """Division as in IEEE 754 for floats. For integers, it truncates towards zero, as in C, and x / 0 is
    0.
    """
    if np.result_type(a, b).kind not in "iub":
        return np.asarray(np.divide(a, b))
    safe = np.where(b == 0, 1, b)
    floor = np.floor_divide(a, safe)
    up = (floor < 0) & (floor * safe != a)
    return np.where(b == 0, 0, floor + up).astype(np.result_type(a, b))


def _quantize(x: Array, zero: Array, low: Array, high: Array) -> Array:
    """``x`` rounded to integers (ties to even), plus ``zero``, clipped to [low, high]; ``low`` for NaN.
    ``zero`` and the bounds are integers up to 2**16, so that sums are exact.
    """
    return np.asarray(np.minimum(np.fmax(np.rint(x) + zero, low), high))


FUNCTIONS: dict[str, Function] = {
    "add": Function(2, np.add),
    "sub": Function(2, np.subtract),
    "mul": Function(2, np.multiply),
    "div": Function(2, _divide),
    "div_by_sum": Function(2, _divide),
    "mod": Function(2, np.mod),
    "rem": Function(2, np.fmod),
    "pow": Function(2, np.power),
    "max": Function(2, np.maximum),
    "min": Function(2, np.minimum),
    "atan2": Function(2, np.arctan2),
    "neg": Function(1, np.negative),
    "abs": Function(1, np.abs),
    "sign": Function(1, np.sign),
    "sqrt": Function(1, np.sqrt),
    "exp": Function(1, np.exp),
    "exp_nonpositive": Function(1, np.exp),
    "expm1": Function(1, np.expm1),
    "log": Function(1, np.log),
    "log1p": Function(1, np.log1p),
    "log2": Function(1, np.log2),
    "log10": Function(1, np.log10),
    "sigmoid": Function(1, _sigmoid),
    "tanh": Function(1, np.tanh),
    "erf": Function(1, _erf),
    "erfc": Function(1, _erfc),
    "lgamma": Function(1, _lgamma),
    "sin": Function(1, np.sin),
    "cos": Function(1, np.cos),
    "tan": Function(1, np.tan),
    "asin": Function(1, np.arcsin),
    "acos": Function(1, np.arccos),
    "atan": Function(1, np.arctan),
    "sinh": Function(1, np.sinh),
    "cosh": Function(1, np.cosh),
    "asinh": Function(1, np.arcsinh),
    "acosh": Function(1, np.arccosh),
    "atanh": Function(1, np.arctanh),
    "floor": Function(1, np.floor),
    "ceil": Function(1, np.ceil),
    "round": Function(1, np.rint),
    "trunc": Function(1, np.trunc),
    "fma": Function(3, lambda a, b, c: a * b + c),
    "clamp": Function(3, lambda x, low, high: np.minimum(np.fmax(x, low), high)),
    "quantize": Function(4, _quantize),
    "select": Function(3, np.where),
    "lt": Function(2, np.less, predicate=True),
    "le": Function(2, np.less_equal, predicate=True),
    "eq": Function(2, np.equal, predicate=True),
    "ne": Function(2, np.not_equal, predicate=True),
    "isnan": Function(1, np.isnan, predicate=True),
    "isinf": Function(1, np.isinf, predicate=True),
    "and": Function(2, np.bitwise_and),
    "or": Function(2, np.bitwise_or),
    "xor": Function(2, np.bitwise_xor),
    "not": Function(1, np.invert),
    "shl": Function(2, np.left_shift),
    "shr": Function(2, np.right_shift),
}
"""All functions by name.

- ``and``, ``or``, ``xor`` and ``not`` are logical on bool and bitwise on integers.
- ``clamp`` returns the lower bound for NaN.
- ``exp_nonpositive`` is exp, but undefined above 0.
- ``div_by_sum`` is the division of floats ``a / b`` with ``0 <= a <= b`` and ``b >= 1``, as in a softmax.
"""
