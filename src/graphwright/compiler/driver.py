"""From modules to their package: which executables there are to be, and when one of them runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphwright.compiler.buckets import Buckets
from graphwright.compiler.entries import EntryDraft, Single, compile_entries
from graphwright.compiler.modules import Observer, run_passes
from graphwright.compiler.partition import partition
from graphwright.compiler.pipeline import shape_passes
from graphwright.compiler.ranks import RankVariants, is_only, lacks_ranks, ranked
from graphwright.config import Options
from graphwright.errors import Diagnostic, ModelError
from graphwright.ir.clone import clone_module
from graphwright.ir.free_symbols import symbols_in
from graphwright.ir.graph import Module
from graphwright.ir.symbols import SymbolError
from graphwright.package.package import MAIN, Package
from graphwright.package.weights import Weights
from graphwright.passes.base import Record
from graphwright.passes.buckets import BucketModules, split_module
from graphwright.passes.retype import retype
from graphwright.runtime.target import for_this_cpu
from graphwright.support.event_sink import recording_stages
from graphwright.tuning.store import with_record

Source = Module | BucketModules
"""What one entry is compiled from."""


def observe_nothing(name: str, product: object) -> None:
    """An observer of no stage."""


def compile_sources(
    sources: Mapping[str, Source],
    options: Options,
    observe: Observer = observe_nothing,
    assume_found: bool = True,
    shared: Weights | None = None,
) -> Package:
    """The package with an entry of each of ``sources``, which are changed. Its weights begin with ``shared``.

    ``assume_found``: sizes that elements decide may be assumed to be as is likely, as those of inputs are.
    Raises ModelError, ToolchainError, PluginError.
    """
    options, observe = with_record(for_this_cpu(options)), recording_stages(observe)
    try:
        drafts = {name: _draft(each, options, observe, assume_found) for name, each in sources.items()}
        return compile_entries(drafts, options, observe, shared)
    except SymbolError as error:  # products of sums of sizes, which no type states
        hint = "give some of the sizes that are open, as in shapes={'x': (8, 64)}"
        raise ModelError(Diagnostic("sizes", f"dynamic dimensions make {error}", hint=hint)) from error


def compile_module(
    module: Module, options: Options, observe: Observer = observe_nothing, assume_found: bool = True
) -> Package:
    """As :func:`compile_sources`, of one entry."""
    return compile_sources({MAIN: module}, options, observe, assume_found)


def retyped(module: Module) -> Source:
    """``module``, or its gears, with the types that follow from those of the inputs: others may be a
    stranger's. Raises ModelError.
    """
    buckets = split_module(module)
    for each in (module,) if buckets is None else buckets.modules:
        retype(each)
    return module if buckets is None else buckets


def _draft(source: Source, options: Options, observe: Observer, assume_found: bool) -> EntryDraft:
    """The modules that are compiled for ``source``."""
    buckets = source if isinstance(source, BucketModules) else split_module(source)
    if buckets is not None:
        return Buckets(buckets)
    assert isinstance(source, Module)
    return _draft_module(source, options, observe, assume_found)


def _draft_module(module: Module, options: Options, observe: Observer, assume_found: bool) -> EntryDraft:
    records: list[Record] = []
    if options.device == "reference" or module.symbols.undecided or not _is_static(module):
        module.symbols.assume_nothing()
        records = run_passes(module, shape_passes(module, options), options, observe)
    if options.device == "reference":
        return Single(module, records=records)
    if module.symbols.undecided or _lacks_ranks(module):
        return _draft_assuming(module, records, options, observe, assume_found)
    module.symbols.assume_of(None)
    module.symbols.demands_all = True  # only what a decomposition adds
    return Single(module, records=records)


def _draft_assuming(
    module: Module, records: Sequence[Record], options: Options, observe: Observer, assume_found: bool
) -> EntryDraft:
    """Programs for what is likely, or for each rank, where inference left something of ``module`` open, and
    the general graph, which is compiled for other shapes.
    """
    general, inputs = clone_module(module), [value.type for value in module.main.inputs]
    module.symbols.assume_of(None if assume_found else frozenset(symbols_in(inputs)))
    records = [*records, *run_passes(module, shape_passes(module, options), options, observe)]
    if _lacks_ranks(general):
        ranks = ranked(module)
        if is_only(ranks):
            (module,) = ranks
        elif all(partition(each.main).is_whole for each in ranks):
            return RankVariants(general, ranks)
    return Single(module, general, records)


def _is_static(module: Module) -> bool:
    """Whether all sizes are numbers: those of inputs, and none that elements decide."""
    return not module.symbols.ranges and all(value.type.is_static for value in module.main.inputs)


def _lacks_ranks(module: Module) -> bool:
    """Whether ranks are not known because those of inputs are not."""
    return any(value.type.shape is None for value in module.main.inputs) and lacks_ranks(module.main)
