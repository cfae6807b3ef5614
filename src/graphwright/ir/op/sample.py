"""Samples of an op: nodes that must work on every device, or be rejected. Tests are generated from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from graphwright.ir.symbols import Dim
from graphwright.ir.types import DType, TensorType
from graphwright.records import dataclass

if TYPE_CHECKING:
    from graphwright.ir.op.contract import Op


@dataclass(frozen=True)
class Arg:
    """One input of a sample: its type and how to fill it (see :func:`arg`)."""

    type: TensorType
    fill: str = "normal"
    values: tuple[Any, ...] | None = None


def arg(dtype: DType, *shape: Dim, fill: str = "normal", values: Sequence[Any] | None = None) -> Arg:
    """A sample input. ``fill`` is ``normal``, ``positive``, ``unit`` (in (-1, 1)), ``index`` (small ints >=
    0) or ``mask``.
    """
    return Arg(TensorType(dtype, shape), fill, None if values is None else tuple(values))


@dataclass(frozen=True)
class Sample:
    """A node that must work on every device, or, with ``error``, must be rejected with a message that
    contains that text.
    """

    op: Op
    inputs: tuple[Arg | None, ...]
    error: str = ""
