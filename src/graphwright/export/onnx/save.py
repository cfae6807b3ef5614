"""Models of ONNX as files, with weights inside or beside them."""

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
from graphwright.support.whole_file import whole_file

ROOM: Final = (1 << 31) - (1 << 27)
"""Bytes of weights that fit into one file of protobuf, beside the graph."""
INSIDE: Final = 1024
"""Bytes up to which a constant stays in the model where weights are beside it: engines read it for shapes."""
ALIGNMENT: Final = 4096
_GRAPH: Final = onnx.ModelProto.DESCRIPTOR.fields_by_name["graph"].number
_INITIALIZER: Final = onnx.GraphProto.DESCRIPTOR.fields_by_name["initializer"].number
_RAW_DATA: Final = onnx.TensorProto.DESCRIPTOR.fields_by_name["raw_data"].number


def save_model(model: OnnxModel, path: Path, *, external: bool = False) -> list[Path]:
    """Write ``model`` to ``path``, whole or not at all; the files that were written.

    Weights lie in ``path`` with ``.data`` added where they have no room in a model, or if ``external``.
    Raises OSError, which names the file.
    """
    if not external and model.weight_bytes <= ROOM:
        with whole_file(path) as file:
            for part in _wire(model):
                file.write(part)
        return [path]
    beside = path.with_name(f"{path.name}.data")
    made = onnx.ModelProto()
    made.CopyFrom(model.proto)
    with ExitStack() as stack:
        main, data = (stack.enter_context(whole_file(each)) for each in (path, beside))
        end = 0
        for tensor in made.graph.initializer:
            array = model.weights[tensor.name]
            if array.nbytes <= INSIDE or dtype_of(array) == STRING:
                tensor.CopyFrom(tensor_proto(array, tensor.name))
                continue
            content, start = raw_bytes(array), -(-end // ALIGNMENT) * ALIGNMENT
            data.write(bytes(start - end))
            data.write(content)
            end = start + len(content)
            tensor.CopyFrom(tensor_header(array, tensor.name))
            tensor.data_location = onnx.TensorProto.EXTERNAL
            _locate(tensor, [("location", beside.name), ("offset", start), ("length", len(content))])
        main.write(made.SerializeToString(deterministic=True))
    return [path, beside]


def _wire(model: OnnxModel) -> Iterator[bytes]:
    """The bytes of the model with its weights inside, one weight at a time: two copies of all of them would
    take more memory than running the model. Fields of a message may come in any order.
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
    total = len(inner) + sum(size + len(_field(_INITIALIZER, size)) for size in sizes)
    yield bare.SerializeToString(deterministic=True)
    yield _field(_GRAPH, total)
    yield inner
    for name, size in zip(names, sizes, strict=True):
        array = model.weights[name]
        yield _field(_INITIALIZER, size)
        if dtype_of(array) == STRING:
            yield tensor_proto(array, name).SerializeToString(deterministic=True)
            continue
        content = raw_bytes(array)
        yield tensor_header(array, name).SerializeToString(deterministic=True)
        yield _field(_RAW_DATA, len(content))
        yield content


def _tensor_size(array: Array, name: str) -> int:
    """Bytes of a TensorProto on the wire."""
    if dtype_of(array) == STRING:
        return int(tensor_proto(array, name).ByteSize())
    content = raw_size(array)
    return int(tensor_header(array, name).ByteSize()) + len(_field(_RAW_DATA, content)) + content


def _field(number: int, size: int) -> bytes:
    """What stands before ``size`` bytes of a field."""
    return _varint(number << 3 | 2) + _varint(size)


def _varint(value: int) -> bytes:
    """Seven bits a byte, the lowest first; the eighth says that more follow."""
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    made.append(value)
    return bytes(made)


def _locate(tensor: onnx.TensorProto, entries: Sequence[tuple[str, object]]) -> None:
    for key, value in entries:
        tensor.external_data.add(key=key, value=str(value))
