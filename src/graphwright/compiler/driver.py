"""Compiles modules to a package: decides which executables each entry consists of, and which shapes each one
serves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphwright.compiler.buckets import Buckets
from graphwright.compiler.entries import EntryDraft, Single, compile_entries
from graphwright.compiler.partition import partition
from graphwright.compiler.pipeline import shape_passes
from graphwright.compiler.ranks import RankVariants, has_unknown_ranks, is_only_variant, rank_variants
from graphwright.compiler.run_passes import Observer, observe_nothing, run_passes
from graphwright.config import Options
from graphwright.errors import Diagnostic, ModelError
from graphwright.ir.clone import clone_module
from graphwright.ir.free_symbols import symbols_in
from graphwright.ir.graph import Module
from graphwright.ir.symbols import Constraint, SymbolError
from graphwright.package.package import MAIN, Package
from graphwright.package.weights import Weights
from graphwright.passes.base import Record
from graphwright.passes.buckets import BucketModules, split_module
from graphwright.passes.retype import retype
from graphwright.records import dataclass
from graphwright.runtime.devices.this_cpu import for_this_cpu
from graphwright.support.event_sink import recording_stages
from graphwright.tuning.store import with_record

Source = Module | BucketModules
"""The source of one entry."""


def compile_sources(
    sources: Mapping[str, Source],
    options: Options,
    observe: Observer = observe_nothing,
    shared: Weights | None = None,
    *,
    assume_all_sizes: bool = True,
) -> Package:
    """Compiles a package with one entry per source. The sources are rewritten in place; the weights of the
    package begin with ``shared``.

    ``assume_all_sizes``: programs may assume, under guards, the likely values of data-dependent sizes as well
    as those of input sizes. Raises ModelError, ToolchainError, PluginError.
    """
    options, observe = with_record(for_this_cpu(options)), recording_stages(observe)
    driver = _Driver(options, observe, assume_all_sizes)
    try:
        drafts = {name: driver.draft(source) for name, source in sources.items()}
        return compile_entries(drafts, options, observe, shared)
    except SymbolError as error:  # such as a product of two sums, which no dim can express
        hint = "fix some of the dynamic dimensions, as in shapes={'x': (8, 64)}"
        raise ModelError(Diagnostic("sizes", f"dynamic dimensions make {error}", hint=hint)) from error


def compile_module(module: Module, options: Options, *, assume_all_sizes: bool = True) -> Package:
    """Compiles a package of one entry, as :func:`compile_sources` does."""
    return compile_sources({MAIN: module}, options, assume_all_sizes=assume_all_sizes)


def retyped(module: Module) -> Source:
    """``module`` or its buckets, with all types inferred again from those of the inputs, as the types in an
    untrusted file may be wrong. Raises ModelError.
    """
    buckets = split_module(module)
    for each in (module,) if buckets is None else buckets.modules:
        retype(each)
    return module if buckets is None else buckets


@dataclass(frozen=True)
class _Driver:
    """Decides which modules are compiled for a source, before compilation."""

    options: Options
    observe: Observer
    assume_all_sizes: bool

    def draft(self, source: Source) -> EntryDraft:
        """The modules that are compiled for ``source``."""
        buckets = source if isinstance(source, BucketModules) else split_module(source)
        if buckets is not None:
            return Buckets(buckets)
        assert isinstance(source, Module)
        return self._draft_module(source)

    def _draft_module(self, module: Module) -> EntryDraft:
        is_reference = self.options.device == "reference"
        records: list[Record] = []
        if is_reference or module.symbols.undecided or not _is_static(module):
            module.symbols.assume_nothing()
            records = self._infer_shapes(module)
        if is_reference:
            return Single(module, records=records)
        if module.symbols.undecided or _has_unknown_ranks(module):
            return self._draft_assuming(module, records)
        module.symbols.assume_of(None)
        module.symbols.demands_all = True  # constraints that decompositions add are checked, not assumed
        return Single(module, records=records)

    def _draft_assuming(self, module: Module, records: Sequence[Record]) -> EntryDraft:
        """A draft for a ``module`` with unproved size relations or unknown ranks. It has programs that assume
        the likely sizes, or one program per combination of ranks. For other shapes, the general graph is
        compiled at run time.
        """
        general = clone_module(module)
        module, inferred = self._infer_assuming(module, general)
        records = [*records, *inferred]
        if _has_unknown_ranks(general):
            variants = rank_variants(module)
            if is_only_variant(variants):
                (module,) = variants
            elif all(partition(each.main).is_whole for each in variants):
                return RankVariants(general, variants)
        return Single(module, general, records)

    def _infer_assuming(self, module: Module, general: Module) -> tuple[Module, list[Record]]:
        """``module``, or another copy of ``general``, with its likely sizes assumed. If assumptions
        contradict each other or the model, inference starts again without them.
        """
        inputs = frozenset(symbols_in(value.type for value in general.main.inputs))
        refused: frozenset[Constraint] = frozenset()
        while True:
            symbols = module.symbols
            symbols.assume_of(None if self.assume_all_sizes else inputs, refused)
            wrong = symbols.conflicts
            try:
                records = self._infer_shapes(module)
            except ModelError:
                wrong = wrong or set(symbols.guards)
                if not wrong:
                    raise
            else:
                if not wrong:
                    return module, records
            refused |= wrong
            module = clone_module(general)

    def _infer_shapes(self, module: Module) -> list[Record]:
        return run_passes(module, shape_passes(module, self.options), self.options, self.observe)


def _is_static(module: Module) -> bool:
    """Whether all input shapes are static and no size is data-dependent."""
    return not module.symbols.ranges and all(value.type.is_static for value in module.main.inputs)


def _has_unknown_ranks(module: Module) -> bool:
    """Whether ranks are unknown because ranks of inputs are."""
    return any(value.type.shape is None for value in module.main.inputs) and has_unknown_ranks(module.main)
