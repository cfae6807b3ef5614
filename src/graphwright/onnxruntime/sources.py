"""Compiles the model of a session from a file or bytes, with the changes that session options request."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

import onnx
from onnx import numpy_helper

import graphwright as gw
from graphwright.config import Options
from graphwright.frontends.onnx import Opened, open_model
from graphwright.frontends.onnx.ort_format import is_ort_format, model_of
from graphwright.ir.graph import Module
from graphwright.onnxruntime import signature
from graphwright.onnxruntime.errors import InvalidArgument, Unsupported
from graphwright.onnxruntime.options import Overrides, SessionOptions
from graphwright.onnxruntime.signature import Signature
from graphwright.records import dataclass
from graphwright.runtime.model import Model
from graphwright.session import holds_package

Source = str | bytes
_PROTOBUF_LIMIT = 2**31 - 1
DATA_FILE: Final = "session.optimized_model_external_initializers_file_name"
"""The entry of session options that names the file for the weights of the optimized model."""
DATA_SIZE: Final = "session.optimized_model_external_initializers_min_size_in_bytes"
"""The entry of session options with the bytes from which on a weight is in that file."""


@dataclass(frozen=True)
class _Variant:
    """Properties of feeds that ONNX Runtime allows but that the model does not declare."""

    fed: frozenset[str] = frozenset()
    """Initializers that the feed replaces."""
    apart: bool = False
    """Sizes of one name that differ."""
    with_axes: frozenset[str] = frozenset()
    """Inputs with axes that the model declares as scalars."""


class SessionModel:
    """A model and its signature; for an ONNX file, also what compiles variants of it for other feeds."""

    def __init__(
        self, model: Model, signature: Signature, options: Options, opened: Opened | None = None
    ) -> None:
        self.model, self.signature = model, signature
        self._options, self._opened = options, opened
        self._variants: dict[_Variant, Model] = {_Variant(): model}

    def variant(self, given: Collection[str], shapes: Mapping[str, Sequence[int]]) -> Model:
        """The model for a feed of inputs and initializers ``given``; compiled for the first feed of its kind.

        Raises NotImplemented for initializers of an .om.
        """
        variant = _Variant(
            frozenset(arg.name for arg in self.signature.overridable if arg.name in given),
            self._opened is not None and signature.breaks_names(self.signature.inputs, shapes),
            frozenset() if self._opened is None else signature.fed_axes(self.model.inputs, shapes),
        )
        if variant not in self._variants:
            self._variants[variant] = self._compiled(variant)
        return self._variants[variant]

    def _compiled(self, variant: _Variant) -> Model:
        if self._opened is None:
            raise Unsupported("an .om file has its initializers inside: make the session from the ONNX file")
        proto = onnx.ModelProto()
        proto.CopyFrom(self._opened.model)
        kept = [tensor for tensor in proto.graph.initializer if tensor.name not in variant.fed]
        del proto.graph.initializer[:]
        proto.graph.initializer.extend(kept)
        for info in proto.graph.input if variant.apart else ():
            for dim in info.type.tensor_type.shape.dim:
                dim.ClearField("dim_param")
        for info in proto.graph.input if variant.with_axes else ():
            if info.name in variant.with_axes:
                info.type.tensor_type.ClearField("shape")
        return gw.compile(Opened(proto, self._opened.files, Module()), options=self._options)


def open_session_model(source: Source, given: SessionOptions, options: Options) -> SessionModel:
    """Compiles or loads ``source``. Raises GraphwrightError and NotImplemented."""
    if holds_package(source):
        model = gw.load(source, options=options)
        return SessionModel(model, signature.of_package(model), options)
    folder = _working_folder() if isinstance(source, bytes) else None
    opened = open_model(source, options.external_data or folder)
    override(opened.model, given.overrides())
    model = gw.compile(opened, options=options)
    about = signature.of_file(model, opened.model)
    if given.optimized_model_filepath:
        _write(source, given)
    needed = about.overridable or signature.shares_names(about.inputs) or signature.has_scalars(model.inputs)
    return SessionModel(model, about, options, opened if needed else None)


def _working_folder() -> Path | None:
    """The working directory; None if it was removed."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return None


def override(proto: onnx.ModelProto, given: Overrides) -> None:
    """Sets the sizes and initializers that options replace."""
    graph = proto.graph
    for info in (*graph.input, *graph.output, *graph.value_info):
        for dim in info.type.tensor_type.shape.dim:
            _fix(dim, given)
    for tensor in graph.initializer:
        if tensor.name in given.initializers:
            tensor.CopyFrom(numpy_helper.from_array(given.initializers[tensor.name], tensor.name))
        elif given.files and tensor.data_location == onnx.TensorProto.EXTERNAL:
            _read(tensor, given.files)


def _read(tensor: onnx.TensorProto, files: Mapping[str, bytes]) -> None:
    """Reads the data of ``tensor`` from the in-memory file that contains it, if there is one."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    numbers = [entries[key] for key in ("offset", "length") if key in entries]
    if entries.get("location") not in files or not all(number.isdecimal() for number in numbers):
        return
    data = files[entries["location"]]
    start, length = (int(entries.get(key, whole)) for key, whole in (("offset", 0), ("length", len(data))))
    tensor.raw_data = data[start : start + length]
    tensor.data_location = onnx.TensorProto.DEFAULT
    del tensor.external_data[:]


def _fix(dim: onnx.TensorShapeProto.Dimension, given: Overrides) -> None:
    named = given.sizes.get(dim.dim_param) if dim.dim_param else None
    size = given.denotations.get(dim.denotation) if named is None else named
    if size is not None:
        dim.dim_value = size


def _write(source: Source, given: SessionOptions) -> None:
    """Writes the model to ``optimized_model_filepath``: as it was read, with its overrides."""
    target = Path(given.optimized_model_filepath)
    if not target.parent.is_dir():
        raise InvalidArgument(f"optimized_model_filepath is {target}: there is no folder {target.parent}")
    proto = _whole(source)
    override(proto, given.overrides())
    data = _entry(given, DATA_FILE, f"{target.name}.data" if proto.ByteSize() > _PROTOBUF_LIMIT else "")
    smallest = int(_entry(given, DATA_SIZE, "1024"))
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        temporary = Path(folder) / target.name
        onnx.save(
            proto, temporary, save_as_external_data=bool(data), location=data or None, size_threshold=smallest
        )
        for name in filter(None, (data, target.name)):  # the data first, which the model needs
            if temporary.with_name(name).exists():
                os.replace(temporary.with_name(name), target.with_name(name))
    warnings.warn(
        f"{target} is the model as it was read: graphwright's fused kernels have no ONNX form; "
        "save what it compiled as an .om (graphwright.compile(path).save(path))",
        stacklevel=5,
    )


def _entry(given: SessionOptions, key: str, default: str) -> str:
    return given.get_session_config_entry(key) if given.has_session_config_entry(key) else default


def _whole(source: Source) -> onnx.ModelProto:
    """The model with all weights inside."""
    if not is_ort_format(_start(source)):
        return onnx.load_from_string(source) if isinstance(source, bytes) else onnx.load(source)
    model, weights = model_of(memoryview(source if isinstance(source, bytes) else Path(source).read_bytes()))
    for tensor in model.graph.initializer:
        if tensor.name in weights:
            tensor.raw_data = bytes(weights[tensor.name])
    return model


def _start(source: Source) -> bytes:
    """The first 8 bytes."""
    if isinstance(source, bytes):
        return source[:8]
    with open(source, "rb") as file:
        return file.read(8)
