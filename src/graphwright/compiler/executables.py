"""Executables for several modules at once: programs where they can be, host programs where not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count

from graphwright.compiler.host_program import Draft
from graphwright.compiler.modules import Compilation, Observer, compile_modules, program_of, run_passes
from graphwright.compiler.partition import is_placed, partition
from graphwright.compiler.pipeline import PARTITION, graph_passes, partition_passes
from graphwright.compiler.tuning import tuned
from graphwright.config import Options
from graphwright.cost.choices import Choice, choices_in
from graphwright.executable.nodes import Executable
from graphwright.fusion.decisions import Decision, decisions_of
from graphwright.ir.graph import Module
from graphwright.package.weights import Weights, pack_weights
from graphwright.passes.base import Record
from graphwright.passes.dynamic import what_stays_dynamic
from graphwright.records import dataclass, replace
from graphwright.report import host_program_report, with_dynamic
from graphwright.runtime.target import for_this_cpu


@dataclass(frozen=True)
class Compiled:
    """What was made of one module: the report says as well what stayed dynamic in it."""

    executable: Executable
    report: str
    decisions: Sequence[Decision] = ()
    """About fusion."""
    choices: Sequence[Choice] = ()
    """Between kernels and fusions that a tuning record knows, or may come to know."""
    records: Sequence[Record] = ()
    """What passes and stages did to it, and to its subgraphs."""


def compile_executables(
    modules: Sequence[Module], options: Options, observe: Observer, shared: Weights | None = None
) -> tuple[list[Compiled], Weights]:
    """An executable for each of ``modules``, which become what was compiled, on one set of weights, which
    begins with ``shared``, and of generated kernels. Raises ModelError, ToolchainError.
    """
    records = [_simplified(module, options, observe) for module in modules]
    dynamic = [what_stays_dynamic(module) for module in modules]
    numbers = count()
    drafts = [_draft(m, numbers, options, observe, done) for m, done in zip(modules, records, strict=True)]
    hosts = [draft for draft in drafts if draft is not None]
    whole = [_Unit(m, done) for m, draft, done in zip(modules, drafts, records, strict=True) if draft is None]
    calls = [_Unit(m, None, draft.device(n)) for draft in hosts for n, m in draft.modules.items()]
    for call in calls:
        observe(PARTITION, call.module)
    read = {digest: draft.module.constants[ref] for draft in hosts for digest, ref in draft.read.items()}
    read |= {ref.digest: module.constants[ref] for module in modules for ref in module.starts().values()}
    before = pack_weights(read, shared) if read else shared
    compiled, weights = _compile([*whole, *calls], options, observe, before)
    programs, called = iter(compiled[: len(whole)]), iter(compiled[len(whole) :])
    made = [
        _whole(next(programs)) if draft is None else _hosted(draft, called, done or ())
        for draft, done in zip(drafts, records, strict=True)
    ]
    reported = [
        replace(each, report=with_dynamic(each.report, stays))
        for each, stays in zip(made, dynamic, strict=True)
    ]
    return reported, weights


@dataclass(frozen=True)
class _Unit:
    """A module that one program runs, with what graph passes did to it; None where they are still to run."""

    module: Module
    records: Sequence[Record] | None
    device: str = ""
    """Empty: the default."""


def _compile(
    units: Sequence[_Unit], options: Options, observe: Observer, weights: Weights | None
) -> tuple[list[Compilation], Weights]:
    """What is made of ``units``, device by device: the weights of each begin with those of the one before."""
    made: dict[Module, Compilation] = {}
    for device in dict.fromkeys(unit.device for unit in units):
        there = [unit for unit in units if unit.device == device]
        target = for_this_cpu(replace(options, device=device)) if device else options
        modules, prepared = [unit.module for unit in there], [unit.records for unit in there]
        target = tuned(modules, [done is not None for done in prepared], target, observe)
        for compiled in compile_modules(modules, target, observe, weights, prepared):
            made[compiled.module], weights = compiled, compiled.weights
    return [made[unit.module] for unit in units], weights or pack_weights({})


def _simplified(module: Module, options: Options, observe: Observer) -> list[Record] | None:
    """What graph passes did to ``module``; None where devices are to part it before they run."""
    return None if is_placed(module.main) else run_passes(module, graph_passes(options), options, observe)


def interpreted_executables(modules: Sequence[Module]) -> tuple[list[Compiled], Weights]:
    """What the reference device runs of each of ``modules``, and all their constants."""
    compiled = [
        Compiled(program_of(module, {}, module), with_dynamic("", what_stays_dynamic(module)))
        for module in modules
    ]
    constants = {ref.digest: module.constants[ref] for module in modules for ref in module.constants}
    weights = pack_weights(constants)
    for module in modules:  # which the reference device interprets: no one else has this memory
        for ref in module.constants:
            module.constants.adopt(ref.digest, weights.arrays[ref.digest])
    return compiled, weights


def _draft(
    module: Module, numbers: count[int], options: Options, observe: Observer, done: list[Record] | None
) -> Draft | None:
    """The draft of a host program; None where one program runs it all. What is done for it goes to ``done``,
    unless that is None.
    """
    if partition(module.main).is_whole:
        return None
    prepared = run_passes(module, partition_passes(options), options, observe)
    if done is not None:
        done += prepared
    found = partition(module.main)
    return None if found.is_whole else Draft(module, found, numbers)


def _whole(made: Compilation) -> Compiled:
    return _compiled(made.program, made.report, made.records, made.records)


def _hosted(draft: Draft, compiled: Iterator[Compilation], done: Sequence[Record]) -> Compiled:
    calls = {number: next(compiled) for number in draft.modules}
    program = draft.completed(calls)
    report = host_program_report(program, {n: made.report for n, made in calls.items()})
    records = [record for made in calls.values() for record in made.records]
    return _compiled(program, report, records, (*done, *records))


def _compiled(
    executable: Executable, report: str, records: Sequence[Record], whole: Sequence[Record]
) -> Compiled:
    """``records`` are those of programs, ``whole`` has those of the module before its partition as well."""
    choices = choices_in(note for record in records for note in record.notes)
    return Compiled(executable, report, decisions_of(records), choices, whole)
