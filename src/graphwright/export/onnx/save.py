"""Models of ONNX as files, with weights inside or beside them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import onnx

from graphwright.export.onnx.attributes import raw_bytes, tensor_header, tensor_proto
from graphwright.export.onnx.writer import OnnxModel
from graphwright.ir.types import STRING, dtype_of
from graphwright.whole_file import whole_file

ROOM: Final = (1 << 31) - (1 << 27)
"""Bytes of weights that fit into one file of protobuf, beside the graph."""
INSIDE: Final = 1024
"""Bytes up to which a constant stays in the model where weights are beside it: engines read it for shapes."""
ALIGNMENT: Final = 4096


def save_model(model: OnnxModel, path: Path, *, external: bool = False) -> list[Path]:
    """Write ``model`` to ``path``, whole or not at all; the files that were written.

    Weights lie in ``path`` with ``.data`` added where they have no room in a model, or if ``external``.
    Raises OSError, which names the file.
    """
    if not external and model.weight_bytes <= ROOM:
        with whole_file(path) as file:
            file.write(model.with_weights().SerializeToString(deterministic=True))
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


def _locate(tensor: onnx.TensorProto, entries: Sequence[tuple[str, object]]) -> None:
    for key, value in entries:
        tensor.external_data.add(key=key, value=str(value))
