"""Executables for several modules at once: programs where they can be, host programs where not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import count

from graphwright.compiler.host_program import Draft
from graphwright.compiler.modules import Compilation, Observer, compile_modules, package_module, run_passes
from graphwright.compiler.partition import partition
from graphwright.compiler.pipeline import graph_passes, partition_passes
from graphwright.config import Options
from graphwright.executable.nodes import Executable
from graphwright.ir.deferred import Deferred
from graphwright.ir.graph import Array, Module
from graphwright.package.package import MAIN, Package
from graphwright.package.weights import UnpackedWeights, Weights, pack_weights
from graphwright.passes.base import Record
from graphwright.passes.dynamic import what_stays_dynamic
from graphwright.records import dataclass, replace
from graphwright.report import host_program_report


@dataclass(frozen=True)
class Executables:
    """What was made of some modules, on one set of weights and of generated kernels."""

    executables: Sequence[Executable]
    reports: Sequence[str]
    dynamic: Sequence[Sequence[str]]
    """What stayed dynamic in each module."""
    weights: Weights

    def package(self, module: Module, main: Executable, options: Options, report: str) -> Package:
        """The package of ``module``, which has the constants of all modules, with the entry ``main``."""
        spare: dict[str, Array | Deferred] = {
            ref.digest: module.constants.held(ref)
            for ref in module.constants
            if ref.digest not in self.weights.tensors
        }
        return replace(
            package_module(module, options, self.weights),
            entries={MAIN: main},
            report=report,
            spare=partial(UnpackedWeights, spare),
        )


def compile_executables(modules: Sequence[Module], options: Options, observe: Observer) -> Executables:
    """An executable for each of ``modules``, which become what was compiled. Raises ModelError,
    ToolchainError.
    """
    records = [run_passes(module, graph_passes(), options, observe) for module in modules]
    dynamic = [what_stays_dynamic(module) for module in modules]
    numbers = count()
    drafts = [_draft(module, numbers, options, observe) for module in modules]
    hosts = [draft for draft in drafts if draft is not None]
    whole = [(m, done) for m, draft, done in zip(modules, drafts, records, strict=True) if draft is None]
    calls = [(module, None) for draft in hosts for module in draft.modules.values()]
    read = {digest: draft.module.constants[ref] for draft in hosts for digest, ref in draft.read.items()}
    shared = pack_weights(read) if hosts else None
    units: list[tuple[Module, Sequence[Record] | None]] = [*whole, *calls]
    prepared = [done for _, done in units]
    compiled = compile_modules([m for m, _ in units], options, observe, shared, prepared) if units else []
    programs, called = iter(compiled[: len(whole)]), iter(compiled[len(whole) :])
    made = [_whole(next(programs)) if draft is None else _hosted(draft, called) for draft in drafts]
    weights = compiled[0].package.weights if compiled else shared or pack_weights({})
    executables, reports = [executable for executable, _ in made], [report for _, report in made]
    return Executables(executables, reports, dynamic, weights)


def _draft(module: Module, numbers: count[int], options: Options, observe: Observer) -> Draft | None:
    """The draft of a host program; None where one program runs it all."""
    if partition(module.main).is_whole:
        return None
    run_passes(module, partition_passes(), options, observe)
    found = partition(module.main)
    return None if found.is_whole else Draft(module, found, numbers)


def _whole(made: Compilation) -> tuple[Executable, str]:
    assert made.package.main is not None
    return made.package.main, made.package.report


def _hosted(draft: Draft, compiled: Iterator[Compilation]) -> tuple[Executable, str]:
    calls = {number: next(compiled) for number in draft.modules}
    program = draft.completed(calls)
    return program, host_program_report(program, {n: made.package.report for n, made in calls.items()})
