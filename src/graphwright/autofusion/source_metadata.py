"""Copies what a source model declares about itself to the model that is written for it."""

from __future__ import annotations

from collections.abc import Mapping

import onnx


def copy_metadata(source: onnx.ModelProto, written: onnx.ModelProto) -> None:
    """Copies names, texts and the version of ``source``, and its names of dynamic dimensions. Shapes are
    copied where ``written`` has none: engines report them, and onnx's checker requires those of inputs and
    outputs.
    """
    written.domain, written.doc_string = source.domain, source.doc_string
    if source.HasField("model_version"):
        written.model_version = source.model_version
    written.graph.name, written.graph.doc_string = source.graph.name, source.graph.doc_string
    declared = {info.name: _tensor(info.type) for info in (*source.graph.input, *source.graph.output)}
    _copy_shapes(declared, written.graph)
    _rename_dimensions(written.graph, _declared_names(written.graph, declared))


def _copy_shapes(declared: Mapping[str, onnx.TypeProto.Tensor], graph: onnx.GraphProto) -> None:
    """Copies the ``declared`` shapes, by value, to inputs and outputs of unknown rank."""
    for info in (*graph.input, *graph.output):
        tensor, source = _tensor(info.type), declared.get(info.name)
        if source is not None and source.HasField("shape") and not tensor.HasField("shape"):
            tensor.CopyFrom(source)


def _declared_names(
    graph: onnx.GraphProto, declared: Mapping[str, onnx.TypeProto.Tensor]
) -> Mapping[str, str]:
    """The names in the source of the dimensions of ``graph``. They differ where the source's name is
    not an identifier, and for data-dependent dimensions of outputs.
    """
    names: dict[str, str] = {}
    for info in (*graph.input, *graph.output):
        source = declared.get(info.name, onnx.TypeProto.Tensor())
        for dim, wanted in zip(_tensor(info.type).shape.dim, source.shape.dim, strict=False):
            is_free = dim.dim_param not in names and wanted.dim_param not in names.values()
            if is_free and wanted.dim_param and dim.dim_param.isidentifier():
                names[dim.dim_param] = wanted.dim_param
    return names


def _rename_dimensions(graph: onnx.GraphProto, names: Mapping[str, str]) -> None:
    for info in (*graph.input, *graph.output, *graph.value_info):
        for dim in _tensor(info.type).shape.dim:
            if dim.dim_param in names:
                dim.dim_param = names[dim.dim_param]


def _tensor(type: onnx.TypeProto) -> onnx.TypeProto.Tensor:
    """The type of a tensor, or of the tensors of a sequence or an optional; an empty one for others."""
    match type.WhichOneof("value"):
        case "sequence_type":
            return _tensor(type.sequence_type.elem_type)
        case "optional_type":
            return _tensor(type.optional_type.elem_type)
        case _:
            return type.tensor_type
