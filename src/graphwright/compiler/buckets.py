"""Models with gears (shape buckets): a static program per bucket, on one set of weights and generated
kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from graphwright.compiler.entries import Finished
from graphwright.compiler.executables import Compiled
from graphwright.compiler.interface import input_specs, output_specs
from graphwright.compiler.pipeline import shape_passes
from graphwright.compiler.run_passes import run_passes
from graphwright.config import Options
from graphwright.errors import Collector, Diagnostic, GraphwrightError, ModelError, OptionError
from graphwright.executable.nodes import Dispatch
from graphwright.gears import Gears, Row, row_text
from graphwright.ir.clone import clone_module
from graphwright.ir.graph import Module
from graphwright.ir.types import TensorType
from graphwright.passes.bind_sizes import shape_inputs
from graphwright.passes.buckets import BucketModules, joined_module, padded_modules
from graphwright.passes.padding_proof import refuse_padding
from graphwright.records import replace
from graphwright.support.escaping import terminal


def bucket_modules(module: Module, gears: Gears, options: Options) -> BucketModules:
    """A module per gear with inferred shapes, and one for all other shapes if these are to
    run.

    Raises OptionError if gears contradict each other or the inputs, ModelError if the graph rejects the
    shapes of a gear or cannot be padded.
    """
    if module.state_updates():
        hint = "use dynamic dimensions: one program runs them all"
        raise OptionError(Diagnostic("gears", "a model with states does not support gears", hint=hint))
    rows = gears.rows(module.main)
    _set_ranks(module, rows[0])
    run_passes(module, shape_passes(module, options), options)
    bound = [_bound(module, row) for row in rows]
    _raise_faults(bound, rows, OptionError)
    _refuse_dynamic_sizes([each for each in bound if isinstance(each, Module)], rows)
    inferred = [_inferred(each, options) for each in bound if isinstance(each, Module)]
    _raise_faults(inferred, rows, ModelError)
    buckets = tuple(each for each in inferred if isinstance(each, Module))
    if gears.between == "pad":
        refuse_padding(module, buckets)
    dynamic = clone_module(module) if gears.between == "dynamic" else None
    return BucketModules(module, gears.between, buckets, dynamic)


def _set_ranks(module: Module, row: Row) -> None:
    """Gives inputs of unknown rank the rank of their gears."""
    for value in module.main.inputs:
        if value.type.shape is None and value.name in row:
            dims = module.symbols.fresh_sizes(value.name, len(row[value.name]))
            value.type = TensorType(value.type.dtype, dims)


def _bound(module: Module, row: Row) -> Module | GraphwrightError:
    variant = clone_module(module)
    try:
        shape_inputs(variant, {name: list(sizes) for name, sizes in row.items()})
    except GraphwrightError as error:
        return error
    return variant


def _inferred(module: Module, options: Options) -> Module | GraphwrightError:
    try:
        run_passes(module, shape_passes(module, options), options)
    except GraphwrightError as error:
        return error
    return module


def _raise_faults(
    outcomes: Sequence[Module | GraphwrightError], rows: Sequence[Row], kind: type[GraphwrightError]
) -> None:
    """Raises ``kind`` with the faults of every gear that could not be made."""
    faults = Collector(kind)
    for number, (outcome, row) in enumerate(zip(outcomes, rows, strict=True)):
        if isinstance(outcome, GraphwrightError):
            faults.extend(
                replace(d, message=f"gear {number} ({row_text(row)}): {d.message}")
                for d in outcome.diagnostics
            )
    faults.raise_if_any()


def _refuse_dynamic_sizes(modules: Sequence[Module], rows: Sequence[Row]) -> None:
    """Raises OptionError if a gear leaves a size symbolic or equals another gear."""
    faults = Collector(OptionError)
    seen: dict[tuple[object, ...], int] = {}
    for number, (module, row) in enumerate(zip(modules, rows, strict=True)):
        types = [value.type for value in module.main.inputs]
        for value in module.main.inputs:
            if not value.type.is_static:
                message = f"gear {number} ({row_text(row)}) leaves a size of input {value} dynamic"
                faults.add("gears", message, hint="give all sizes in the gears or in shapes")
        first = seen.setdefault(tuple(types), number)
        if first != number:
            faults.add("gears", f"gears {first} and {number} are the same: {row_text(row)}")
    faults.raise_if_any()


class Buckets:
    """An entry draft with a static program per bucket, and what runs other shapes."""

    def __init__(self, buckets: BucketModules) -> None:
        self._buckets = buckets
        padded = padded_modules(buckets) if buckets.otherwise == "pad" else []
        self.modules = [*buckets.buckets, *(padded if buckets.dynamic is None else [buckets.dynamic])]

    def finished(self, compiled: Sequence[Compiled]) -> Finished:
        """The entry: a dispatch by shape."""
        joined = joined_module(self._buckets)
        cases = tuple(each.executable for each in compiled)
        main = Dispatch(input_specs(joined), output_specs(joined), cases)
        largest = _largest(self._buckets)
        report = _report(self._buckets, largest, compiled[largest].report)
        stands = compiled[largest]
        return Finished(joined, Compiled(main, report, stands.decisions, records=stands.records))


def _largest(buckets: BucketModules) -> int:
    """Index of the largest bucket, which reports describe."""
    elements = [sum(prod(v.type.sizes) for v in bucket.main.inputs) for bucket in buckets.buckets]
    return elements.index(max(elements))


def _report(buckets: BucketModules, largest: int, report: str) -> str:
    """The list of buckets, then the ``report`` of the largest one."""
    rows = [{value.name: value.type.sizes for value in bucket.main.inputs} for bucket in buckets.buckets]
    lines = [f"  {number}: {row_text(row)}" for number, row in enumerate(rows)]
    lines += ["  all other shapes: one program for dynamic dimensions"] if buckets.dynamic else []
    head = f"gears, of which {largest} is reported below"
    return "\n".join(map(terminal, [head, *lines])) + "\n" + report
