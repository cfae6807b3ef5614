"""Operands of GraphBuilder as values: arrays and numbers become constants."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np

from graphwright.builder.errors import fault
from graphwright.builder.regions import Scope
from graphwright.ir.constants.conversion import exact_array
from graphwright.ir.graph import Value
from graphwright.ir.types import BOOL, F32, F64, I64, DType

Operand = Value | np.ndarray[Any, Any] | Sequence[Any] | float | bool | None
_OWN_DTYPES = {"b": BOOL, "i": I64, "f": F32}


def value_of(operand: Operand, scope: Scope, operands: Sequence[Operand] = ()) -> Value:
    """``operand`` as a value in ``scope``. Raises ModelError if it is None. A number has the dtype of the
    first value in ``operands``.
    """
    value = optional_value_of(operand, scope, next(dtype_choices((operand, *operands)))[0])
    if value is None:
        raise fault("operand", "None is not allowed here")
    return value


def optional_value_of(operand: Operand, scope: Scope, dtype: DType | None) -> Value | None:
    """``operand`` as a value in ``scope``; None stays None. Numbers, and lists of them, become ``dtype``."""
    if operand is None:
        return None
    if isinstance(operand, Value):
        return scope.local(operand)
    if dtype is None and isinstance(operand, np.ndarray | np.generic):
        return scope.builder.const(np.array(operand))
    is_tuple = isinstance(operand, tuple)
    if not isinstance(operand, bool | int | float | complex | list | tuple) or _holds_values(operand):
        hint = "give one value of the tuple" if is_tuple else "give a value or an array"
        raise fault("operand", f"an operand cannot be a {type(operand).__name__}", hint)
    if dtype is None:
        raise fault("operand", f"the dtype of {operand!r} is not known", "give an array")
    try:
        return scope.builder.const(exact_array(operand, dtype))
    except ValueError as error:
        raise fault("operand", f"{operand!r:.60} is not a constant of {dtype}: {error}") from error


def dtype_choices(operands: Sequence[Operand]) -> Iterator[tuple[DType | None, ...]]:
    """What the dtypes of numbers and lists among ``operands`` may be, the most likely ones first: those of
    the values, in their order, then their own. np.float64, which is a Python float, is f64 first. Other
    operands have None.
    """
    typed = dict.fromkeys(o.type.dtype for o in operands if isinstance(o, Value))

    def of(operand: Operand) -> list[DType | None]:
        if operand is None or isinstance(operand, Value | np.ndarray) or not typed or _holds_values(operand):
            return [None]
        if isinstance(operand, np.generic):
            return [F64, *typed] if isinstance(operand, float) else [None]
        own = _OWN_DTYPES.get(np.asarray(operand).dtype.kind)
        return list(dict.fromkeys([*typed, *([own] if own else [])]))

    return product(*map(of, operands))


def _holds_values(operand: Operand) -> bool:
    return isinstance(operand, list | tuple) and any(isinstance(o, Value) for o in operand)
