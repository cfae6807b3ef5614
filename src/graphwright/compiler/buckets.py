"""Models with gears (shape buckets): a static program for each, all on one set of weights and kernels."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from graphwright.compiler.executables import compile_executables
from graphwright.compiler.modules import (
    Observer,
    input_specs,
    output_specs,
    package_module,
    program_of,
    run_passes,
)
from graphwright.compiler.pipeline import shape_passes
from graphwright.config import Options
from graphwright.errors import Collector, Diagnostic, GraphwrightError, ModelError, OptionError
from graphwright.executable.nodes import Dispatch, Executable
from graphwright.gears import Gears, Row, row_text
from graphwright.ir.clone import clone_module
from graphwright.ir.graph import Module
from graphwright.ir.names import terminal
from graphwright.ir.types import TensorType
from graphwright.package.package import MAIN, Package
from graphwright.passes.bind_sizes import shape_inputs
from graphwright.passes.buckets import BucketModules, joined_module, padded_modules
from graphwright.passes.padding import refuse_padding
from graphwright.records import replace
from graphwright.runtime.target import for_this_cpu


def bucket_modules(module: Module, gears: Gears, options: Options) -> BucketModules:
    """The model for each gear, and for all other shapes if they are to run, shapes inferred.

    Raises OptionError for gears that contradict each other or the inputs, ModelError where the graph refuses
    one, or padding.
    """
    if module.updates():
        hint = "leave sizes open: one program runs all of them"
        raise OptionError(Diagnostic("gears", "a model with states has no gears", hint=hint))
    rows = gears.rows(module.main)
    _take_ranks(module, rows[0])
    run_passes(module, shape_passes(options), options)
    bound = [_bound(module, row) for row in rows]
    _raise_faults(bound, rows, OptionError)
    _refuse_open_sizes([made for made in bound if isinstance(made, Module)], rows)
    inferred = [_inferred(made, options) for made in bound if isinstance(made, Module)]
    _raise_faults(inferred, rows, ModelError)
    made = tuple(made for made in inferred if isinstance(made, Module))
    if gears.between == "pad":
        refuse_padding(module, made)
    dynamic = clone_module(module) if gears.between == "dynamic" else None
    return BucketModules(module, gears.between, made, dynamic)


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
        run_passes(module, shape_passes(options), options)
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


def compile_buckets(made: BucketModules, options: Options, observe: Observer) -> Package:
    """The package of all buckets: a program for each on one set of weights, and what runs other shapes.
    Raises ModelError, ToolchainError.
    """
    options = for_this_cpu(options)
    padded = padded_modules(made) if made.otherwise == "pad" else []
    others = padded if made.dynamic is None else [made.dynamic]
    if options.device == "reference":
        return _interpreted(made, others, options, observe)
    compiled = compile_executables([*made.buckets, *others], options, observe)
    joined = joined_module(made)
    observe("gears", joined)
    report = _report(made, compiled.reports)
    package = compiled.package(joined, _dispatch(joined, compiled.executables), options, report)
    return replace(package, inputs=package.inputs[:-1])


def _dispatch(joined: Module, cases: Sequence[Executable]) -> Dispatch:
    """The sizes, which are the last input of the graph, are no input of its users."""
    return Dispatch(input_specs(joined)[:-1], output_specs(joined), tuple(cases))


def _interpreted(
    made: BucketModules, others: Sequence[Module], options: Options, observe: Observer
) -> Package:
    """What the reference device runs."""
    joined = joined_module(made)
    observe("gears", joined)
    package = package_module(joined, options)
    main = _dispatch(joined, [program_of(module, {}, module) for module in (*made.buckets, *others)])
    return replace(package, inputs=package.inputs[:-1], entries={MAIN: main})


def _report(made: BucketModules, reports: Sequence[str]) -> str:
    """What was done to the largest bucket, which stands for all."""
    rows = [{value.name: value.type.sizes for value in bucket.main.inputs} for bucket in made.buckets]
    elements = [sum(map(prod, row.values())) for row in rows]
    largest = elements.index(max(elements))
    lines = [f"  {number}: {row_text(row)}" for number, row in enumerate(rows)]
    lines += ["  all other shapes: one program for open sizes"] if made.dynamic else []
    head = f"gears, of which {largest} is reported below"
    return "\n".join(map(terminal, [head, *lines])) + "\n" + reports[largest]
