"""Reads files with one ONNX value, such as test data: a tensor, sequence, optional or map."""

from __future__ import annotations

from typing import Any

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # protobuf ships no stubs

from graphwright.errors import Diagnostic, FeedError
from graphwright.frontends.onnx.faults import Fault
from graphwright.frontends.onnx.model_files import ModelFiles
from graphwright.frontends.onnx.tensors import to_array
from graphwright.ir.types import STRING, DType
from graphwright.support.escaping import terminal

_MESSAGES: dict[str, type[Any]] = {
    "sequence": onnx.SequenceProto,
    "optional": onnx.OptionalProto,
    "map": onnx.MapProto,
}
"""The message type of each dtype kind; other kinds are tensors."""


def read_value(data: bytes, dtype: DType, where: str) -> Any:
    """The value of type ``dtype`` in ``data``: an array, a list, a dict, or None for an empty optional.
    Raises FeedError with the location ``where``.
    """
    proto = _MESSAGES.get(dtype.kind, onnx.TensorProto)()
    try:
        proto.ParseFromString(data)
        return _value(proto, dtype)
    except Fault as fault:
        raise FeedError(fault.at(where)) from fault
    except (DecodeError, ValueError, IndexError) as error:
        message = f"is not a {dtype} in ONNX format: {terminal(str(error))}"
        raise FeedError(Diagnostic("array-file", message, where)) from error


def _value(proto: Any, dtype: DType) -> Any:
    if dtype.element is None:
        return to_array(proto, ModelFiles(None))
    if dtype.key is not None:
        keys = proto.string_keys if dtype.key == STRING else proto.keys
        values = (to_array(tensor, ModelFiles(None)) for tensor in proto.values.tensor_values)
        held = (array.item() for array in values)
        return {_key(key): value for key, value in zip(keys, held, strict=True)}
    kind = dtype.element.kind if dtype.element.kind in _MESSAGES else "tensor"
    if dtype.kind == "sequence":
        return [_value(item, dtype.element) for item in getattr(proto, f"{kind}_values")]
    return _value(getattr(proto, f"{kind}_value"), dtype.element) if proto.elem_type else None


def _key(key: int | bytes) -> int | str:
    return key.decode() if isinstance(key, bytes) else int(key)
