"""Attributes of ONNX nodes as Python values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import onnx
from onnx import defs

from graphwright.frontends.onnx.faults import Fault, text
from graphwright.frontends.onnx.model_files import ModelFiles
from graphwright.frontends.onnx.tensors import sparse_to_array, to_array
from graphwright.frontends.onnx.types import dtype_of_proto

A = onnx.AttributeProto
_PLAIN: dict[int, Callable[[onnx.AttributeProto], Any]] = {
    A.FLOAT: lambda a: float(a.f),
    A.INT: lambda a: int(a.i),
    A.STRING: lambda a: _utf8(a.s),
    A.FLOATS: lambda a: tuple(a.floats),
    A.INTS: lambda a: tuple(a.ints),
    A.STRINGS: lambda a: tuple(map(_utf8, a.strings)),
}


def type_name(kind: int) -> str:
    """The name of an attribute type, such as ``INTS``."""
    names: dict[int, str] = {number: name for name, number in A.AttributeType.items()}
    return names.get(kind, f"type {kind}")


def value_of(attribute: onnx.AttributeProto, files: ModelFiles) -> Any:
    """The value: an int, float, str, tuple of these, array, tuple of arrays, or DType (for a type
    attribute).
    """
    kind = attribute.type
    if kind in _PLAIN:
        return _PLAIN[kind](attribute)
    if kind == A.TENSOR:
        return to_array(attribute.t, files)
    if kind == A.TENSORS:
        return tuple(to_array(tensor, files) for tensor in attribute.tensors)
    if kind == A.SPARSE_TENSOR:
        return sparse_to_array(attribute.sparse_tensor, files)
    if kind == A.TYPE_PROTO:
        return dtype_of_proto(attribute.tp)
    name = text(attribute.name)
    raise Fault("attribute", f"attribute {name!r} has type {type_name(kind)}, which is not supported")


def check_attributes(given: Mapping[str, onnx.AttributeProto], schema: defs.OpSchema) -> None:
    """Raises Fault for unknown attributes, attributes of the wrong type, and missing required attributes."""
    call, known = _attribute_rules(schema)
    for name, attribute in given.items():
        if name not in known:
            listed = ", ".join(sorted(known)) or "none"
            raise Fault("attribute", f"{call} has no attribute {name!r}", f"its attributes are: {listed}")
        wanted = known[name][0]
        if attribute.type != wanted:
            message = (
                f"attribute {name!r} has type {type_name(attribute.type)} instead of {type_name(wanted)}"
            )
            raise Fault("attribute", message, "export the model again")
    for name, (_, is_required) in known.items():
        if is_required and name not in given:
            raise Fault("attribute", f"attribute {name!r} is missing", "export the model again")


@cache
def _attribute_rules(schema: defs.OpSchema) -> tuple[str, dict[str, tuple[int, bool]]]:
    """The name of ``schema``, and for each attribute its type and whether it is required."""
    known: Any = schema.attributes  # onnx's stubs do not say that types are enums
    rules = {name: (declared.type.value, declared.required) for name, declared in known.items()}
    return f"{schema.name}-{schema.since_version}", rules


def _utf8(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise Fault("text", f"a string attribute is not UTF-8: {error}") from error
