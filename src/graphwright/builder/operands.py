"""Operands of GraphBuilder as values: arrays and numbers become constants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphwright.builder.faults import fault
from graphwright.builder.regions import Scope
from graphwright.ir.constants.conversion import exact_array
from graphwright.ir.graph import Value

Operand = Value | np.ndarray[Any, Any] | float | bool | None


def value_of(operand: Operand, scope: Scope, operands: Sequence[Operand] = ()) -> Value:
    """``operand`` as a value in ``scope``. Raises ModelError if it is None."""
    value = optional_value_of(operand, scope, operands)
    if value is None:
        raise fault("operand", "None is not allowed here")
    return value


def optional_value_of(operand: Operand, scope: Scope, operands: Sequence[Operand] = ()) -> Value | None:
    """As :func:`value_of`; None stays None. A number has the dtype of the first value in ``operands``."""
    if operand is None:
        return None
    if isinstance(operand, Value):
        return scope.local(operand)
    if isinstance(operand, np.ndarray | np.generic):
        return scope.builder.const(np.array(operand))
    if not isinstance(operand, bool | int | float | complex | list):
        is_tuple = isinstance(operand, tuple)
        hint = "give one value of the tuple" if is_tuple else "give a value or an array"
        raise fault("operand", f"an operand is a {type(operand).__name__}", hint)
    typed = next((o for o in operands if isinstance(o, Value)), None)
    if typed is None:
        raise fault("operand", f"the dtype of {operand!r} is not known", "give an array")
    try:
        return scope.builder.const(exact_array(operand, typed.type.dtype))
    except ValueError as error:
        message = f"{operand!r:.60} is not a constant of {typed.type.dtype}: {error}"
        raise fault("operand", message) from error
