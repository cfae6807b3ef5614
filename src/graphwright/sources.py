"""The sources that ``compile`` accepts: ONNX models, PyTorch models, and modules built by hand."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeGuard

from graphwright import ops
from graphwright.compile_arguments import EntryArguments
from graphwright.config import Options
from graphwright.errors import Diagnostic, ModelError, OptionError
from graphwright.frontends.onnx import Opened, open_model
from graphwright.frontends.onnx.read import Source, onnx_ir_model
from graphwright.ir.graph import Module
from graphwright.support.escaping import terminal
from graphwright.support.file_kinds import EXPORTED, TORCH, TORCHSCRIPT, FileId, file_id, kind_of_file

if TYPE_CHECKING:
    from graphwright.frontends.torch.source import TorchSource

AnySource: TypeAlias = "Source | Module | Opened | TorchSource"
"""The source of one entry."""


def open_source(arguments: EntryArguments, options: Options) -> Module | Opened:
    """Opens the source of an entry. A PyTorch model is imported; an ONNX model is only parsed, as
    ``arguments`` decide which part of it is imported. Raises ModelError and OptionError.
    """
    source, examples = arguments.source, arguments.examples
    file = _torch_file(source)
    if file is not None:
        _require_torch(file)
    if file is not None or is_of_torch(source):
        from graphwright.frontends.torch.source import read_source  # which imports torch

        ops.load()
        return read_source(file or source, examples.inputs, examples.kwargs, examples.dynamic_shapes)
    if callable(source) and onnx_ir_model(source) is None:
        message = f"a model cannot be read from {type(source).__name__}"
        hint = "make it the forward of a torch.nn.Module, or call torch.compile(it, backend='graphwright')"
        raise ModelError(Diagnostic("source", message, hint=hint))
    if examples.are_given and not _is_pickled(source):
        message = "example_inputs, example_kwargs and dynamic_shapes are for modules of PyTorch"
        raise OptionError(
            Diagnostic("examples", message, hint="give sizes of inputs as shapes={'x': (1, 3)}")
        )
    return source if isinstance(source, Module | Opened) else open_model(source, options.external_data)


def source_files(arguments: EntryArguments, source: Module | Opened) -> frozenset[FileId]:
    """The files from which ``source``, the opened source of an entry, was read."""
    if isinstance(source, Opened):
        return frozenset(source.files.read)
    file = _torch_file(arguments.source)
    return frozenset() if file is None else frozenset({file_id(os.stat(file))})


def is_of_torch(source: object) -> TypeGuard[TorchSource]:
    """Whether ``source`` is an object of PyTorch, which is then already imported."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(source, (torch.nn.Module, torch.export.ExportedProgram))


def source_text(source: object) -> str:
    """The name of a source in the log: its file, or its type."""
    if isinstance(source, Mapping):
        return ", ".join(map(source_text, source.values()))
    return str(source) if isinstance(source, str | os.PathLike) else f"a {type(source).__name__}"


def _is_pickled(source: object) -> bool:
    """Whether ``source`` is a PyTorch file of pickled objects, which is never read."""
    return isinstance(source, str | os.PathLike) and kind_of_file(Path(source)) is TORCH


def _torch_file(source: object) -> Path | None:
    """The path of a PyTorch program file; None for other sources."""
    if not isinstance(source, str | os.PathLike) or not os.fspath(source):
        return None
    path = Path(source)
    return path if os.path.isfile(path) and kind_of_file(path) in (EXPORTED, TORCHSCRIPT) else None


def _require_torch(file: Path) -> None:
    if importlib.util.find_spec("torch") is None:
        message = "reading a PyTorch file needs PyTorch, which is not installed"
        hint = "pip install 'graphwright[torch]'; the compiled .om runs without PyTorch"
        raise ModelError(Diagnostic("pytorch", message, terminal(str(file)), hint))
