"""Compiles several modules to executables on shared weights: to one program where possible, else to a host
program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count

from graphwright.compiler.code_generation import Compilation, compile_units
from graphwright.compiler.host_program import HostProgramDraft
from graphwright.compiler.interface import program_of
from graphwright.compiler.partition import is_placed, partition
from graphwright.compiler.pipeline import PARTITION, graph_passes, partition_passes
from graphwright.compiler.report import host_program_report, with_dynamic
from graphwright.compiler.run_passes import Observer, run_passes
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
from graphwright.passes.dynamic_sizes import what_stays_dynamic
from graphwright.records import dataclass, replace
from graphwright.runtime.devices.this_cpu import for_this_cpu


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


@dataclass(frozen=True)
class _Draft:
    """A module, and the decision whether it becomes one program or a host program."""

    module: Module
    records: Sequence[Record] | None
    """The records of passes on the whole module; None if the graph passes have not run."""
    dynamic: Sequence[str]
    """The lines of the report about what stays dynamic."""
    host_program: HostProgramDraft | None = None


def compile_executables(
    modules: Sequence[Module], options: Options, observe: Observer, shared: Weights | None
) -> tuple[list[Compiled], Weights]:
    """Compiles an executable for each of ``modules``, which are rewritten in place. The executables share
    generated kernels and one set of weights, which begins with ``shared``. Raises ModelError, ToolchainError.
    """
    numbers = count()
    drafts = [_draft(module, numbers, options, observe) for module in modules]
    hosts = [draft.host_program for draft in drafts if draft.host_program is not None]
    whole = [Unit(draft.module, draft.records) for draft in drafts if draft.host_program is None]
    calls = [Unit(m, device=host.device(n)) for host in hosts for n, m in host.modules.items()]
    for call in calls:
        observe(PARTITION, call.module)
    read = {digest: host.module.constants[ref] for host in hosts for digest, ref in host.read.items()}
    read |= {
        ref.digest: module.constants[ref] for module in modules for ref in module.initial_states().values()
    }
    before = pack_weights(read, shared) if read else shared
    compiled, weights = _compile([*whole, *calls], options, observe, before)
    return [_compiled(draft, compiled) for draft in drafts], weights


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


def _draft(module: Module, numbers: count[int], options: Options, observe: Observer) -> _Draft:
    """Runs the passes that decide whether one program runs ``module``. Graph passes wait if nodes are placed
    on devices: these are partitioned first.
    """
    records = None if is_placed(module.main) else run_passes(module, graph_passes(options), options, observe)
    dynamic = what_stays_dynamic(module)
    if partition(module.main).is_whole:
        return _Draft(module, records, dynamic)
    prepared = run_passes(module, partition_passes(options), options, observe)
    records = None if records is None else [*records, *prepared]
    found = partition(module.main)
    return _Draft(
        module, records, dynamic, None if found.is_whole else HostProgramDraft(module, found, numbers)
    )


def _compiled(draft: _Draft, compiled: Mapping[Module, Compilation]) -> Compiled:
    """The executable of ``draft``, given the programs of its modules."""
    host = draft.host_program
    if host is None:
        compilation = compiled[draft.module]
        program: Executable = compilation.program
        report, records = compilation.report, compilation.records
        all_records = records
    else:
        calls = {number: compiled[module] for number, module in host.modules.items()}
        program = host.completed(calls)
        report = host_program_report(program, {n: compilation.report for n, compilation in calls.items()})
        records = [record for compilation in calls.values() for record in compilation.records]
        all_records = (*(draft.records or ()), *records)
    choices = choices_in(note for record in records for note in record.notes)
    return Compiled(program, with_dynamic(report, draft.dynamic), decisions_of(records), choices, all_records)
