"""Functions that import functions of many ops share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op import Import, Importer, Op
from graphwright.ir.types import (
    DTYPES,
    DType,
)


def scalar(i: Importer, value: float, like: Value) -> Value:
    """The constant ``value``, a scalar in the dtype of ``like``."""
    return i.const(np.asarray(value, like.type.dtype.numpy))


def simple(factory: Callable[[], Op]) -> Import:
    """Imports as the op ``factory()`` on all inputs, in their order; attributes are ignored."""
    return lambda i: i.emit(factory(), *i.inputs())


def with_attributes(cls: type[Op]) -> Import:
    """Imports as ``cls`` on all inputs. Each field is the ONNX attribute of the same name, converted to the
    type of the field's default.
    """

    def convert(i: Importer) -> Any:
        values = {name: type(each)(i.attr(name, each)) for name, each in cls.attribute_defaults.items()}
        return i.emit(cls(**values), *i.inputs())

    return convert


def chain(i: Importer, op: Op) -> Value:
    """The binary ``op`` applied to all inputs from left to right: ``op(op(x0, x1), x2)``."""
    first, *rest = (i.input(index) for index in range(len(i.inputs())))
    for value in rest:
        first = i.emit(op, first, value)
    return first


_ONNX_DTYPES = (
    "", "f32", "u8", "i8", "u16", "i16", "i32", "i64", "string", "bool", "f16", "f64", "u32", "u64", "c64",
    "c128", "bf16", "f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz", "u4", "i4", "f4e2m1", "f8e8m0",
    "u2", "i2", "f6e2m3", "f6e3m2",
)  # fmt: skip
"""The names of dtypes, indexed by ONNX's ``TensorProto.DataType``."""


def dtype_attribute(i: Importer, value: Any) -> DType:
    """The dtype that an attribute denotes by ONNX's number, a name or a DType. Raises a diagnostic for
    others.
    """
    if isinstance(value, int) and 0 < value < len(_ONNX_DTYPES):
        value = _ONNX_DTYPES[value]
    name = str(value)
    if name not in DTYPES:
        raise i.fail(f"{name} is not a supported dtype", hint=f"supported are: {', '.join(DTYPES)}")
    return DTYPES[name]


def without_trailing_none(values: Sequence[Value | None]) -> tuple[Value | None, ...]:
    """``values`` without None at their end: absent optional operands at the end are left out."""
    count = max((k + 1 for k, value in enumerate(values) if value is not None), default=0)
    return tuple(values[:count])
