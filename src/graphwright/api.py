"""Implements ``graphwright.compile``."""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

from graphwright import log, ops, plugins
from graphwright.arguments import AnyShapes, EntryArguments, read_entries, read_shapes
from graphwright.compiler.buckets import bucket_modules
from graphwright.compiler.driver import Source as CompiledFrom
from graphwright.compiler.driver import compile_sources, observe_nothing, retyped
from graphwright.compiler.run_passes import Observer
from graphwright.compiler.targets import compile_targets
from graphwright.config import Options
from graphwright.errors import Diagnostic, ModelError, OptionError
from graphwright.frontends.onnx import Opened, open_model
from graphwright.frontends.onnx import load as load_onnx
from graphwright.frontends.onnx.read import Source
from graphwright.gears import Gears
from graphwright.ir.clone import clone_module
from graphwright.ir.graph import Module
from graphwright.ir.names import terminal
from graphwright.ir.nesting import regions_of
from graphwright.kernels.candidates.registry import load as load_candidates
from graphwright.loading import made
from graphwright.package.package import MAIN, Package
from graphwright.package.sign import user_key
from graphwright.package.weights import Weights
from graphwright.passes.bind_sizes import shape_inputs
from graphwright.passes.interface import bind_constants, keep_outputs, keep_states
from graphwright.records import replace
from graphwright.runtime.model import Model
from graphwright.support.event_sink import now, record_stage
from graphwright.support.file_kinds import EXPORTED, TORCH, TORCHSCRIPT, FileId, file_id, kind_of_file
from graphwright.support.gc_pause import gc_paused

if TYPE_CHECKING:
    from graphwright.frontends.torch.source import TorchSource

AnySource: TypeAlias = "Source | Module | Opened | TorchSource"
"""The source of one entry."""


def _timed(observe: Observer) -> Observer:
    """``observe``, extended to log the time of each stage."""
    last = time.perf_counter()

    def observe_and_log(name: str, product: object) -> None:
        nonlocal last
        log.debug("%s: %.1f ms", name, 1e3 * (time.perf_counter() - last))
        observe(name, product)
        last = time.perf_counter()

    return observe_and_log


@gc_paused()
def compile(
    source: AnySource | Mapping[str, AnySource],
    example_inputs: Any = None,
    example_kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    shapes: AnyShapes | Mapping[str, AnyShapes] | None = None,
    constants: Mapping[str, Any] | None = None,
    outputs: Sequence[str] | str | Mapping[str, Sequence[str] | str] | None = None,
    gears: Gears | Mapping[str, Any] | None = None,
    states: Mapping[str, Any] | None = None,
    specialize: str | None = None,
    tune: int | None = None,
    external_data: str | os.PathLike[str] | None = None,
    options: Options | Mapping[str, Any] | None = None,
    observe: Observer = observe_nothing,
) -> Model:
    """Compiles an ONNX model, a PyTorch model or a module built by hand, and returns the model ready to run.

    ``source`` is an ONNX model (path, bytes, open binary file or ModelProto), a ``torch.nn.Module``, an
    ExportedProgram, a file of PyTorch (.pt2 or TorchScript), or a :class:`Module`. It is not changed.

    A ``torch.nn.Module`` is exported with ``example_inputs``, a tuple of arguments of its ``forward``, and
    ``example_kwargs``, arguments by name; a dict as ``example_inputs`` has all arguments by name.
    ``dynamic_shapes`` is passed to ``torch.export.export``. The compiled model is called like the module
    (:meth:`Model.__call__`).

    - ``shapes``: sizes of inputs, or ranges of sizes, by input: ``{"x": (1, 3, 224, "W=64..2048")}``. For
      a model with one input, the sizes suffice.
    - ``constants``: arrays, numbers or lists that replace inputs, by input.
    - ``outputs``: the values to compute, which may be intermediate values; by default the model's
      outputs.
    - ``gears``: shapes that get static programs of their own: a dict of lists of shapes by input, or a
      :class:`graphwright.Gears`.
    - ``states``: inputs that the model keeps between runs, each with the output that is its next value.
      Callers neither feed nor receive them.
    - ``specialize``, ``tune``, ``external_data``: the options of these names. ``tune`` is the time to
      measure kernels and fusions, in seconds; ``external_data`` a folder with weights, in addition to the
      folder of the model.
    - ``options``: a :class:`graphwright.CompileOptions`, or a dict of options that override the
      environment's.
    - ``observe``: a function that is called with (stage, product) after each stage of the compilation.

    A dict of sources by name makes a model with several entries, which share weights and states. The result
    is the model of the first entry, and its :attr:`Model.entries` has all. ``shapes``, ``constants``,
    ``outputs``, ``gears`` and ``states`` are then dicts by entry.

    Raises ModelError, which lists all faults of the model, FeedError for sizes that do not fit the model,
    OptionError, PluginError and ToolchainError.
    """
    start, observe = time.perf_counter(), _timed(observe) if log.is_debugged() else observe
    start_of_import = now()
    options = Options.of(options, specialize=specialize, tune=tune, external_data=external_data)
    arguments = read_entries(
        source,
        shapes=shapes,
        constants=constants,
        outputs=outputs,
        gears=gears,
        states=states,
        example_inputs=example_inputs,
        example_kwargs=example_kwargs,
        dynamic_shapes=dynamic_shapes,
    )
    given = {name: _opened(entry, options) for name, entry in arguments.items()}
    plugins.use(options)
    load_candidates()
    key = user_key(options.key_folder, create=True)
    with ExitStack() as held:
        entries = [_Entry(name, given[name], each) for name, each in arguments.items()]
        for entry in entries:
            held.enter_context(regions_of(entry.module))
            entry.bind(observe)
        record_stage("import", start_of_import)
        package = _package(entries, options, observe)
        if any(_is_of_torch(each.source) for each in arguments.values()):  # a file would be read again
            package = package.with_own_memory()
    files = frozenset[FileId]().union(*(_files_of(each, given[name]) for name, each in arguments.items()))
    log.info("compiled %s in %.2f s", _shown(source), time.perf_counter() - start)
    return made(package, key, replace(options, targets=(), tune=0), files, _shown(source))


