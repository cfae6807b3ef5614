"""Sessions with the interface of ONNX Runtime: code that is written for it runs with only the import changed.

>>> session = gw.InferenceSession("model.onnx")
>>> (scores,) = session.run(["scores"], {"x": array})
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final

import graphwright as gw
from graphwright.config import Options
from graphwright.errors import Diagnostic, OptionError
from graphwright.executable.specs import TensorSpec
from graphwright.ir.arrays import Array
from graphwright.ir.dtypes import ONNX_NAMES, DType
from graphwright.loading import Key
from graphwright.records import dataclass, field, replace
from graphwright.runtime.model import Model
from graphwright.support.file_kinds import HEAD, is_package

EXTERNAL_DATA: Final = "session.model_external_initializers_file_folder_path"
"""ONNX Runtime's entry for the option ``external_data``."""


@dataclass
class SessionOptions:
    """Options of a session. Other options of ONNX Runtime may be set and are ignored."""

    intra_op_num_threads: int = 0
    """The number of threads of a run; 0 is one per usable core."""
    compile_options: Options | None = None
    """The options of graphwright; None uses those of the environment."""
    config_entries: dict[str, str] = field(default_factory=dict)

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Stores a configuration entry; only :data:`EXTERNAL_DATA` has an effect."""
        self.config_entries[key] = value

    def get_session_config_entry(self, key: str) -> str:
        """The value of a configuration entry. Raises KeyError."""
        return self.config_entries[key]


@dataclass(frozen=True)
class NodeArg:
    """An input or output: its name, its ``type`` such as ``tensor(float)``, and its ``shape`` of numbers and
    names.

    As in ONNX Runtime, the shape is empty for scalars and if the rank is unknown.
    """

    name: str
    type: str
    shape: list[int | str]


@dataclass(frozen=True)
class ModelMetadata:
    """The metadata of the source model."""

    custom_metadata_map: dict[str, str]


class InferenceSession:
    """A compiled or loaded model with the interface of ONNX Runtime's session. It can run from any thread."""

    def __init__(
        self,
        path_or_bytes: str | os.PathLike[str] | bytes | BinaryIO,
        sess_options: SessionOptions | None = None,
        providers: Sequence[Any] | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
        *,
        trust: bool | None = None,
        keys: Sequence[Key] = (),
    ) -> None:
        """Opens an ONNX model or an ``.om``, given by its path, bytes, or open binary file. Providers are
        ignored.

        ``trust`` and ``keys`` are those of ``graphwright.load``. Raises the errors of ``compile`` and
        ``load``, such as ModelError, PackageError and ToolchainError.
        """
        given = SessionOptions() if sess_options is None else sess_options
        if not isinstance(given, SessionOptions):
            message = f"sess_options must be a SessionOptions, not of type {type(given).__name__}"
            raise OptionError(
                Diagnostic("option", message, hint="options of compile: SessionOptions(compile_options=...)")
            )
        options = given.compile_options or Options.from_environment()
        if folder := given.config_entries.get(EXTERNAL_DATA):
            options = replace(options, external_data=Path(folder))
        if given.intra_op_num_threads:
            options = replace(options, threads=given.intra_op_num_threads)
        self._model: Model = _open(path_or_bytes, options, trust, keys)

    def run(
        self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any], run_options: object = None
    ) -> list[Array]:
        """Runs the model and returns the outputs in ``output_names``, in order; all if it is None or empty.
        Raises FeedError for arrays that do not fit.
        """
        return self._model.listed(output_names or None, input_feed)

    def get_inputs(self) -> list[NodeArg]:
        """The inputs, in order."""
        return [_node_arg(spec) for spec in self._model.inputs]

    def get_outputs(self) -> list[NodeArg]:
        """The outputs, in order."""
        return [_node_arg(spec) for spec in self._model.outputs]

    def get_modelmeta(self) -> ModelMetadata:
        """The metadata of the source model."""
        return ModelMetadata(dict(self._model.metadata))

    def get_providers(self) -> list[str]:
        """The names of the execution providers: always the CPU."""
        return ["CPUExecutionProvider"]


def _open(
    source: str | os.PathLike[str] | bytes | BinaryIO,
    options: Options,
    trust: bool | None,
    keys: Sequence[Key],
) -> Model:
    if not isinstance(source, str | os.PathLike | bytes | bytearray | memoryview):
        if not hasattr(source, "read"):
            return gw.compile(source, options=options)
        source = source.read()
    if holds_package(source):
        return gw.load(source, trust=trust, keys=keys, options=options)
    return gw.compile(source, options=options)


def holds_package(source: str | os.PathLike[str] | bytes) -> bool:
    """Whether a path or bytes are an ``.om``, judged by the first bytes or by the name of the file."""
    if isinstance(source, bytes | bytearray | memoryview):
        return is_package(bytes(source[:HEAD]))
    return is_package(_head(Path(source))) or Path(source).suffix == ".om"


def _head(path: Path) -> bytes:
    """The first bytes of a file; empty if it cannot be read, as the compilation will report that."""
    try:
        if not path.is_file():
            return b""
        with open(path, "rb") as file:
            return file.read(HEAD)
    except OSError:
        return b""


def _node_arg(spec: TensorSpec) -> NodeArg:
    return NodeArg(spec.name, ort_type_text(spec.dtype), list(spec.shape or ()))


def ort_type_text(dtype: DType) -> str:
    """ONNX Runtime's text of a type, such as ``tensor(float)`` or ``map(int64,tensor(float))``."""
    if dtype.element is not None and dtype.key is not None:
        return f"map({ONNX_NAMES[dtype.key.name]},{ort_type_text(dtype.element)})"
    if dtype.element is None:
        return f"tensor({ONNX_NAMES[dtype.name]})"
    return f"{'seq' if dtype.kind == 'sequence' else dtype.kind}({ort_type_text(dtype.element)})"
