"""Compares the types that a graph declares for its outputs with those of the nodes that compute them."""

from __future__ import annotations

import onnx

from graphwright import log
from graphwright.frontends.onnx.calls import location_of
from graphwright.frontends.onnx.faults import Fault, Report
from graphwright.frontends.onnx.scope import Scope
from graphwright.frontends.onnx.types import dtype_of_proto, onnx_type_text, shape_text
from graphwright.ir.graph import Value
from graphwright.ir.types import TensorType


def check_outputs(graph: onnx.GraphProto, scope: Scope, report: Report) -> None:
    """Reports each output whose declared element type is not that of its value. Another shape of an output of
    the model is a warning: results are right nevertheless, as exporters often declare that of the example.
    """
    nodes = {name: node for node in graph.node for name in node.output if name}
    for info in graph.output:
        value = scope.values.get(info.name)
        if info.name not in nodes or not isinstance(value, Value):
            continue
        where = location_of(nodes[info.name], scope)
        fault = _other_dtype(info, value.type)
        if fault is not None:
            report.add(fault, where)
        elif scope.outer is None and _other_shape(info.type.tensor_type, value.type):
            message = f"{where}: output {info.name!r} is declared as {shape_text(info)}, but is {value.type}"
            log.warn("%s; its declared shape is ignored", message)


def _other_dtype(info: onnx.ValueInfoProto, type: TensorType) -> Fault | None:
    """The fault of an output with another element type. Optionals are left to the ops that unpack them."""
    try:
        declared = dtype_of_proto(info.type)
    except Fault:  # incomplete, which the specification allows inside subgraphs
        return None
    if declared == type.dtype or "optional" in (declared.kind, type.dtype.kind):
        return None
    message = (
        f"output {info.name!r} is declared as {onnx_type_text(declared)}, "
        f"but the node computes {onnx_type_text(type.dtype)}"
    )
    return Fault("dtype", message, "declare that type, or add a Cast")


def _other_shape(declared: onnx.TypeProto.Tensor, type: TensorType) -> bool:
    """Whether the declared shape contradicts that of ``type`` for all sizes of inputs."""
    if type.shape is None or not declared.HasField("shape"):
        return False
    if len(declared.shape.dim) != len(type.shape):
        return True
    pairs = zip(declared.shape.dim, type.shape, strict=True)
    return any(isinstance(size, int) and 0 < dim.dim_value != size for dim, size in pairs)
