"""What ``graphwright.compile`` does."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from graphwright import log, plugins
from graphwright.arguments import AnyShapes, read_mapping, read_outputs, read_shapes
from graphwright.compiler.buckets import bucket_modules, compile_buckets
from graphwright.compiler.driver import compile_module, compile_untrusted, observe_nothing
from graphwright.compiler.modules import Observer
from graphwright.compiler.targets import compile_targets
from graphwright.config import Options
from graphwright.frontends.onnx import Opened, open_model
from graphwright.frontends.onnx import load as load_onnx
from graphwright.frontends.onnx.read import Source
from graphwright.gc_pause import gc_paused
from graphwright.gears import Gears
from graphwright.ir.clone import clone_module
from graphwright.ir.graph import Module
from graphwright.ir.nesting import regions_of
from graphwright.kernels.candidates.registry import load as load_candidates
from graphwright.loading import made
from graphwright.package.package import Package
from graphwright.package.sign import user_key
from graphwright.passes.bind_sizes import shape_inputs
from graphwright.passes.interface import bind_constants, keep_outputs
from graphwright.records import replace
from graphwright.runtime.model import Model


def _timed(observe: Observer) -> Observer:
    """``observe``, which logs the time of each stage as well."""
    last = time.perf_counter()

    def observe_and_log(name: str, product: object) -> None:
        nonlocal last
        log.debug("%s: %.1f ms", name, 1e3 * (time.perf_counter() - last))
        observe(name, product)
        last = time.perf_counter()

    return observe_and_log


@gc_paused()
def compile(
    source: Source | Module | Opened,
    *,
    shapes: AnyShapes | None = None,
    constants: Mapping[str, Any] | None = None,
    outputs: Sequence[str] | str | None = None,
    gears: Gears | Mapping[str, Sequence[Sequence[int]]] | None = None,
    specialize: str | None = None,
    external_data: str | os.PathLike[str] | None = None,
    options: Options | Mapping[str, Any] | None = None,
    observe: Observer = observe_nothing,
) -> Model:
    """Compile an ONNX model (path, bytes, open binary file or ModelProto) or a module built by hand.

    ``shapes`` gives sizes of inputs, or ranges of them: a dict such as ``{"x": (1, 3, 224, "W=64..2048")}``,
    or the sizes alone where the model has one input. ``constants`` replaces inputs by arrays, numbers or
    lists; ``outputs`` keeps these values and what they need, inner values as well. ``gears`` are shapes that
    get programs of their own, a dict of lists of shapes by input or a :class:`graphwright.Gears`.
    ``options`` is a :class:`graphwright.CompileOptions`, or a dict of some of them above those of the
    environment. ``specialize`` is the option of that name, and so is ``external_data``, a folder that weights
    may lie in beside the model's own. ``observe(stage, product)`` is called after each stage.

    Raises ModelError with all faults of the model, FeedError for sizes that the model does not have,
    OptionError, PluginError, ToolchainError.
    """
    start, observe = time.perf_counter(), _timed(observe) if log.is_debugged() else observe
    options = Options.of(options, specialize=specialize, external_data=external_data)
    outputs = read_outputs(outputs)
    constants = read_mapping("constants", constants, "constants={'sr': 16000}")
    if not isinstance(gears, Gears):
        shapes_of_gears = read_mapping("gears", gears, "gears={'x': [(1, 64), (8, 64)]}")
        gears = None if gears is None else Gears(shapes_of_gears)
    given = source if isinstance(source, Module | Opened) else open_model(source, options.external_data)
    plugins.use(options)
    load_candidates()
    imported = isinstance(given, Opened)
    module = load_onnx(given, constants=constants, outputs=outputs) if isinstance(given, Opened) else given
    key = user_key(options.key_folder, create=True)
    compile_one = compile_module if imported else compile_untrusted

    def make(module: Module, options: Options) -> Package:
        if gears is None:
            return compile_one(module, options, observe)
        return compile_buckets(bucket_modules(module, gears, options), options, observe)

    with regions_of(module):
        if not imported:
            bind_constants(module, constants)
        observe("import", module)
        shape_inputs(module, read_shapes(shapes, [value.name for value in module.main.inputs]))
        if outputs is not None:
            keep_outputs(module, outputs)
        package = _for_targets(module, options, make) if options.targets else make(module, options)
    sources = () if isinstance(given, Module) else given.folder.files
    log.info("compiled %s in %.2f s", _shown(source), time.perf_counter() - start)
    return made(package, key, replace(options, targets=()), frozenset(sources))


def _shown(source: object) -> str:
    """The file that a model is compiled from, or what it is."""
    return str(source) if isinstance(source, str | os.PathLike) else f"a {type(source).__name__}"


def _for_targets(module: Module, options: Options, make: Callable[[Module, Options], Package]) -> Package:
    """What ``make`` gives for each of the option ``targets``, as one package."""
    here = replace(options, targets=())
    if options.device == "reference":
        return make(module, here)
    package = compile_targets(options, lambda each: make(clone_module(module), each))
    return package if package.isas() else make(module, here)  # what it does depends on its first feed
