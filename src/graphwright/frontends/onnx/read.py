"""From a path, bytes or a ModelProto to a parsed model; nothing is believed yet beyond its being protobuf."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # protobuf ships no stubs

from graphwright.errors import Diagnostic, ModelError
from graphwright.frontends.onnx.tensors import Folder
from graphwright.frontends.onnx.wire import cut_weights
from graphwright.ir.names import terminal

MAX_FILE = 2**31 - 1
"""Protobuf's limit of one message."""

Source = str | os.PathLike[str] | bytes | onnx.ModelProto


def read(source: Source) -> tuple[onnx.ModelProto, Folder]:
    """The model and the folder of its external data."""
    if isinstance(source, onnx.ModelProto):
        return _checked(source, "the model"), Folder(None)
    if isinstance(source, bytes | bytearray | memoryview):
        return _checked(_parse(bytes(source), "the model's bytes"), "the model's bytes"), Folder(None)
    path = Path(source)
    shown = terminal(str(path))
    try:
        if not path.is_file():
            raise ModelError(Diagnostic("file", "there is no such file", shown, "check the path"))
        if path.stat().st_size > MAX_FILE:
            hint = "save it with external data: onnx.save(..., save_as_external_data=True)"
            raise ModelError(Diagnostic("file", "more than 2 GiB cannot be one protobuf", shown, hint))
        slim, weights = cut_weights(_mapped(path))
        model = _parse(slim, shown)
    except (OSError, ValueError) as error:
        raise ModelError(Diagnostic("file", f"cannot be read: {terminal(str(error))}", shown)) from error
    return _checked(model, shown), Folder(path.parent, weights)


def _mapped(path: Path) -> memoryview:
    """The bytes of a file; mapped, so that weights are not copied."""
    with path.open("rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return memoryview(b"")
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def _parse(data: bytes | memoryview, shown: str) -> onnx.ModelProto:
    try:
        model = onnx.ModelProto()
        model.ParseFromString(data)
        return model
    except (DecodeError, ValueError) as error:
        hint = "the file is cut short, damaged, or something else"
        raise ModelError(
            Diagnostic("file", f"is not an ONNX model: {terminal(str(error))}", shown, hint)
        ) from error


def _checked(model: onnx.ModelProto, shown: str) -> onnx.ModelProto:
    if not model.HasField("graph") or not model.ir_version:
        missing = "graph" if model.ir_version else "ir_version"
        hint = "the file is cut short, or something else"
        raise ModelError(Diagnostic("file", f"is not an ONNX model: it has no {missing}", shown, hint))
    return model
