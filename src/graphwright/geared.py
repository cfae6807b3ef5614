"""Compiling models with gears: one static program for each, all on one set of weights and kernels."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod

from graphwright.compiler import Observer, compile_modules, package_module, run_stages, shape_stages
from graphwright.config import Options
from graphwright.errors import Collector, GraphwrightError, ModelError, OptionError
from graphwright.gears import Gears, Row, row_text
from graphwright.ir.clone import clone_module
from graphwright.ir.graph import Module
from graphwright.ir.names import terminal
from graphwright.ir.types import TensorType
from graphwright.loading import staged, with_variants
from graphwright.package.package import Package, Variant
from graphwright.package.weights import UnpackedWeights, Weights
from graphwright.passes.bind_sizes import shape_inputs
from graphwright.passes.bound_sizes import BoundSizes
from graphwright.passes.gears import GearModules, joined_module
from graphwright.passes.padding import refuse_padding
from graphwright.passes.pipeline import GRAPH_PASSES
from graphwright.records import replace
from graphwright.runtime.devices import NATIVE
from graphwright.runtime.devices.base import Device
from graphwright.runtime.devices.cpu import Cpu
from graphwright.runtime.devices.geared import geared, staged_gears
from graphwright.runtime.devices.plan_check import verify_plan
from graphwright.runtime.devices.reference import Reference
from graphwright.runtime.devices.target import Shared, target_isa
from graphwright.stages.build import package_stages
from graphwright.stages.cut import cut


def gear_modules(module: Module, gears: Gears, options: Options) -> GearModules:
    """The model for each gear, and for all other shapes if they are to run, shapes inferred.

    Raises OptionError for gears that contradict each other or the inputs, ModelError where the graph refuses
    one, or padding.
    """
    rows = gears.rows(module.main)
    _take_ranks(module, rows[0])
    run_stages(module, shape_stages(options), options)
    bound = [_bound(module, row) for row in rows]
    _raise_faults(bound, rows, OptionError)
    _refuse_open_sizes([made for made in bound if isinstance(made, Module)], rows)
    inferred = [_inferred(made, options) for made in bound if isinstance(made, Module)]
    _raise_faults(inferred, rows, ModelError)
    made = tuple(made for made in inferred if isinstance(made, Module))
    if gears.between == "pad":
        refuse_padding(module, made)
    dynamic = clone_module(module) if gears.between == "dynamic" else None
    return GearModules(module, gears.between, made, dynamic)


def _take_ranks(module: Module, row: Row) -> None:
    """Inputs of unknown rank have that of their gears."""
    for value in module.main.inputs:
        if value.type.shape is None and value.name in row:
            dims = (module.symbols.fresh(f"{value.name}_{axis}") for axis in range(len(row[value.name])))
            value.type = TensorType(value.type.dtype, tuple(dims))


def _bound(module: Module, row: Row) -> Module | GraphwrightError:
    variant = clone_module(module)
    try:
        shape_inputs(variant, {name: list(sizes) for name, sizes in row.items()})
    except GraphwrightError as error:
        return error
    return variant


def _inferred(module: Module, options: Options) -> Module | GraphwrightError:
    try:
        run_stages(module, shape_stages(options), options)
    except GraphwrightError as error:
        return error
    return module


def _raise_faults(
    made: Sequence[Module | GraphwrightError], rows: Sequence[Row], kind: type[GraphwrightError]
) -> None:
    """Raise ``kind`` with what is wrong with each gear that could not be made."""
    faults = Collector(kind)
    for number, (outcome, row) in enumerate(zip(made, rows, strict=True)):
        if isinstance(outcome, GraphwrightError):
            faults.extend(
                replace(d, message=f"gear {number} ({row_text(row)}): {d.message}")
                for d in outcome.diagnostics
            )
    faults.raise_if_any()


def _refuse_open_sizes(modules: Sequence[Module], rows: Sequence[Row]) -> None:
    """An OptionError where a gear leaves a size open, or is another's."""
    faults = Collector(OptionError)
    seen: dict[tuple[object, ...], int] = {}
    for number, (module, row) in enumerate(zip(modules, rows, strict=True)):
        types = [value.type for value in module.main.inputs]
        for value in module.main.inputs:
            if not value.type.is_static:
                message = f"gear {number} ({row_text(row)}) leaves sizes of input {value} open"
                faults.add("gears", message, hint="say them in the gears, or with shapes")
        first = seen.setdefault(tuple(types), number)
        if first != number:
            faults.add("gears", f"gears {first} and {number} are the same: {row_text(row)}")
    faults.raise_if_any()


