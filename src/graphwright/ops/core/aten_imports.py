"""Helpers of the functions that import PyTorch's operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op import AtenImport, AtenImporter, Op

TENSOR_OR_NUMBER = ("Tensor", "Scalar")
"""Overloads of operators whose second operand is a tensor or a number."""
BOTH_WAYS = (*TENSOR_OR_NUMBER, "Scalar_Tensor")
"""The same, and the overload of a number and a tensor."""


def elementwise(op: Op, operands: int = 1, *, floats: bool = False) -> AtenImport:
    """Imports as ``op`` of the first ``operands`` arguments, promoted to one dtype; with ``floats``, integers
    are promoted to floats.
    """

    def convert(i: AtenImporter) -> Any:
        return i.emit(op, *i.promoted(*range(operands), floats=floats))

    return convert


def by_overload(name: str, convert: AtenImport, *overloads: str) -> dict[str, AtenImport]:
    """The import function ``convert`` for several overloads of the operator ``name``."""
    return {f"{name}.{overload}": convert for overload in overloads}


def number(i: AtenImporter, value: Any, model: Value) -> Value:
    """The constant ``value``, a scalar in the dtype of ``model``; integers out of its range wrap around."""
    return i.const(np.asarray(value).astype(model.type.dtype.numpy))


def per_axis(sizes: Sequence[int], rank: int) -> tuple[int, ...]:
    """``sizes``, one for each of ``rank`` axes; a list of one size applies to all axes, as in PyTorch."""
    return tuple(sizes) * (rank if len(sizes) == 1 else 1)
