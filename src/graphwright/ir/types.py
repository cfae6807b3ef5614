"""What a value is: element type and shape; and how it lies in memory: its layout."""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from graphwright.ir.symbols import Dim, Expr, parse_dim, product


@dataclass(frozen=True)
class DType:
    """An element type. ``kind``: ``bool int uint float complex string``; ``bits`` is 0 for strings."""

    name: str
    kind: str
    bits: int

    @cached_property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy type that holds it."""
        if self.name in _ML_DTYPES:
            made: np.dtype[Any] = np.dtype(
                getattr(importlib.import_module("ml_dtypes"), _ML_DTYPES[self.name])
            )
            return made
        return np.dtype(_NUMPY.get(self.name, object))

    @property
    def bytes(self) -> int:
        """Bytes of one element in memory; sub-byte types take a whole byte."""
        return max(1, self.bits // 8)

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        return self.kind in ("int", "uint")

    def __str__(self) -> str:
        return self.name


_NUMPY = {
    "bool": "bool", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
    "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
    "f16": "float16", "f32": "float32", "f64": "float64", "c64": "complex64", "c128": "complex128",
}  # fmt: skip
"""NumPy's own types, by the names that it has for them."""

_ML_DTYPES = {
    "bf16": "bfloat16", "i4": "int4", "u4": "uint4", "i2": "int2", "u2": "uint2",
    "f8e4m3fn": "float8_e4m3fn", "f8e4m3fnuz": "float8_e4m3fnuz", "f8e5m2": "float8_e5m2",
    "f8e5m2fnuz": "float8_e5m2fnuz", "f8e8m0": "float8_e8m0fnu", "f4e2m1": "float4_e2m1fn",
}  # fmt: skip
"""Types of the ml_dtypes package, which is imported when one of them is met: most models need none."""

BOOL = DType("bool", "bool", 8)
I8, I16, I32, I64 = (DType(f"i{bits}", "int", bits) for bits in (8, 16, 32, 64))
U8, U16, U32, U64 = (DType(f"u{bits}", "uint", bits) for bits in (8, 16, 32, 64))
F16, F32, F64 = (DType(f"f{bits}", "float", bits) for bits in (16, 32, 64))
BF16 = DType("bf16", "float", 16)
C64, C128 = DType("c64", "complex", 64), DType("c128", "complex", 128)
STRING = DType("string", "string", 0)

DTYPES: dict[str, DType] = {
    dtype.name: dtype
    for dtype in (
        BOOL, I8, I16, I32, I64, U8, U16, U32, U64, F16, BF16, F32, F64, C64, C128, STRING,
        DType("i4", "int", 4), DType("u4", "uint", 4), DType("i2", "int", 2), DType("u2", "uint", 2),
        DType("f8e4m3fn", "float", 8), DType("f8e4m3fnuz", "float", 8), DType("f8e5m2", "float", 8),
        DType("f8e5m2fnuz", "float", 8), DType("f8e8m0", "float", 8), DType("f4e2m1", "float", 4),
    )
}  # fmt: skip

_BY_NUMPY_NAME = {theirs: DTYPES[ours] for ours, theirs in (_NUMPY | _ML_DTYPES).items()}


def dtype_of(array: np.ndarray[Any, Any]) -> DType:
    """The element type of a NumPy array; text arrays of any kind are strings."""
    if array.dtype.kind in "OSU":
        return STRING
    try:
        return _BY_NUMPY_NAME[array.dtype.name]
    except KeyError:
        raise TypeError(f"arrays of {array.dtype} are not supported") from None


Shape = tuple[Dim, ...]


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
        return self.shape is not None and not any(isinstance(d, Expr) for d in self.shape)

    @property
    def dims(self) -> Shape:
        """The shape; raises TypeError where the rank is unknown."""
        if self.shape is None:
            raise TypeError("the rank is unknown")
        return self.shape

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
    """``tensor(F32, 1, 3, 224, 224)``."""
    return TensorType(dtype, shape)


def type_of(array: np.ndarray[Any, Any]) -> TensorType:
    """The type of a NumPy array."""
    return TensorType(dtype_of(array), array.shape)


def parse_type(text: str) -> TensorType:
    """Read what ``str(type)`` wrote: ``parse_type("f32[N, 3, 2*H]")``; ``f32[*]`` has an unknown rank."""
    match = re.fullmatch(r"\s*(\w+)\[(.*)\]\s*", text, re.DOTALL)
    if not match or match[1] not in DTYPES:
        raise ValueError(f"{text!r} is not a type: expected a dtype and a shape such as f32[N, 3]")
    dtype, dims = DTYPES[match[1]], match[2].strip()
    if dims == "*":
        return TensorType(dtype, None)
    return TensorType(dtype, tuple(parse_dim(d) for d in _split_commas(dims)) if dims else ())


def _split_commas(text: str) -> list[str]:
    """Split at commas outside parentheses."""
    parts, depth, start = [], 0, 0
    for i, character in enumerate(text):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    return [*parts, text[start:]]


@dataclass(frozen=True)
class Layout:
    """Order of axes in memory, outermost first, then blocks: ``(axis, size)`` splits an axis and puts the
    parts inmost.

    Row-major NCHW is ``Layout((0, 1, 2, 3))``; NC16HW is ``Layout((0, 1, 2, 3), ((1, 16),))``; a GEMM's B[K,
    N] in panels of 32 columns is ``Layout((1, 0), ((1, 32),))``. Lanes that pad an axis up to its block are
    undefined unless ``zero_padded``.
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


def row_major(rank: int) -> Layout:
    """The layout of a C-contiguous array."""
    return Layout(tuple(range(rank)))