def compile_gears(
    made: GearModules, options: Options, observe: Observer = lambda name, product: None
) -> tuple[Package, Device]:
    """The package of all gears and the device that runs them. Raises ModelError, ToolchainError."""
    options = replace(options, isa=target_isa(options))
    if options.device == "reference":
        return _interpreted(made, options, observe)
    records = [run_stages(module, GRAPH_PASSES, options, observe) for module in made.modules]
    if not all(cut(module.main).is_whole for module in made.modules):
        return _staged(made, options, observe)
    compiled = compile_modules(made.modules, options, observe, prepared=records[0])
    joined = joined_module(_with_modules(made, [each.module for each in compiled]))
    observe("gears", joined)
    spare = {digest: array for each in compiled for digest, array in each.spare.items()}
    parts = [each.package for each in compiled]
    package = replace(
        _whole(joined, options, parts[0].weights),
        report=_report(made, parts),
        spare=partial(UnpackedWeights, spare),
        variants=tuple(Variant(part.inputs, part.outputs, part.targets) for part in parts),
        between=made.between,
    )
    device = geared(package, partial(_native, options))
    assert device is not None
    return package, device


def _staged(made: GearModules, options: Options, observe: Observer) -> tuple[Package, Device]:
    """What :func:`compile_gears` gives where the host runs nodes between programs: it takes the Case as well,
    and what lies between such nodes is compiled for each gear.
    """
    joined = joined_module(made)
    run_stages(joined, (*GRAPH_PASSES, BoundSizes()), options, observe)
    package = package_stages(joined, cut(joined.main), options, observe)
    parts = [package_module(module, options) for module in made.modules]
    variants = tuple(Variant(part.inputs, part.outputs, {}) for part in parts)
    package = replace(package, inputs=package.inputs[:-1], variants=variants, between=made.between)
    device = staged(package, options)
    assert device is not None
    return package, staged_gears(package, device, lambda each, part: with_variants(each, part, options))


def _native(options: Options, package: Package, shared: Shared) -> Device:
    """What runs the package of one gear."""
    target = package.targets[options.isa]
    device = NATIVE[options.device](package, target, options.plan_cache, shared)
    if options.verify and isinstance(device, Cpu):
        verify_plan(package, device, options)
    return with_variants(device, package, options)


def _interpreted(made: GearModules, options: Options, observe: Observer) -> tuple[Package, Device]:
    """What :func:`compile_gears` gives on the reference device."""
    joined = joined_module(made)
    observe("gears", joined)
    parts = [package_module(module, options) for module in made.modules]
    variants = tuple(Variant(part.inputs, part.outputs, {}) for part in parts)
    package = replace(_whole(joined, options), variants=variants, between=made.between)
    modules = iter(made.modules)
    device = geared(package, lambda part, shared: Reference(next(modules)))
    assert device is not None
    return package, device


def _whole(joined: Module, options: Options, weights: Weights | None = None) -> Package:
    """A package of the joined module without what runs it; the sizes are no input of its users."""
    package = package_module(joined, options, weights)
    return replace(package, inputs=package.inputs[:-1])


def _with_modules(made: GearModules, modules: Sequence[Module]) -> GearModules:
    """``made`` of other modules, in the order of ``made.modules``."""
    count = len(made.gears)
    return replace(made, gears=tuple(modules[:count]), dynamic=next(iter(modules[count:]), None))


def _report(made: GearModules, parts: Sequence[Package]) -> str:
    """What was done to the largest gear, which stands for all."""
    rows = [{spec.name: spec.shape or () for spec in part.inputs} for part in parts[: len(made.gears)]]
    elements = [sum(prod(map(int, shape)) for shape in row.values()) for row in rows]
    largest = elements.index(max(elements))
    lines = [f"  {number}: {row_text(row)}" for number, row in enumerate(rows)]
    lines += ["  all other shapes: one program for open sizes"] if made.dynamic else []
    head = f"gears, of which {largest} is reported below"
    return "\n".join(map(terminal, [head, *lines])) + "\n" + parts[largest].report
