"""Writes ONNX models to files, with the weights inside or in a separate file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import onnx

from graphwright.export.onnx.attributes import raw_bytes, raw_size, tensor_header, tensor_proto
from graphwright.export.onnx.model import OnnxModel
from graphwright.ir.op import Array
from graphwright.ir.types import STRING, dtype_of
from graphwright.support.protobuf import field_header
from graphwright.support.whole_file import whole_file

ROOM: Final = (1 << 31) - (1 << 27)
"""The most bytes of weights that fit in one protobuf file together with the graph."""
INSIDE: Final = 1024
"""The largest constant, in bytes, that stays in the model if weights are external: engines need it for
shapes.
"""
ALIGNMENT: Final = 4096
_GRAPH: Final = onnx.ModelProto.DESCRIPTOR.fields_by_name["graph"].number
_INITIALIZER: Final = onnx.GraphProto.DESCRIPTOR.fields_by_name["initializer"].number
_RAW_DATA: Final = onnx.TensorProto.DESCRIPTOR.fields_by_name["raw_data"].number


def save_model(model: OnnxModel, path: Path, *, external: bool = False) -> list[Path]:
    """Writes ``model`` to ``path`` atomically, and returns the written files.

    Weights go to a separate file, ``path`` with ``.data`` appended, if they are too large for the model or if
    ``external``; small ones stay in the model. Raises OSError, which names the file.
    """
    with ExitStack() as stack:
        return stage_model(stack, model, path, external=external)


def stage_model(stack: ExitStack, model: OnnxModel, path: Path, *, external: bool) -> list[Path]:
    """As :func:`save_model`, but the files are moved to their paths when ``stack`` ends."""
    if model.weight_bytes <= ROOM and not (external and any(map(_is_outside, model.weights.values()))):
        file = stack.enter_context(whole_file(path))
        file.writelines(_wire(model))
        file.flush()
        return [path]
    weights_path = path.with_name(f"{path.name}.data")
    proto = onnx.ModelProto()
    proto.CopyFrom(model.proto)
    main, data = (stack.enter_context(whole_file(each)) for each in (path, weights_path))
    end = 0
    for tensor in proto.graph.initializer:
        array = model.weights[tensor.name]
        if not _is_outside(array):
            tensor.CopyFrom(tensor_proto(array, tensor.name))
            continue
        content, start = raw_bytes(array), -(-end // ALIGNMENT) * ALIGNMENT
        data.write(bytes(start - end))
        data.write(content)
        end = start + len(content)
        tensor.CopyFrom(tensor_header(array, tensor.name))
        tensor.data_location = onnx.TensorProto.EXTERNAL
        _locate(tensor, [("location", weights_path.name), ("offset", start), ("length", len(content))])
    main.write(proto.SerializeToString(deterministic=True))
    main.flush()
    data.flush()
    return [path, weights_path]


def _is_outside(array: Array) -> bool:
    """Whether ``array`` goes to the separate file, if there is one."""
    return array.nbytes > INSIDE and dtype_of(array) != STRING


def _wire(model: OnnxModel) -> Iterator[bytes]:
    """The serialized model with its weights, one weight at a time: two copies of all weights would need more
    memory than running the model. Fields of a protobuf message may have any order.
    """
    bare = onnx.ModelProto()
    bare.CopyFrom(model.proto)
    bare.ClearField("graph")
    graph = onnx.GraphProto()
    graph.CopyFrom(model.proto.graph)
    graph.ClearField("initializer")
    inner = graph.SerializeToString(deterministic=True)
    names = [tensor.name for tensor in model.proto.graph.initializer]
    sizes = [_tensor_size(model.weights[name], name) for name in names]
    total = len(inner) + sum(size + len(field_header(_INITIALIZER, size)) for size in sizes)
    yield bare.SerializeToString(deterministic=True)
    yield field_header(_GRAPH, total)
    yield inner
    for name, size in zip(names, sizes, strict=True):
        array = model.weights[name]
        yield field_header(_INITIALIZER, size)
        if dtype_of(array) == STRING:
            yield tensor_proto(array, name).SerializeToString(deterministic=True)
            continue
        content = raw_bytes(array)
        yield tensor_header(array, name).SerializeToString(deterministic=True)
        yield field_header(_RAW_DATA, len(content))
        yield content


def _tensor_size(array: Array, name: str) -> int:
    """The serialized size of a TensorProto in bytes."""
    if dtype_of(array) == STRING:
        return int(tensor_proto(array, name).ByteSize())
    content = raw_size(array)
    return int(tensor_header(array, name).ByteSize()) + len(field_header(_RAW_DATA, content)) + content


def _locate(tensor: onnx.TensorProto, entries: Sequence[tuple[str, object]]) -> None:
    for key, value in entries:
        tensor.external_data.add(key=key, value=str(value))
