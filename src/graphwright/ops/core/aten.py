"""What import functions of PyTorch's operators share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op import AtenImport, AtenImporter, Op


def elementwise(made: Op, operands: int = 1, *, floats: bool = False) -> AtenImport:
    """``made`` of the first arguments; ``floats``: integers become floats."""

    def convert(i: AtenImporter) -> Any:
        return i.emit(made, *i.promoted(*range(operands), floats=floats))

    return convert


def by_overload(name: str, convert: AtenImport, *overloads: str) -> dict[str, AtenImport]:
    """One import function for several overloads of ``name``."""
    return {f"{name}.{overload}": convert for overload in overloads}


def number(i: AtenImporter, value: Any, model: Value) -> Value:
    """A number as a scalar in the dtype of ``model``; integers that are out of its range wrap."""
    return i.const(np.asarray(value).astype(model.type.dtype.numpy))


def per_axis(sizes: Sequence[int], rank: int) -> tuple[int, ...]:
    """A size for each of ``rank`` axes: PyTorch gives one for all as a list of one."""
    return tuple(sizes) * (rank if len(sizes) == 1 else 1)
