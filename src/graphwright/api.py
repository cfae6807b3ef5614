"""Implements ``graphwright.compile``."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from graphwright import log, plugins
from graphwright.compile_arguments import AnyShapes, EntryArguments, read_entries, read_shapes
from graphwright.compiler.buckets import bucket_modules
from graphwright.compiler.driver import Source as DriverSource
from graphwright.compiler.driver import compile_sources, retyped
from graphwright.compiler.join_targets import compile_targets
from graphwright.compiler.run_passes import Observer, observe_nothing
from graphwright.config import Options
from graphwright.frontends.onnx import Opened
from graphwright.frontends.onnx import load as load_onnx
from graphwright.gears import Gears
from graphwright.ir.clone import clone_module
from graphwright.ir.graph import Module
from graphwright.ir.nesting import regions_of
from graphwright.kernels.candidates.registry import load as load_candidates
from graphwright.loading import make_model
from graphwright.package.package import MAIN, Package
from graphwright.package.sign import user_key
from graphwright.package.weights import Weights
from graphwright.passes.bind_sizes import shape_inputs
from graphwright.passes.model_interface import bind_constants, keep_outputs, keep_states
from graphwright.records import replace
from graphwright.runtime.model import Model
from graphwright.sources import AnySource, is_of_torch, open_source, source_files, source_text
from graphwright.support.event_sink import now, record_stage
from graphwright.support.file_kinds import FileId
from graphwright.support.gc_pause import gc_paused


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

    ``source`` is an ONNX model (path, bytes, open binary file, ModelProto, model of onnx_ir or ONNXProgram),
    a ``torch.nn.Module``, an ExportedProgram, a file of PyTorch (.pt2 or TorchScript), or a :class:`Module`.
    It is not changed.

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
    sources = {name: open_source(entry, options) for name, entry in arguments.items()}
    plugins.use(options)
    load_candidates()
    key = user_key(options.key_folder, create=True)
    with ExitStack() as stack:
        entries = [_Entry(name, sources[name], entry) for name, entry in arguments.items()]
        for entry in entries:
            stack.enter_context(regions_of(entry.module))
            entry.bind(observe)
        record_stage("import", start_of_import)
        package = _package(entries, options, observe)
        if any(is_of_torch(entry.source) for entry in arguments.values()):  # a file would be read again
            package = package.with_own_memory()
    files = (source_files(entry, sources[name]) for name, entry in arguments.items())
    log.info("compiled %s in %.2f s", source_text(source), time.perf_counter() - start)
    options = replace(options, targets=(), tune=0)
    return make_model(package, key, options, frozenset[FileId]().union(*files), source_text(source))


@gc_paused()
def compile_with_weights(module: Module, shared: Weights, options: Options) -> Model:
    """Compiles ``module``, which is changed. Its weights begin with ``shared``, in the same memory if there
    is room. Raises the errors of :func:`compile`.
    """
    plugins.use(options)
    load_candidates()
    here = replace(options, targets=())
    with regions_of(module):
        package = compile_sources({MAIN: retyped(module)}, here, shared=shared)
    return make_model(package, user_key(options.key_folder, create=True), here)


class _Entry:
    """The module of one entry, and its arguments."""

    def __init__(self, name: str, source: Module | Opened, arguments: EntryArguments) -> None:
        self.name, self._arguments = name, arguments
        self._is_own = not isinstance(arguments.source, Module)
        """Whether the module is private, so that it may be changed."""
        self._is_bound = isinstance(source, Opened)
        """Whether the module was read with the constants in place of inputs."""
        self.module = (
            load_onnx(source, constants=arguments.constants, outputs=arguments.read())
            if isinstance(source, Opened)
            else source
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

    def driver_source(self, options: Options, *, copy: bool) -> DriverSource:
        """The input of the compile driver; with ``copy``, the module is not changed."""
        module = clone_module(self.module) if copy else self.module
        if self._arguments.gears is not None:
            return bucket_modules(module, self._arguments.gears, options)
        return module if self._is_own else retyped(module)


def _package(entries: Sequence[_Entry], options: Options, observe: Observer) -> Package:
    """Compiles the package of ``entries`` for each target of the option ``targets``."""

    def make(options: Options, *, copy: bool) -> Package:
        sources = {entry.name: entry.driver_source(options, copy=copy) for entry in entries}
        return compile_sources(sources, options, observe)

    here = replace(options, targets=())
    if not options.targets or options.device == "reference":
        return make(here, copy=False)
    package = compile_targets(options, lambda each: make(each, copy=True))
    return package if package.isas() else make(here, copy=False)  # it is compiled at its first feed
