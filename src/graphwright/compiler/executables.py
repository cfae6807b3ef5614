"""Compiles several modules to executables on shared weights: to one program where possible, else to a host
program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count

from graphwright.compiler.code_generation import Compilation, compile_units
from graphwright.compiler.host_program import HostProgramDraft
from graphwright.compiler.partition import is_placed, partition
from graphwright.compiler.pipeline import PARTITION, graph_passes, partition_passes
from graphwright.compiler.report import host_program_report, with_dynamic
from graphwright.compiler.run_passes import Observer, run_passes
from graphwright.compiler.specs import program_of
from graphwright.compiler.tuning import tune
from graphwright.compiler.unit import Unit
from graphwright.config import Options
from graphwright.cost.choices import Choice, choices_in
from graphwright.executable.nodes import Executable
from graphwright.fusion.decisions import Decision, decisions_of
from graphwright.ir.graph import Module
from graphwright.package.pack_weights import pack_weights
from graphwright.package.weights import Weights
from graphwright.passes.base import Record
from graphwright.passes.dynamic import what_stays_dynamic
from graphwright.records import dataclass, replace
from graphwright.runtime.devices.target import for_this_cpu


@dataclass(frozen=True)
class Compiled:
    """The executable of one module. The report also says what stayed dynamic."""

    executable: Executable
    report: str
    decisions: Sequence[Decision] = ()
    """Fusion decisions."""
    choices: Sequence[Choice] = ()
    """Choices between kernels or fusions that a tuning record can decide."""
    records: Sequence[Record] = ()
    """The results of passes and stages on the module and its subgraphs."""


def compile_executables(
    modules: Sequence[Module], options: Options, observe: Observer, shared: Weights | None
) -> tuple[list[Compiled], Weights]:
    """Compiles an executable for each of ``modules``, which are rewritten in place, with shared generated
    kernels and one set of weights, which begins with ``shared``. Raises ModelError, ToolchainError.
    """
    records = [_simplified(module, options, observe) for module in modules]
    dynamic = [what_stays_dynamic(module) for module in modules]
    numbers = count()
    drafts = [_draft(m, numbers, options, observe, done) for m, done in zip(modules, records, strict=True)]
    hosts = [draft for draft in drafts if draft is not None]
    whole = [Unit(m, done) for m, draft, done in zip(modules, drafts, records, strict=True) if draft is None]
    calls = [Unit(m, device=draft.device(n)) for draft in hosts for n, m in draft.modules.items()]
    for call in calls:
        observe(PARTITION, call.module)
    read = {digest: draft.module.constants[ref] for draft in hosts for digest, ref in draft.read.items()}
    read |= {
        ref.digest: module.constants[ref] for module in modules for ref in module.initial_states().values()
    }
    before = pack_weights(read, shared) if read else shared
    compiled, weights = _compile([*whole, *calls], options, observe, before)
    executables = [
        _program(compiled[module]) if draft is None else _host_program(draft, compiled, done or ())
        for module, draft, done in zip(modules, drafts, records, strict=True)
    ]
    reported = [
        replace(each, report=with_dynamic(each.report, stays))
        for each, stays in zip(executables, dynamic, strict=True)
    ]
    return reported, weights


def _compile(
    units: Sequence[Unit], options: Options, observe: Observer, weights: Weights | None
) -> tuple[dict[Module, Compilation], Weights]:
    """Compiles ``units`` device by device; the weights of each device begin with those of the previous
    one. The result is by module.
    """
    compilations: dict[Module, Compilation] = {}
    for device in dict.fromkeys(unit.device for unit in units):
        there = [unit for unit in units if unit.device == device]
        own = for_this_cpu(replace(options, device=device)) if device else options
        for compiled in compile_units(there, tune(there, own, observe), observe, weights):
            compilations[compiled.module], weights = compiled, compiled.weights
    return compilations, weights or pack_weights({})


def _simplified(module: Module, options: Options, observe: Observer) -> list[Record] | None:
    """Runs the graph passes on ``module`` and returns their records. None, without running them, if nodes are
    placed on devices: these are partitioned first.
    """
    return None if is_placed(module.main) else run_passes(module, graph_passes(options), options, observe)


def interpreted_executables(modules: Sequence[Module]) -> tuple[list[Compiled], Weights]:
    """Executables of ``modules`` for the reference device, and all their constants."""
    compiled = [
        Compiled(program_of(module, {}, module), with_dynamic("", what_stays_dynamic(module)))
        for module in modules
    ]
    constants = {ref.digest: module.constants[ref] for module in modules for ref in module.constants}
    weights = pack_weights(constants)
    for module in modules:  # the reference device reads the packed arrays: the originals can be freed
        for ref in module.constants:
            module.constants.restore(ref.digest, weights.arrays[ref.digest])
    return compiled, weights


def _draft(
    module: Module, numbers: count[int], options: Options, observe: Observer, done: list[Record] | None
) -> HostProgramDraft | None:
    """The draft of a host program; None if one program runs the whole module. Records of the passes that
    prepare it are appended to ``done``, if given.
    """
    if partition(module.main).is_whole:
        return None
    prepared = run_passes(module, partition_passes(options), options, observe)
    if done is not None:
        done += prepared
    found = partition(module.main)
    return None if found.is_whole else HostProgramDraft(module, found, numbers)


def _program(compilation: Compilation) -> Compiled:
    return _compiled(compilation.program, compilation.report, compilation.records, compilation.records)


def _host_program(
    draft: HostProgramDraft, compiled: Mapping[Module, Compilation], done: Sequence[Record]
) -> Compiled:
    calls = {number: compiled[module] for number, module in draft.modules.items()}
    program = draft.completed(calls)
    report = host_program_report(program, {n: compilation.report for n, compilation in calls.items()})
    records = [record for compilation in calls.values() for record in compilation.records]
    return _compiled(program, report, records, (*done, *records))


def _compiled(
    executable: Executable, report: str, records: Sequence[Record], all_records: Sequence[Record]
) -> Compiled:
    """``records`` are those of the programs; ``all_records`` also has those of the module before
    partitioning.
    """
    choices = choices_in(note for record in records for note in record.notes)
    return Compiled(executable, report, decisions_of(records), choices, all_records)
