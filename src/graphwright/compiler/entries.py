"""Entries of a package: which modules are compiled for an entry, and how it is assembled from their
executables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Protocol

from graphwright.compiler.executables import Compiled, compile_executables, interpreted_executables
from graphwright.compiler.interface import constraint_texts, initial_values, input_specs, output_specs, states
from graphwright.compiler.remark_text import encode_remarks
from graphwright.compiler.remarks import remarks_of
from graphwright.compiler.run_passes import Observer
from graphwright.config import Options
from graphwright.cost.choices import digest_of
from graphwright.errors import Collector, ModelError
from graphwright.executable.nodes import COMPILE, Dispatch, Executable
from graphwright.executable.specs import TensorSpec
from graphwright.fusion import edit_model
from graphwright.fusion.decision_text import encode_decisions
from graphwright.ir.constants.deferred import Deferred
from graphwright.ir.graph import Module
from graphwright.ir.op import Array
from graphwright.ir.op.plugin_ops import is_plugin_op, plugin_of
from graphwright.ir.text import print_module
from graphwright.package.pack_weights import UnpackedWeights
from graphwright.package.package import Entry, Package
from graphwright.package.weights import Weights
from graphwright.passes.base import Record
from graphwright.records import dataclass, replace

Constants = dict[str, Array | Deferred]
"""Arrays by digest."""


@dataclass(frozen=True)
class Finished:
    """A compiled entry. ``graph`` is the graph that the package shows; ``general`` is the graph without
    guards, from which programs for other shapes are compiled.
    """

    graph: Module
    compiled: Compiled
    general: Module | None = None

    def entry(self) -> Entry:
        """The entry as a package stores it."""
        return Entry(
            graph=print_module(self.graph, constants="short"),
            inputs=input_specs(self.graph),
            outputs=output_specs(self.graph),
            executable=self.compiled.executable,
            constraints=constraint_texts(self.graph.symbols.constraints),
            general="" if self.general is None else print_module(self.general, constants="short"),
            metadata=dict(self.graph.metadata),
            report=self.compiled.report,
            decisions=encode_decisions(self.compiled.decisions),
            remarks=encode_remarks(remarks_of(self.compiled.records)),
            starts=initial_values(self.graph),
        )

    def spare(self, weights: Weights) -> Constants:
        """The constants of both graphs that ``weights`` lack. Constants of the general graph that unpacking a
        packed weight restores are left out.
        """
        held = [ref.digest for ref in self.graph.constants if ref.digest in weights.tensors]
        packed = {(how.source, how.shape) for name in held if (how := weights.packings.get(name)) is not None}
        spare = _missing_constants(self.graph, weights)
        if self.general is None:
            return spare
        missing = _missing_constants(self.general, weights).items()
        return {**{name: array for name, array in missing if (name, array.shape) not in packed}, **spare}


class EntryDraft(Protocol):
    """An entry whose ``modules`` are still to be compiled."""

    @property
    def modules(self) -> Sequence[Module]:
        """The modules to compile for this entry, in this order."""

    def finished(self, compiled: Sequence[Compiled]) -> Finished:
        """The entry, given what each module was compiled to. The modules have been rewritten
        by the passes.
        """


@dataclass(frozen=True)
class Single:
    """One program for all shapes, or a host program. ``general`` is compiled for shapes that
    violate a guard.
    """

    module: Module
    general: Module | None = None
    records: Sequence[Record] = ()
    """The results of earlier passes on the module."""

    @property
    def modules(self) -> Sequence[Module]:
        """The one module."""
        return (self.module,)

    def finished(self, compiled: Sequence[Compiled]) -> Finished:
        """The executable, inside a dispatch if it has guards."""
        (only,) = compiled
        only = replace(only, records=(*self.records, *only.records))
        if self.general is None or not self.module.symbols.guards:
            return Finished(self.module, only)
        guarded = replace(only, executable=jit_dispatch(self.general, (only.executable,)))
        return Finished(self.module, guarded, self.general)


def jit_dispatch(general: Module, cases: Sequence[Executable]) -> Dispatch:
    """A dispatch to the first of ``cases`` that accepts the shapes of a run; for other shapes ``general`` is
    compiled at run time.
    """
    specs = input_specs(general), output_specs(general)
    return Dispatch(*specs, tuple(cases), COMPILE, states=states(general))


def compile_entries(
    drafts: Mapping[str, EntryDraft], options: Options, observe: Observer, shared: Weights | None
) -> Package:
    """Compiles all entries on one set of weights, which begins with ``shared``.

    Raises ModelError, ToolchainError.
    """
    modules = [module for draft in drafts.values() for module in draft.modules]
    if options.device == "reference":
        executables, weights = interpreted_executables(modules)
    else:
        executables, weights = compile_executables(modules, options, observe, shared)
    compiled = iter(executables)
    finished = {
        name: draft.finished([next(compiled) for _ in draft.modules]) for name, draft in drafts.items()
    }
    entries = {name: each.entry() for name, each in finished.items()}
    _require_same_states(entries)
    spare: Constants = {}
    for each in finished.values():
        spare |= each.spare(weights)
    graphs = [each.graph for each in finished.values()]
    return Package(
        entries,
        weights,
        options={
            **options.key(),
            "tuning": digest_of(choice for each in executables for choice in each.choices),
            "fusion_model": edit_model.digest(),
        },
        spare=partial(UnpackedWeights, spare),
        plugins={
            n.op.name: plugin_of(type(n.op)) for m in graphs for n in m.walk() if is_plugin_op(type(n.op))
        },
    )


def _missing_constants(module: Module, weights: Weights) -> Constants:
    """The constants of ``module`` that ``weights`` lack."""
    refs = (ref for ref in module.constants if ref.digest not in weights.tensors)
    return {ref.digest: module.constants.stored(ref) for ref in refs}


def _require_same_states(entries: Mapping[str, Entry]) -> None:
    """Raises ModelError if a state that several entries update has different types in them."""
    faults = Collector(ModelError)
    seen: dict[str, tuple[str, TensorSpec]] = {}
    for name, entry in entries.items():
        for spec in entry.states:
            first, known = seen.setdefault(spec.name, (name, spec))
            if (spec.dtype, spec.shape) != (known.dtype, known.shape):
                types = f"{known.type_text} in entry {first!r}, {spec.type_text} in {name!r}"
                hint = "entries share states by name: give both the same type, or different names"
                faults.add("state", f"state {spec.name!r} is {types}", hint=hint)
    faults.raise_if_any()
