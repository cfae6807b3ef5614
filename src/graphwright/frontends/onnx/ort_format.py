"""Reads models in ONNX Runtime's own format (.ort) as ONNX models.

The format is a FlatBuffer of the schema onnxruntime/core/flatbuffers/schema/ort.fbs (MIT license). Its
tables are those of ONNX's messages; numbers of types and of attributes are the same. What ONNX Runtime
precomputed in it is ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx

from graphwright.frontends.onnx.flatbuffer import Buffer, DamagedError, Table
from graphwright.frontends.onnx.unparsed_weights import LARGE

__all__ = ["DamagedError", "is_ort_format", "model_of"]

_IDENTIFIER = b"ORTM"
A = onnx.AttributeProto


def is_ort_format(head: bytes) -> bool:
    """Whether a file that begins with ``head`` is in the ORT format. It begins with a small number; an ONNX
    model, which may have the identifier in a name, does not.
    """
    return head[2:8] == bytes(2) + _IDENTIFIER


def model_of(data: memoryview) -> tuple[onnx.ModelProto, Mapping[str, memoryview]]:
    """The model without the raw data of large initializers, and that data by name. Raises DamagedError."""
    weights: dict[str, memoryview] = {}
    source = Buffer(data).root().table(1)
    graph = None if source is None else source.table(7)
    if source is None or graph is None:
        raise DamagedError("the graph is missing")
    model = onnx.ModelProto(ir_version=source.int64(0), model_version=source.int64(5))
    model.producer_name, model.producer_version = _text(source.data(2)), _text(source.data(3))
    model.domain, model.doc_string = _text(source.data(4)), _text(source.data(6))
    for entry in source.tables(1):
        model.opset_import.add(domain=_text(entry.data(0)), version=entry.int64(1))
    for entry in source.tables(9):
        model.metadata_props.add(key=_text(entry.data(0)), value=_text(entry.data(1)))
    _read_graph(graph, model.graph, weights)
    model.graph.doc_string = _text(source.data(8))
    return model, weights


def _text(data: memoryview | bytes) -> str:
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError as error:
        raise DamagedError("a name is not UTF-8") from error


def _read_graph(source: Table, graph: onnx.GraphProto, weights: dict[str, memoryview] | None) -> None:
    """Read a graph, whose name the format omits. Raw data of large initializers is added to ``weights``, if
    given.
    """
    graph.name = "graph"
    types = {_text(info.data(0)): info.table(2) for info in source.tables(1)}
    for field, infos in ((5, graph.input), (6, graph.output)):
        for name in map(_text, source.strings(field)):
            entry = infos.add(name=name)
            declared = types.get(name)
            if declared is not None:
                _read_type(declared, entry.type)
    for tensor in source.tables(0):
        _read_tensor(tensor, graph.initializer.add(), weights)
    for sparse in source.tables(7):
        _read_sparse(sparse, graph.sparse_initializer.add())
    for node in source.tables(2):
        _read_node(node, graph.node.add())


def _read_node(source: Table, node: onnx.NodeProto) -> None:
    node.name, node.domain, node.op_type = (_text(source.data(field)) for field in (0, 2, 5))
    node.input.extend(map(_text, source.strings(8)))
    node.output.extend(map(_text, source.strings(9)))
    for attribute in source.tables(10):
        _read_attribute(attribute, node.attribute.add())


def _read_attribute(source: Table, attribute: onnx.AttributeProto) -> None:
    kind: Any = source.int32(2)
    attribute.name = _text(source.data(0))
    attribute.type = kind if kind in A.AttributeType.values() else A.UNDEFINED
    if kind == A.FLOAT:
        attribute.f = source.float32(3)
    elif kind == A.INT:
        attribute.i = source.int64(4)
    elif kind == A.STRING:
        attribute.s = bytes(source.data(5))
    elif kind == A.TENSOR and (tensor := source.table(6)) is not None:
        _read_tensor(tensor, attribute.t)
    elif kind == A.GRAPH and (graph := source.table(7)) is not None:
        _read_graph(graph, attribute.g, None)
    elif kind == A.FLOATS:
        attribute.floats.extend(source.float32s(8))
    elif kind == A.INTS:
        attribute.ints.extend(source.int64s(9))
    elif kind == A.STRINGS:
        attribute.strings.extend(source.strings(10))
    elif kind == A.TENSORS:
        for tensor in source.tables(11):
            _read_tensor(tensor, attribute.tensors.add())


def _read_tensor(
    source: Table, tensor: onnx.TensorProto, weights: dict[str, memoryview] | None = None
) -> None:
    tensor.name, tensor.data_type = _text(source.data(0)), source.int32(3)
    tensor.dims.extend(source.int64s(2))
    if tensor.data_type == onnx.TensorProto.STRING:
        tensor.string_data.extend(source.strings(5))
        return
    raw = source.data(4)
    if weights is None or len(raw) < LARGE or tensor.name in weights:
        tensor.raw_data = bytes(raw)
    else:
        tensor.raw_data = b""
        weights[tensor.name] = raw


def _read_sparse(source: Table, sparse: onnx.SparseTensorProto) -> None:
    for field, tensor in ((0, sparse.values), (1, sparse.indices)):
        dense = source.table(field)
        if dense is not None:
            _read_tensor(dense, tensor)
    sparse.dims.extend(source.int64s(2))


def _read_type(source: Table, proto: onnx.TypeProto) -> None:
    """A type is a tensor (1), a sequence (2) or a map (3)."""
    kind, value = source.int8(1), source.table(2)
    _denote(source.data(0), proto)
    if value is None:
        return
    if kind == 1:
        proto.tensor_type.elem_type = value.int32(0)
        shape = value.table(1)
        if shape is not None:
            proto.tensor_type.shape.SetInParent()
            for dim in shape.tables(0):
                _read_dim(dim, proto.tensor_type.shape.dim.add())
    elif kind == 2 and (element := value.table(0)) is not None:
        _read_type(element, proto.sequence_type.elem_type)
    elif kind == 3 and (element := value.table(1)) is not None:
        proto.map_type.key_type = value.int32(0)
        _read_type(element, proto.map_type.value_type)


def _read_dim(source: Table, dim: onnx.TensorShapeProto.Dimension) -> None:
    """The value of a dimension is unknown (0), a number (1) or a name (2)."""
    _denote(source.data(1), dim)
    value = source.table(0)
    if value is None:
        return
    kind = value.int8(0)
    if kind == 1:
        dim.dim_value = value.int64(1)
    elif kind == 2:
        dim.dim_param = _text(value.data(2))


def _denote(text: memoryview, proto: onnx.TypeProto | onnx.TensorShapeProto.Dimension) -> None:
    if text:
        proto.denotation = _text(text)
