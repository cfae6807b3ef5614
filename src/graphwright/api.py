"""Compiling models: what ``graphwright.compile`` does, and ``graphwright.load`` to make kernels again."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

from graphwright import log, plugins
from graphwright.arguments import AnyShapes, read_mapping, read_outputs, read_shapes
from graphwright.compiler import Observer, compile_modules, package_module, run_stages, shape_stages
from graphwright.config import Options
from graphwright.errors import Diagnostic, GraphwrightError, PackageError, ToolchainError, UnknownOpError
from graphwright.file_kinds import FileId
from graphwright.frontends.onnx import Opened, open_model
from graphwright.frontends.onnx import load as load_onnx
from graphwright.frontends.onnx.read import Source
from graphwright.garbage import uncollected
from graphwright.geared import compile_gears, gear_modules
from graphwright.gears import Gears
from graphwright.guards import Forms, with_general
from graphwright.ir.clone import clone_module
from graphwright.ir.constant import Constant
from graphwright.ir.graph import ConstantPool, Module, Value
from graphwright.ir.mentions import symbols_in
from graphwright.ir.nesting import regions_of
from graphwright.ir.op import ConstRef
from graphwright.ir.text import parse_module
from graphwright.ir.verify import verify
from graphwright.kernels.candidates.registry import load as load_candidates
from graphwright.layout.assign import forget_layouts
from graphwright.layout.transform import unpack
from graphwright.loading import device_of, staged, with_variants
from graphwright.package.package import Package
from graphwright.package.sign import user_key
from graphwright.package.stages import PartStep
from graphwright.passes.bind_sizes import shape_all_inputs, shape_inputs
from graphwright.passes.bound_sizes import BoundSizes
from graphwright.passes.dynamic import what_stays_dynamic
from graphwright.passes.gears import split_module
from graphwright.passes.interface import bind_constants, keep_outputs
from graphwright.passes.pipeline import GRAPH_PASSES
from graphwright.passes.retype import retype
from graphwright.ranks import is_only, lacks_ranks, package_variants, ranked
from graphwright.records import replace
from graphwright.report import with_dynamic
from graphwright.runtime.devices import NATIVE
from graphwright.runtime.devices.base import Device
from graphwright.runtime.devices.base import Shapes as FeedShapes
from graphwright.runtime.devices.cpu import Cpu
from graphwright.runtime.devices.guarded import GuardedFallback
from graphwright.runtime.devices.late import Late
from graphwright.runtime.devices.plan_check import verify_plan
from graphwright.runtime.devices.reference import Reference
from graphwright.runtime.devices.target import target_isa
from graphwright.runtime.model import Model
from graphwright.stages.build import package_stages, part_of, rank_inputs
from graphwright.stages.cut import cut
from graphwright.targets import compile_targets


def _no_one(name: str, product: object) -> None:
    """Observes nothing."""


def _timed(observe: Observer) -> Observer:
    """``observe``, which logs the time of each stage as well."""
    last = time.perf_counter()

    def observe_and_log(name: str, product: object) -> None:
        nonlocal last
        log.debug("%s: %.1f ms", name, 1e3 * (time.perf_counter() - last))
        observe(name, product)
        last = time.perf_counter()

    return observe_and_log


@uncollected()
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
    observe: Observer = _no_one,
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
    compiled = _compiled if imported else _retyped

    def make(module: Module, options: Options) -> Made:
        if gears is None:
            return compiled(module, options, observe)
        return compile_gears(gear_modules(module, gears, options), options, observe)

    with regions_of(module):
        if not imported:
            bind_constants(module, constants)
        observe("import", module)
        shape_inputs(module, read_shapes(shapes, [value.name for value in module.main.inputs]))
        if outputs is not None:
            keep_outputs(module, outputs)
        made = _for_targets(module, options, make) if options.targets else make(module, options)
    sources = () if isinstance(given, Module) else given.folder.files
    log.info("compiled %s in %.2f s", _shown(source), time.perf_counter() - start)
    return Model(*made, key, options, frozenset(sources))


def _shown(source: object) -> str:
    """The file that a model is compiled from, or what it is."""
    return str(source) if isinstance(source, str | os.PathLike) else f"a {type(source).__name__}"


Made = tuple[Package, Device]


def _for_targets(module: Module, options: Options, make: Callable[[Module, Options], Made]) -> Made:
    """What ``make`` gives for each of the option ``targets``, as one package, and what runs it here."""
    here = replace(options, targets=())
    if options.device == "reference":
        return make(module, here)
    package = compile_targets(options, lambda each: make(clone_module(module), each)[0])
    if not package.isas():  # what it does depends on its first feed
        return make(module, here)
    device = device_of(package, here)
    if device is None:
        message = f"none of the targets {', '.join(package.isas())} runs on this CPU, or as isa={here.isa}"
        raise ToolchainError(Diagnostic("cpu", message, hint="add one that does, as in targets=v4,v3"))
    return package, device


@uncollected()
def rebuild(
    package: Package, options: Options, key: bytes | None, sources: frozenset[FileId] = frozenset()
) -> Model:
    """Compile the graph and weights of a package, read from ``sources``, for this machine.

    Raises PackageError, ToolchainError.
    """
    plugins.use(options)
    try:
        module = source_module(package)
        with regions_of(module):
            made = _retyped(module, options, _no_one)
    except (GraphwrightError, OSError, MemoryError):
        raise
    except Exception as error:  # a hostile text breaks ops in ways of their own
        raise PackageError(Diagnostic("damaged-package", f"the graph is malformed: {error}")) from error
    return Model(*made, key, options, sources)


def _retyped(module: Module, options: Options, observe: Observer) -> tuple[Package, Device]:
    """As :func:`_compiled`, for types that follow from those of the inputs: others may be a stranger's."""
    gears = split_module(module)
    for each in (module,) if gears is None else gears.modules:
        retype(each)
    return _compiled(module, options, observe) if gears is None else compile_gears(gears, options, observe)


