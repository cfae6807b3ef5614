"""Element types, the NumPy types that represent them, and NumPy's limit of axes."""

from __future__ import annotations

import importlib
from functools import cache, cached_property
from typing import Any, Final

from graphwright.ir.arrays import Array, np
from graphwright.records import dataclass

MAX_RANK: Final = 64
"""The most axes of an array, which is NumPy's limit."""


@dataclass(frozen=True)
class DType:
    """An element type.

    ``kind`` is ``bool``, ``int``, ``uint``, ``float``, ``complex``, ``string``, ``sequence``, ``optional`` or
    ``map``; ``bits`` is 0 for strings and containers. A value of a container type has rank 0. In Python, a
    sequence of ``element`` is a list of arrays, an empty optional is None, and a map from ``key`` to
    ``element`` is a dict of Python numbers and strings.
    """

    name: str
    kind: str
    bits: int
    element: DType | None = None
    key: DType | None = None

    def __hash__(self) -> int:
        return hash(self.name)

    @cached_property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype of its arrays."""
        if self.name in _ML_DTYPES:
            dtype: np.dtype[Any] = np.dtype(
                getattr(importlib.import_module("ml_dtypes"), _ML_DTYPES[self.name])
            )
            return dtype
        return np.dtype(_NUMPY.get(self.name, object))

    @property
    def dtype(self) -> np.dtype[Any]:
        """The same as :attr:`numpy`. NumPy looks for this name, so that ``numpy.dtype(F32)`` works."""
        return self.numpy

    @property
    def bytes(self) -> int:
        """Bytes of one element in memory; sub-byte types take a whole byte."""
        return max(1, self.bits // 8)

    @property
    def computed(self) -> DType:
        """The type in which arithmetic is done: f32 for smaller floats, a byte for integers below 8 bits."""
        if self.kind == "float" and self.bits < F32.bits:
            return F32
        if self.is_integer and self.bits < U8.bits:
            return I8 if self.kind == "int" else U8
        return self

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        return self.kind in ("int", "uint")

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return self.name


_NUMPY = {
    "bool": "bool", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
    "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
    "f16": "float16", "f32": "float32", "f64": "float64", "c64": "complex64", "c128": "complex128",
}  # fmt: skip
"""The names of the types that NumPy has itself."""

_ML_DTYPES = {
    "bf16": "bfloat16", "i4": "int4", "u4": "uint4", "i2": "int2", "u2": "uint2",
    "f8e4m3fn": "float8_e4m3fn", "f8e4m3fnuz": "float8_e4m3fnuz", "f8e5m2": "float8_e5m2",
    "f8e5m2fnuz": "float8_e5m2fnuz", "f8e8m0": "float8_e8m0fnu", "f4e2m1": "float4_e2m1fn",
    "f6e2m3": "float6_e2m3fn", "f6e3m2": "float6_e3m2fn",
}  # fmt: skip
"""The names of types from the ml_dtypes package. It is imported at first use, as most models need none."""

BOOL = DType("bool", "bool", 8)
I8, I16, I32, I64 = (DType(f"i{bits}", "int", bits) for bits in (8, 16, 32, 64))
U8, U16, U32, U64 = (DType(f"u{bits}", "uint", bits) for bits in (8, 16, 32, 64))
F16, F32, F64 = (DType(f"f{bits}", "float", bits) for bits in (16, 32, 64))
BF16 = DType("bf16", "float", 16)
HALVES = frozenset({F16, BF16})
C64, C128 = DType("c64", "complex", 64), DType("c128", "complex", 128)
STRING = DType("string", "string", 0)

ONNX_NAMES = {
    "bool": "bool", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8",
    "u16": "uint16", "u32": "uint32", "u64": "uint64", "f16": "float16", "bf16": "bfloat16", "f32": "float",
    "f64": "double", "c64": "complex64", "c128": "complex128", "string": "string", "i4": "int4",
    "u4": "uint4", "i2": "int2", "u2": "uint2", "f8e4m3fn": "float8e4m3fn", "f8e4m3fnuz": "float8e4m3fnuz",
    "f8e5m2": "float8e5m2", "f8e5m2fnuz": "float8e5m2fnuz", "f8e8m0": "float8e8m0", "f4e2m1": "float4e2m1",
    "f6e2m3": "float6e2m3", "f6e3m2": "float6e3m2",
}  # fmt: skip
"""The names of the element types in ONNX, by graphwright's names."""

DTYPES: dict[str, DType] = {
    dtype.name: dtype
    for dtype in (
        BOOL, I8, I16, I32, I64, U8, U16, U32, U64, F16, BF16, F32, F64, C64, C128, STRING,
        DType("i4", "int", 4), DType("u4", "uint", 4), DType("i2", "int", 2), DType("u2", "uint", 2),
        DType("f8e4m3fn", "float", 8), DType("f8e4m3fnuz", "float", 8), DType("f8e5m2", "float", 8),
        DType("f8e5m2fnuz", "float", 8), DType("f8e8m0", "float", 8), DType("f4e2m1", "float", 4),
        DType("f6e2m3", "float", 6), DType("f6e3m2", "float", 6),
    )
}  # fmt: skip

CONTAINERS = {"seq": "sequence", "optional": "optional", "map": "map"}
"""The kind of each container type, by its name in texts such as ``optional(seq(f32))``."""


@cache
def sequence_of(element: DType) -> DType:
    """The type of a sequence of tensors of ``element``."""
    return DType(f"seq({element})", "sequence", 0, element)


@cache
def optional_of(element: DType) -> DType:
    """The type of an optional value of ``element``."""
    return DType(f"optional({element})", "optional", 0, element)


@cache
def map_of(key: DType, element: DType) -> DType:
    """The type of a map from ``key``, an integer or string type, to ``element``."""
    return DType(f"map({key}:{element})", "map", 0, element, key)


def dtype_named(name: str) -> DType:
    """The element type with this name. Raises KeyError if there is none."""
    if name in DTYPES:
        return DTYPES[name]
    container, _, rest = name.partition("(")
    if not rest.endswith(")"):
        raise KeyError(name)
    if container == "map":
        key, _, element = rest[:-1].partition(":")
        return map_of(DTYPES[key], DTYPES[element])
    return {"seq": sequence_of, "optional": optional_of}[container](dtype_named(rest[:-1]))


_BY_NUMPY_NAME = {theirs: DTYPES[ours] for ours, theirs in (_NUMPY | _ML_DTYPES).items()}


def dtype_of(array: Array) -> DType:
    """The element type of a NumPy array. All kinds of text arrays are strings.

    A list is a sequence, and a dict is a map. An empty list counts as a sequence of f32, and the float values
    of a dict count as f32, because Python does not tell which type they have.
    """
    if isinstance(array, list):
        return sequence_of(dtype_of(array[0]) if array else F32)
    if isinstance(array, dict):
        key, element = next(iter(array.items()), (0, 0.0))
        return map_of(_plain(key), _plain(element))
    return _dtype_of(array.dtype)


def _plain(value: object) -> DType:
    return STRING if isinstance(value, str) else I64 if isinstance(value, int) else F32


@cache
def _dtype_of(dtype: np.dtype[Any]) -> DType:
    if dtype.kind in "OSU":
        return STRING
    try:
        return _BY_NUMPY_NAME[dtype.name]
    except KeyError:
        raise TypeError(f"arrays of {dtype} are not supported") from None
