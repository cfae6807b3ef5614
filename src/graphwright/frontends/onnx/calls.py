"""Calls of functions: of the model, and of the specification's definitions of ops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import onnx
from onnx import defs

from graphwright.frontends.onnx.catalog import Key, node_name
from graphwright.frontends.onnx.faults import Fault, text
from graphwright.frontends.onnx.opsets import opset_versions, schema_function
from graphwright.frontends.onnx.scope import Attribute, Frame, Scope
from graphwright.frontends.onnx.types import type_proto
from graphwright.ir.graph import Value
from graphwright.records import dataclass


@dataclass(frozen=True)
class Call:
    """A call of a function. ``source``: the source node of all nodes in the body, if the body is that of the
    specification.
    """

    function: onnx.FunctionProto
    key: Key
    node: onnx.NodeProto
    inputs: Sequence[Value | None]
    attributes: Mapping[str, Attribute]
    source: str = ""


def location_of(node: onnx.NodeProto, scope: Scope) -> str:
    """The path of function calls to ``node``, and its name."""
    return scope.frame.trail + node_name(node)


def frame_of(call: Call, scope: Scope) -> Frame:
    """The frame for the body of a function. Raises Fault if the call is recursive."""
    function, key, calls = call.function, call.key, scope.frame.calls
    if key in calls:
        chain = " -> ".join(name for _, name, _ in (*calls[calls.index(key) :], key))
        message = f"functions call each other recursively: {chain}"
        raise Fault("recursion", message, "unroll the recursion")
    opsets = opset_versions((text(o.domain), o.version) for o in function.opset_import)
    if call.source:  # bodies of the specification omit opsets that the model imports
        opsets = {**scope.frame.opsets, **opsets}
    attributes = {text(a.name): Attribute(a, scope) for a in function.attribute_proto}
    attributes.update(call.attributes)
    trail, source = f"{location_of(call.node, scope)}/", scope.frame.source or call.source
    return Frame(opsets or scope.frame.opsets, attributes, (*calls, key), trail, source)


def attributes_of(node: onnx.NodeProto, scope: Scope) -> dict[str, Attribute]:
    """The attributes by name. A reference to an attribute of the function becomes the attribute of the
    call.
    """
    return {attribute.proto.name: attribute for attribute in _resolved(node, scope)}


def _resolved(node: onnx.NodeProto, scope: Scope) -> Iterator[Attribute]:
    seen: set[str] = set()
    for proto in node.attribute:
        name, reference = text(proto.name), text(proto.ref_attr_name)
        if name in seen:
            raise Fault("attribute", f"attribute {name!r} is given twice", "keep one of them")
        seen.add(name)
        if not reference:
            yield Attribute(proto, scope)
        elif reference in scope.frame.attributes:
            given = scope.frame.attributes[reference]
            renamed = onnx.AttributeProto()
            renamed.CopyFrom(given.proto)
            renamed.name = name
            yield Attribute(renamed, given.scope)


def require_sizes(node: onnx.NodeProto, inputs: Sequence[Value | None]) -> None:
    """Raises Fault if the rank or a size of an operand is unknown, as function bodies can depend on them."""
    hint, dynamic = "give the shapes of the inputs with shapes=", []
    for name, value in zip(node.input, inputs, strict=False):
        if value is not None and value.type.shape is None:
            message = f"{node.op_type}: the rank of {text(name)!r} is not known"
            raise Fault("unknown-rank", message, hint)
        if value is not None and not value.type.is_static:
            dynamic.append(f"{text(name)}: {value.type}")
    if dynamic:
        message = f"{node.op_type} depends on sizes that are dynamic: {', '.join(dynamic)}"
        raise Fault("dynamic-size", message, hint)


def body_of(
    schema: defs.OpSchema,
    node: onnx.NodeProto,
    inputs: Sequence[Value | None],
    attributes: Mapping[str, Attribute],
    version: int,
) -> onnx.FunctionProto | None:
    """The function body in the specification for these operands; None if there is none."""
    outputs = [name or f"unused {k}" for k, name in enumerate(node.output)]  # some bodies cannot omit one
    resolved = onnx.NodeProto(op_type=node.op_type, domain=node.domain, input=node.input, output=outputs)
    resolved.attribute.extend(a.proto for a in attributes.values())
    types = [type_proto(v.type) if v is not None else onnx.TypeProto() for v in inputs]
    return schema_function(schema, resolved, types, version)
