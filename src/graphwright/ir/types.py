"""The types of values (element type and shape), and layouts in memory."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from graphwright.ir.dtypes import BF16 as BF16
from graphwright.ir.dtypes import BOOL as BOOL
from graphwright.ir.dtypes import C64 as C64
from graphwright.ir.dtypes import C128 as C128
from graphwright.ir.dtypes import DTYPES as DTYPES
from graphwright.ir.dtypes import F16 as F16
from graphwright.ir.dtypes import F32 as F32
from graphwright.ir.dtypes import F64 as F64
from graphwright.ir.dtypes import HALVES as HALVES
from graphwright.ir.dtypes import I8 as I8
from graphwright.ir.dtypes import I16 as I16
from graphwright.ir.dtypes import I32 as I32
from graphwright.ir.dtypes import I64 as I64
from graphwright.ir.dtypes import MAX_RANK as MAX_RANK
from graphwright.ir.dtypes import STRING as STRING
from graphwright.ir.dtypes import U8 as U8
from graphwright.ir.dtypes import U16 as U16
from graphwright.ir.dtypes import U32 as U32
from graphwright.ir.dtypes import U64 as U64
from graphwright.ir.dtypes import DType as DType
from graphwright.ir.dtypes import dtype_named as dtype_named
from graphwright.ir.dtypes import dtype_of as dtype_of
from graphwright.ir.dtypes import map_of as map_of
from graphwright.ir.dtypes import optional_of as optional_of
from graphwright.ir.dtypes import sequence_of as sequence_of
from graphwright.ir.symbols import Dim, Expr, numbers, parse_dim, product
from graphwright.records import dataclass

Shape = tuple[Dim, ...]


class UnknownRank(TypeError):
    """A rank is needed, but unknown. Inference then gives every output of the op an unknown rank, or raises
    UnknownRankError if it does not know their dtypes; passes leave the node as it is.
    """

    def __init__(self) -> None:
        super().__init__("the rank is unknown")


@dataclass(frozen=True)
class TensorType:
    """Element type and shape; ``shape`` None is an unknown rank."""

    dtype: DType
    shape: Shape | None

    @property
    def rank(self) -> int | None:
        return None if self.shape is None else len(self.shape)

    @property
    def is_static(self) -> bool:
        """Whether every dimension is a number."""
        return self.shape is not None and Expr not in map(type, self.shape)

    @property
    def dims(self) -> Shape:
        """The shape. Raises UnknownRank if the rank is unknown."""
        if self.shape is None:
            raise UnknownRank
        return self.shape

    @property
    def sizes(self) -> tuple[int, ...]:
        """The shape as numbers. Raises TypeError if a size is symbolic, or the rank is unknown."""
        return numbers(self.dims)

    @property
    def elements(self) -> Dim:
        """Number of elements."""
        return product(self.dims)

    @property
    def bytes(self) -> Dim:
        """Bytes of a dense array of this type."""
        return self.elements * self.dtype.bytes

    def __str__(self) -> str:
        dims = "*" if self.shape is None else ", ".join(map(str, self.shape))
        return f"{self.dtype}[{dims}]"


def tensor(dtype: DType, *shape: Dim) -> TensorType:
    """A tensor type: ``tensor(F32, 1, 3, 224, 224)``."""
    return TensorType(dtype, shape)


def type_of(array: np.ndarray[Any, Any]) -> TensorType:
    """The type of a NumPy array, list or dict."""
    return TensorType(dtype_of(array), shape_of(array))


def shape_of(array: np.ndarray[Any, Any]) -> tuple[int, ...]:
    """The shape of a NumPy array; () for a list, a dict and None, which are values of container types."""
    return getattr(array, "shape", ())


def parse_type(text: str) -> TensorType:
    """Parses the result of ``str(type)``, such as ``f32[N, 3, 2*H]``; ``f32[*]`` has an unknown rank."""
    match = re.fullmatch(r"\s*([\w():]+)\[(.*)\]\s*", text, re.DOTALL)
    try:
        dtype = dtype_named(match[1] if match else "")
    except KeyError:
        message = f"{text!r} is not a type: expected a dtype and a shape such as f32[N, 3]"
        raise ValueError(message) from None
    assert match is not None
    dims = match[2].strip()
    if dims == "*":
        return TensorType(dtype, None)
    return TensorType(dtype, tuple(parse_dim(d) for d in _split_commas(dims)) if dims else ())


def _split_commas(text: str) -> list[str]:
    """Splits at commas outside parentheses."""
    parts, depth, start = [], 0, 0
    for i, character in enumerate(text):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    return [*parts, text[start:]]


@dataclass(frozen=True)
class Layout:
    """An arrangement of elements in memory: the order of axes, outermost first, and blocks.

    A block ``(axis, size)`` splits an axis into blocks of ``size``; the positions within a block become the
    innermost axis. Row-major NCHW is ``Layout((0, 1, 2, 3))``; NC16HW is ``Layout((0, 1, 2, 3), ((1,
    16),))``; a GEMM's B[K, N] in panels of 32 columns is ``Layout((1, 0), ((1, 32),))``. Lanes that pad an
    axis up to its block are undefined unless ``zero_padded``.
    """

    order: tuple[int, ...]
    blocks: tuple[tuple[int, int], ...] = ()
    zero_padded: bool = False

    def physical_shape(self, shape: Shape) -> Shape:
        """The shape of the dense array that holds a value of ``shape`` in this layout."""
        sizes = list(shape)
        for axis, size in self.blocks:
            sizes[axis] = (sizes[axis] + (size - 1)) // size
        return (*(sizes[axis] for axis in self.order), *(size for _, size in self.blocks))

    def __str__(self) -> str:
        blocks = "".join(f", {axis}/{size}" for axis, size in self.blocks)
        return f"layout({' '.join(map(str, self.order))}{blocks}{', zero' if self.zero_padded else ''})"
