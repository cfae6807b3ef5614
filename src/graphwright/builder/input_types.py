"""Dtypes and sizes of inputs as GraphBuilder takes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphwright.builder.errors import fault
from graphwright.ir.symbols import Dim, SymbolError, parse_dim
from graphwright.ir.types import DTYPES, DType, dtype_of
from graphwright.support.message_text import did_you_mean


def size_of(given: Any, shape: Sequence[Any]) -> Dim:
    """A size of ``shape``: a number that is at least 0, or the parsed expression of a text."""
    message = f"its shape is {tuple(shape)}: "
    hint = "a size is a number, a name or an expression, as in ('N', 64); compile takes ranges, as shapes"
    if isinstance(given, str):
        try:
            return parse_dim(given)
        except SymbolError as error:
            raise fault("input-size", message + str(error), hint) from error
    if isinstance(given, bool) or not isinstance(given, int | np.integer):
        raise fault("input-size", f"{message}{given!r} is not a size", hint)
    if given < 0:
        raise fault("input-size", f"{message}{given} is less than 0", hint)
    return int(given)


def dtype_of_name(given: Any) -> DType:
    """The dtype with the name ``given``, or of a NumPy type."""
    if isinstance(given, str) and given in DTYPES:
        return DTYPES[given]
    try:
        if not isinstance(given, str):
            return dtype_of(np.empty(0, given))
    except TypeError:
        pass
    shown = repr(given)
    hint = f"{did_you_mean([str(given)], DTYPES)}one of {', '.join(DTYPES)}"
    raise fault("dtype", f"there is no dtype {shown}", hint)
