"""Converts attributes and tensors of ops to ONNX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx

from graphwright.frontends.onnx.dtypes import onnx_number
from graphwright.frontends.onnx.packed_codes import regrouped
from graphwright.ir.op import Array
from graphwright.ir.op.exporter import CannotExport
from graphwright.ir.symbols import Expr
from graphwright.ir.types import STRING, DType, dtype_of

A = onnx.AttributeProto


def attribute_proto(name: str, value: Any) -> onnx.AttributeProto:
    """``value`` as an ONNX attribute. Raises CannotExport if it contains an unknown size."""
    attribute = onnx.AttributeProto(name=name)
    match value:
        case onnx.GraphProto():
            attribute.type = A.GRAPH
            attribute.g.CopyFrom(value)
        case np.ndarray():
            attribute.type = A.TENSOR
            attribute.t.CopyFrom(tensor_proto(value))
        case DType():
            attribute.type, attribute.i = A.INT, onnx_number(value)
        case tuple() | list():
            _fill_list(attribute, value)
        case str():
            attribute.type, attribute.s = A.STRING, value.encode()
        case float():
            attribute.type, attribute.f = A.FLOAT, value
        case int():
            attribute.type, attribute.i = A.INT, int(value)
        case _:
            raise CannotExport(f"the attribute {name} is {value}, which is not known before a run")
    return attribute


def _fill_list(attribute: onnx.AttributeProto, values: Sequence[Any]) -> None:
    if any(isinstance(value, Expr) for value in values):
        listed = ", ".join(map(str, values))
        raise CannotExport(f"the attribute {attribute.name} is ({listed}), which is not known before a run")
    if all(isinstance(value, str) for value in values):
        attribute.type = A.STRINGS
        attribute.strings.extend(value.encode() for value in values)
    elif all(isinstance(value, int) for value in values):
        attribute.type = A.INTS
        attribute.ints.extend(map(int, values))
    else:
        attribute.type = A.FLOATS
        attribute.floats.extend(map(float, values))


def tensor_proto(array: Array, name: str = "") -> onnx.TensorProto:
    """``array`` as an ONNX tensor with its elements."""
    tensor = tensor_header(array, name)
    if dtype_of(array) == STRING:
        tensor.string_data.extend(str(value).encode() for value in array.ravel())
    else:
        tensor.raw_data = raw_bytes(array)
    return tensor


def tensor_header(array: Array, name: str) -> onnx.TensorProto:
    """``array`` as an ONNX tensor without its elements."""
    return onnx.TensorProto(name=name, data_type=onnx_number(dtype_of(array)), dims=array.shape)


def raw_bytes(array: Array) -> bytes:
    """The elements in ONNX's raw format: little-endian, with elements of less than a byte packed."""
    bits = dtype_of(array).bits
    if bits >= 8:
        return np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
    codes = np.ascontiguousarray(array).view(np.uint8).ravel() & ((1 << bits) - 1)
    return bytes(regrouped(codes, bits, 8)[: raw_size(array)].tobytes())


def raw_size(array: Array) -> int:
    """The length of :func:`raw_bytes`."""
    return -(-array.size * dtype_of(array).bits // 8) if dtype_of(array).bits < 8 else int(array.nbytes)
