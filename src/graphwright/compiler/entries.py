"""Entries of a package: the modules that are compiled for one, and what is made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Protocol

from graphwright.compiler.executables import Compiled, compile_executables, interpreted_executables
from graphwright.compiler.modules import Observer, constraint_texts, input_specs, output_specs, starts, states
from graphwright.compiler.remark_text import encode_remarks
from graphwright.compiler.remarks import remarks_of
from graphwright.config import Options
from graphwright.cost.choices import digest_of
from graphwright.errors import Collector, ModelError
from graphwright.executable.nodes import COMPILE, Dispatch, Executable
from graphwright.executable.specs import TensorSpec
from graphwright.fusion.decision_text import encode_decisions
from graphwright.ir.deferred import Deferred
from graphwright.ir.graph import Array, Module
from graphwright.ir.plugin_ops import is_plugin_op, plugin_of
from graphwright.ir.text import print_module
from graphwright.package.package import Entry, Package
from graphwright.package.weights import UnpackedWeights, Weights
from graphwright.passes.base import Record
from graphwright.records import dataclass, replace

Constants = dict[str, Array | Deferred]
"""Arrays by digest."""


@dataclass(frozen=True)
class Finished:
    """An entry whose modules were compiled: the graph of its text, and the graph that assumes nothing."""

    graph: Module
    compiled: Compiled
    general: Module | None = None

    def entry(self) -> Entry:
        """As a package holds it."""
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
            starts=starts(self.graph),
        )

    def spare(self, weights: Weights) -> Constants:
        """The constants of both graphs that ``weights`` lack; those of the general one as well that the
        other gives when it is unpacked.
        """
        held = [ref.digest for ref in self.graph.constants if ref.digest in weights.tensors]
        packed = {(how.source, how.shape) for name in held if (how := weights.packings.get(name)) is not None}
        spare = _beside(self.graph, weights)
        if self.general is None:
            return spare
        missing = _beside(self.general, weights).items()
        return {**{name: array for name, array in missing if (name, array.shape) not in packed}, **spare}


class EntryDraft(Protocol):
    """An entry before ``modules`` are compiled for it."""

    @property
    def modules(self) -> Sequence[Module]:
        """What is compiled for it, in this order."""

    def finished(self, compiled: Sequence[Compiled]) -> Finished:
        """The entry of what was made of each module, which is now what was compiled."""


@dataclass(frozen=True)
class Single:
    """One program for all sizes, or a host program. ``general`` is compiled for sizes that break a guard."""

    module: Module
    general: Module | None = None
    records: Sequence[Record] = ()
    """What passes did to the module so far."""

    @property
    def modules(self) -> Sequence[Module]:
        """The one module."""
        return (self.module,)

    def finished(self, compiled: Sequence[Compiled]) -> Finished:
        """A program, behind a dispatch where it assumes something of sizes."""
        (made,) = compiled
        made = replace(made, records=(*self.records, *made.records))
        if self.general is None or not self.module.symbols.guards:
            return Finished(self.module, made)
        guarded = replace(made, executable=jit_dispatch(self.general, (made.executable,)))
        return Finished(self.module, guarded, self.general)


def jit_dispatch(general: Module, cases: Sequence[Executable]) -> Dispatch:
    """The first of ``cases`` that takes the shapes of a run, or what ``general`` is compiled to for them."""
    specs = input_specs(general), output_specs(general)
    return Dispatch(*specs, tuple(cases), COMPILE, states=states(general))


def compile_entries(
    drafts: Mapping[str, EntryDraft], options: Options, observe: Observer, shared: Weights | None = None
) -> Package:
    """The package of all entries, on one set of weights, which begins with ``shared``.

    Raises ModelError, ToolchainError.
    """
    modules = [module for draft in drafts.values() for module in draft.modules]
    if options.device == "reference":
        made, weights = interpreted_executables(modules)
    else:
        made, weights = compile_executables(modules, options, observe, shared)
    compiled = iter(made)
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
        options={**options.key(), "tuning": digest_of(choice for each in made for choice in each.choices)},
        spare=partial(UnpackedWeights, spare),
        plugins={
            n.op.name: plugin_of(type(n.op)) for m in graphs for n in m.walk() if is_plugin_op(type(n.op))
        },
    )


def _beside(module: Module, weights: Weights) -> Constants:
    """The constants of ``module`` that ``weights`` lack."""
    refs = (ref for ref in module.constants if ref.digest not in weights.tensors)
    return {ref.digest: module.constants.held(ref) for ref in refs}


def _require_same_states(entries: Mapping[str, Entry]) -> None:
    """Raise ModelError where a state that several entries update is not of one type in them."""
    faults = Collector(ModelError)
    seen: dict[str, tuple[str, TensorSpec]] = {}
    for name, entry in entries.items():
        for spec in entry.states:
            first, known = seen.setdefault(spec.name, (name, spec))
            if (spec.dtype, spec.shape) != (known.dtype, known.shape):
                types = f"{known.type_text} in entry {first!r}, {spec.type_text} in {name!r}"
                hint = "entries share states by name: give both the same type, or other names"
                faults.add("state", f"state {spec.name!r} is {types}", hint=hint)
    faults.raise_if_any()