@gc_paused()
def compile_behind(module: Module, shared: Weights, options: Options) -> Model:
    """Compiles ``module`` in place; its weights begin with ``shared``, in the same memory if there is room.
    Raises the errors of :func:`compile`.
    """
    plugins.use(options)
    load_candidates()
    here = replace(options, targets=())
    with regions_of(module):
        package = compile_sources({MAIN: retyped(module)}, here, shared=shared)
    return made(package, user_key(options.key_folder, create=True), here)


class _Entry:
    """The module of one entry, and its arguments."""

    def __init__(self, name: str, given: Module | Opened, arguments: EntryArguments) -> None:
        self.name, self._arguments = name, arguments
        self._is_own = not isinstance(arguments.source, Module)
        """Whether the module is private, so that it may be changed."""
        self._is_bound = isinstance(given, Opened)
        self.module = (
            load_onnx(given, constants=arguments.constants, outputs=arguments.read())
            if isinstance(given, Opened)
            else given
        )

    def bind(self, observe: Observer) -> None:
        """Applies the arguments that change inputs and outputs."""
        arguments = self._arguments
        if not self._is_own:
            self.module = clone_module(self.module)  # the caller's module is not changed
        if not self._is_bound:
            bind_constants(self.module, arguments.constants)
        module = self.module
        observe("import", module)
        shape_inputs(module, read_shapes(arguments.shapes, [value.name for value in module.main.inputs]))
        if arguments.states:
            keep_states(module, arguments.states)
        if arguments.outputs is not None:
            keep_outputs(module, arguments.outputs)

    def compiled_from(self, options: Options, *, copy: bool) -> CompiledFrom:
        """The input of the compile driver; with ``copy``, the module is not changed."""
        module = clone_module(self.module) if copy else self.module
        if self._arguments.gears is not None:
            return bucket_modules(module, self._arguments.gears, options)
        return module if self._is_own else retyped(module)


def _opened(arguments: EntryArguments, options: Options) -> Module | Opened:
    """The source of an entry; ONNX and PyTorch models are read. Raises ModelError and OptionError."""
    source, examples = arguments.source, arguments.examples
    file = _torch_file(source)
    if file is not None:
        _require_torch(file)
    if file is not None or _is_of_torch(source):
        from graphwright.frontends.torch.source import read_source  # which imports torch

        ops.load()
        return read_source(file or source, examples.inputs, examples.kwargs, examples.dynamic_shapes)
    if callable(source):
        message = f"a model cannot be read from {type(source).__name__}"
        hint = "make it the forward of a torch.nn.Module, or call torch.compile(it, backend='graphwright')"
        raise ModelError(Diagnostic("source", message, hint=hint))
    if examples.are_given and not _is_pickled(source):
        message = "example_inputs, example_kwargs and dynamic_shapes are for modules of PyTorch"
        raise OptionError(
            Diagnostic("examples", message, hint="give sizes of inputs as shapes={'x': (1, 3)}")
        )
    return source if isinstance(source, Module | Opened) else open_model(source, options.external_data)


def _files_of(arguments: EntryArguments, given: Module | Opened) -> frozenset[FileId]:
    """The files that the model was read from."""
    if isinstance(given, Opened):
        return frozenset(given.folder.files)
    file = _torch_file(arguments.source)
    return frozenset() if file is None else frozenset({file_id(os.stat(file))})


def _is_pickled(source: object) -> bool:
    """Whether ``source`` is a PyTorch file of pickled objects, which is never read."""
    return isinstance(source, str | os.PathLike) and kind_of_file(Path(source)) is TORCH


def _torch_file(source: object) -> Path | None:
    """The path of a PyTorch program file; None for other sources."""
    if not isinstance(source, str | os.PathLike) or not os.fspath(source):
        return None
    path = Path(source)
    return path if path.is_file() and kind_of_file(path) in (EXPORTED, TORCHSCRIPT) else None


def _require_torch(file: Path) -> None:
    if importlib.util.find_spec("torch") is None:
        message = "reading a PyTorch file needs PyTorch, which is not installed"
        hint = "pip install 'graphwright[torch]'; the compiled .om runs without PyTorch"
        raise ModelError(Diagnostic("pytorch", message, terminal(str(file)), hint))


def _is_of_torch(source: object) -> TypeGuard[TorchSource]:
    """Whether ``source`` is an object of PyTorch, which is then already imported."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(source, (torch.nn.Module, torch.export.ExportedProgram))


def _package(entries: Sequence[_Entry], options: Options, observe: Observer) -> Package:
    """Compiles the package of ``entries`` for each target of the option ``targets``."""

    def make(options: Options, *, copy: bool) -> Package:
        sources = {entry.name: entry.compiled_from(options, copy=copy) for entry in entries}
        return compile_sources(sources, options, observe)

    here = replace(options, targets=())
    if not options.targets or options.device == "reference":
        return make(here, copy=False)
    package = compile_targets(options, lambda each: make(each, copy=True))
    return package if package.isas() else make(here, copy=False)  # it is compiled at its first feed


def _shown(source: object) -> str:
    """The name of a source in the log: its file, or its type."""
    if isinstance(source, Mapping):
        return ", ".join(map(_shown, source.values()))
    return str(source) if isinstance(source, str | os.PathLike) else f"a {type(source).__name__}"