def source_module(package: Package) -> Module:
    """The graph that a package is compiled again from: the general one, where it has one."""
    constants = _constants(package)
    module = _unpacked_module(package, constants)
    if not package.general:
        return module
    constants.merge(module.constants)
    general = _parsed(package, package.general, constants)
    with regions_of(general):
        verify(general)
    return general


def unpacked_module(package: Package) -> Module:
    """The graph of a package with its constants in row-major order again."""
    return _unpacked_module(package, _constants(package))


def _constants(package: Package) -> ConstantPool:
    constants = ConstantPool()
    for digest, array in package.constants().items():
        constants.adopt(digest, array)
    return constants


def _unpacked_module(package: Package, constants: ConstantPool) -> Module:
    module = _parsed(package, package.graph, constants)
    with regions_of(module):
        for node in module.walk():
            if isinstance(node.op, Constant) and node.output.layout is not None:
                node.op = Constant(_unpacked(module, node.op.value, node.output), node.op.type)
        forget_layouts(module)
        verify(module)
    return module


def _parsed(package: Package, text: str, constants: ConstantPool) -> Module:
    try:
        module = parse_module(text, constants=constants)
    except UnknownOpError as error:
        raise package.lacking(error.name) from error
    module.metadata.update(package.metadata)
    return module


def _unpacked(module: Module, ref: ConstRef, value: Value) -> ConstRef:
    layout, packed = value.layout, module.constants[ref]
    shape = tuple(dim for dim in value.type.shape or () if isinstance(dim, int))
    assert layout is not None
    if sorted(layout.order) != list(range(len(shape))) or layout.physical_shape(shape) != packed.shape:
        raise ValueError(f"the pool's {packed.shape} is not {value.type} in {layout}")
    return module.constants.add(unpack(packed, layout, shape))


def _compiled(
    module: Module, options: Options, observe: Observer, assume_found: bool = True
) -> tuple[Package, Device]:
    """The package of ``module`` and the device that runs it.

    ``assume_found``: sizes that elements decide may be assumed to be as is likely, as those of inputs are.
    """
    gears = split_module(module)
    if gears is not None:
        return compile_gears(gears, options, observe)
    options = replace(options, isa=target_isa(options))
    stages, inputs = shape_stages(options), [value.type for value in module.main.inputs]
    if options.device == "reference" or module.symbols.undecided or not all(t.is_static for t in inputs):
        module.symbols.assume_nothing()
        run_stages(module, stages, options, observe)
    if options.device == "reference":
        return _reported(package_module(module, options), what_stays_dynamic(module)), Reference(module)
    open_ranks = any(type.shape is None for type in inputs) and lacks_ranks(module.main)
    if not module.symbols.undecided and not open_ranks:
        module.symbols.assumable, module.symbols.demands_all = None, True  # only what a decomposition adds
        return _assuming(module, options, observe)
    general = clone_module(module)
    module.symbols.assumable = None if assume_found else frozenset(symbols_in(inputs))
    run_stages(module, stages, options, observe)
    if open_ranks:
        variants = ranked(module)
        if is_only(variants):
            (module,) = variants
        elif all(cut(variant.main).is_whole for variant in variants):
            package, device = _late(general, variants, options)
            return _reported(package, what_stays_dynamic(general)), device
    package, device = _assuming(module, options, observe)
    if not module.symbols.guards:
        return package, device
    package = with_general(package, general)
    made = cache(partial(forms, package, options))
    return package, GuardedFallback(device, lambda shapes: made()(shapes))


