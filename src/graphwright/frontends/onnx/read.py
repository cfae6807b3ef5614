"""Parses a model from a path, bytes, an open file, a ModelProto or a model of onnx_ir. The contents are
checked later.

Files in ONNX Runtime's own format (.ort) are converted.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # protobuf ships no stubs

from graphwright.errors import Diagnostic, ModelError
from graphwright.frontends.onnx.model_files import ModelFiles
from graphwright.frontends.onnx.ort_format import DamagedError, is_ort_format, model_of
from graphwright.frontends.onnx.unparsed_weights import detach_weights
from graphwright.ir.constants.mapped import MappedFile
from graphwright.support.escaping import terminal
from graphwright.support.file_kinds import HEAD, ONNX, kind_of, kind_of_file

MAX_FILE = 2**31 - 1
"""The limit of protobuf on one message."""
_ADDRESS = re.compile(r"[a-z][a-z0-9+]+:/")

Source: TypeAlias = str | os.PathLike[str] | bytes | bytearray | memoryview | BinaryIO | onnx.ModelProto


def read(source: Source, external_data: Path | None = None) -> tuple[onnx.ModelProto, ModelFiles]:
    """The model and its files. ``external_data`` is a second folder with external data. Raises ModelError."""
    model = onnx_ir_model(source)
    if model is not None:
        proto = _checked(sys.modules["onnx_ir"].to_proto(model), "the model", b"")
        return proto, ModelFiles(_folder_of_weights(model), extra_folder=external_data)
    if isinstance(source, onnx.ModelProto):
        return _checked(source, "the model", b""), ModelFiles(None, extra_folder=external_data)
    if isinstance(source, bytes | bytearray | memoryview):
        return _from_bytes(bytes(source), "the model's bytes", ModelFiles(None, extra_folder=external_data))
    if not isinstance(source, str | os.PathLike):
        return _from_file(source, external_data)
    if not os.fspath(source):
        raise ModelError(Diagnostic("file", "the path is empty", hint="give the path of an ONNX file"))
    return _from_path(Path(source), external_data)


def onnx_ir_model(source: object) -> Any:
    """``source`` as a model of onnx_ir, which is then already imported, or the model of an ONNXProgram of
    PyTorch; None for any other source.
    """
    onnx_ir = sys.modules.get("onnx_ir")
    model = getattr(source, "model", source)
    return model if onnx_ir is not None and isinstance(model, onnx_ir.Model) else None


def _folder_of_weights(model: Any) -> Path | None:
    """The folder of the external data of a model of onnx_ir; None if it has none."""
    weights = (value.const_value for value in model.graph.initializers.values())
    folders = (weight.base_dir for weight in weights if hasattr(weight, "base_dir"))
    return next(map(Path, folders), None)


def _from_path(path: Path, external_data: Path | None) -> tuple[onnx.ModelProto, ModelFiles]:
    shown = terminal(str(path))
    try:
        mode = path.stat().st_mode
        if stat.S_ISFIFO(mode):
            return _from_bytes(path.read_bytes(), shown, ModelFiles(None, extra_folder=external_data))
        if not stat.S_ISREG(mode):
            raise _not_a_file(path, shown)
        files = ModelFiles(path.parent, extra_folder=external_data, path=path)
        files.note(path)
        with path.open("rb") as file:
            return _parsed(_mapped(file), shown, files)
    except FileNotFoundError as error:
        raise _missing(path, shown) from error
    except (OSError, ValueError) as error:
        reason = terminal(str(getattr(error, "strerror", None) or error))
        raise ModelError(Diagnostic("file", f"cannot be read: {reason}", shown)) from error


def _not_a_file(path: Path, shown: str) -> ModelError:
    kind = kind_of_file(path) if path.is_dir() else None
    if kind is not None:
        return ModelError(Diagnostic("file", f"is {kind.what}, not an ONNX model", shown, kind.advice))
    return ModelError(Diagnostic("file", "is not a regular file", shown, "give the path of a file"))


def _missing(path: Path, shown: str) -> ModelError:
    if _ADDRESS.match(shown):
        hint = "download the file, and give its path"
        return ModelError(Diagnostic("file", "is an address: graphwright downloads no files", shown, hint))
    if not path.is_symlink():
        return ModelError(Diagnostic("file", "there is no such file", shown, "check the path"))
    message = f"is a symbolic link to {terminal(os.readlink(path))}, which is not there"
    return ModelError(Diagnostic("file", message, shown, "fetch the file again"))


def _from_file(file: BinaryIO, external_data: Path | None) -> tuple[onnx.ModelProto, ModelFiles]:
    """Reads from an open binary file. Its name locates external data, as in ``onnx.load``."""
    if not hasattr(file, "read"):
        message = f"a model cannot be read from {type(file).__name__}"
        hint = "give a path, bytes, an open binary file, a ModelProto, a model of onnx_ir or a Module"
        raise ModelError(Diagnostic("source", message, hint=hint))
    name = getattr(file, "name", None)
    path = Path(name) if isinstance(name, str) and os.path.isfile(name) else None
    shown = "the model's file" if path is None else terminal(str(path))
    data = file.read()
    if not isinstance(data, bytes):
        raise ModelError(Diagnostic("source", "the file is open as text", shown, 'open it with "rb"'))
    files = ModelFiles(None if path is None else path.parent, extra_folder=external_data, path=path)
    if path is not None:
        files.note(path)
    return _from_bytes(data, shown, files)


def _from_bytes(data: bytes, shown: str, files: ModelFiles) -> tuple[onnx.ModelProto, ModelFiles]:
    return _parsed(memoryview(data), shown, files)


def _mapped(file: BinaryIO) -> memoryview:
    """The bytes of a file, memory-mapped so that weights are not copied."""
    if not os.fstat(file.fileno()).st_size:
        return memoryview(b"")
    return memoryview(MappedFile(file.fileno()))


def _parsed(data: memoryview, shown: str, files: ModelFiles) -> tuple[onnx.ModelProto, ModelFiles]:
    head = bytes(data[:HEAD])
    if is_ort_format(head):
        return _converted(data, shown, files)
    if len(data) > MAX_FILE:
        hint = "save it with external data: onnx.save(..., save_as_external_data=True)"
        raise _not_onnx(head, len(data), shown, "is larger than 2 GiB, the limit of protobuf", hint)
    slim, weights = detach_weights(data)
    try:
        model = onnx.ModelProto()
        model.ParseFromString(slim)
    except (DecodeError, ValueError) as error:
        reason = f"is not an ONNX model: {terminal(str(error))}"
        hint = "the file is truncated, damaged, or of another kind"
        raise _not_onnx(head, len(data), shown, reason, hint) from error
    return _checked(model, shown, head, len(data)), files.with_weights(weights)


def _converted(data: memoryview, shown: str, files: ModelFiles) -> tuple[onnx.ModelProto, ModelFiles]:
    """A model in the ORT format."""
    try:
        model, weights = model_of(data)
    except (DamagedError, ValueError) as error:
        reason = f"is a damaged model in ONNX Runtime's own format (.ort): {terminal(str(error))}"
        hint = "give the .onnx it was made from, or make the .ort again"
        raise ModelError(Diagnostic("file", reason, shown, hint)) from error
    return _checked(model, shown, b""), files.with_weights(weights)


def _checked(model: onnx.ModelProto, shown: str, head: bytes, size: int = 1) -> onnx.ModelProto:
    if not model.HasField("graph") or not model.ir_version:
        missing = "graph" if model.ir_version else "ir_version"
        hint = "the file is truncated or of another kind"
        raise _not_onnx(head, size, shown, f"is not an ONNX model: it has no {missing}", hint)
    return model


def _not_onnx(head: bytes, size: int, shown: str, reason: str, hint: str) -> ModelError:
    """An error that says what kind of file begins with ``head``, or ``reason`` if that is not known."""
    kind = kind_of(head, size)
    if kind is not None and kind is not ONNX:
        return ModelError(
            Diagnostic("file", f"is not an ONNX model: it is {kind.what}", shown, f"{kind.advice}")
        )
    return ModelError(Diagnostic("file", reason, shown, hint))