def _assuming(module: Module, options: Options, observe: Observer) -> tuple[Package, Device]:
    """The package of ``module``, which may assume what it cannot prove, and the device that runs it."""
    records = run_stages(module, GRAPH_PASSES, options, observe)
    dynamic = what_stays_dynamic(module)
    if not cut(module.main).is_whole:
        run_stages(module, (BoundSizes(),), options, observe)
    found = cut(module.main)
    if not found.is_whole:
        package = _reported(package_stages(module, found, options, observe), dynamic)
        return package, with_variants(_staged(package, options), package, options)
    package = _reported(compile_modules([module], options, observe, prepared=records)[0].package, dynamic)
    device = NATIVE[options.device](package, package.targets[options.isa], options.plan_cache)
    if options.verify and isinstance(device, Cpu):
        verify_plan(package, device, options)
    return package, with_variants(device, package, options)


def _reported(package: Package, dynamic: Sequence[str]) -> Package:
    """``package``, whose report says as well what stayed dynamic."""
    return replace(package, report=with_dynamic(package.report, dynamic))


def _late(module: Module, variants: Sequence[Module], options: Options) -> tuple[Package, Device]:
    """The package of ``module`` with ``variants`` for ranks of its inputs, and the device that runs them."""
    package = package_variants(module, variants, options)
    held = []
    for variant in package.variants:
        single = package.of_variant(variant)
        device = NATIVE[options.device](single, variant.targets[options.isa], options.plan_cache)
        held.append((variant, with_variants(device, single, options)))
    return package, Late(_builder(module, options), held)


def builder(package: Package, options: Options) -> Callable[[FeedShapes], Device]:
    """Compiles the graph and weights of a package for the shapes of a feed."""
    plugins.use(options)
    return _builder(source_module(package), replace(options, isa=target_isa(options)))


def forms(package: Package, options: Options) -> Forms:
    """Compiles the general graph of a package for shapes that break a guard of its programs."""
    plugins.use(options)

    def compile(module: Module, assume_found: bool) -> Device:
        return _compiled(module, options, _no_one, assume_found)[1]

    return Forms(source_module(package), package.guards, compile)


def package_for(package: Package, shapes: FeedShapes, options: Options) -> Package:
    """The graph and weights of a package compiled for the shapes of a feed; of gears, what runs others."""
    plugins.use(options)
    module = source_module(package)
    gears = split_module(module)
    module = module if gears is None or gears.dynamic is None else gears.dynamic
    shape_all_inputs(module, shapes)
    return _compiled(module, options, _no_one)[0]


def _builder(module: Module, options: Options) -> Callable[[FeedShapes], Device]:
    """Compiles the module for the shapes of a feed."""

    def build(shapes: FeedShapes) -> Device:
        variant = clone_module(module)
        shape_all_inputs(variant, shapes)
        return _compiled(variant, options, _no_one)[1]

    return build


def part_builder(package: Package, options: Options) -> Callable[[PartStep, FeedShapes], Device]:
    """Compiles an open part of a package for the ranks of its inputs."""
    plugins.use(options)
    module = unpacked_module(package)

    def build(part: PartStep, shapes: FeedShapes) -> Device:
        made = part_of(module, part)
        rank_inputs(made, list(map(len, shapes)))
        return _compiled(made, options, _no_one)[1]

    return build


def _staged(package: Package, options: Options) -> Device:
    device = staged(package, options)
    assert device is not None and package.stages is not None  # it was compiled for these options
    for part in package.stages.parts() if options.verify else ():
        single = package.of_variant(part.program)
        for target in single.targets.values():
            verify_plan(single, Cpu(single, target), options)
    return device
