"""Packages for several CPUs: programs for each ISA on one set of weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from graphwright.config import Options
from graphwright.executable.nodes import Executable, Program, map_programs, programs_of
from graphwright.package.package import Entry, Package
from graphwright.package.repacked_weights import packs_of
from graphwright.records import replace


def compile_targets(options: Options, compile_one: Callable[[Options], Package]) -> Package:
    """Joins the packages that ``compile_one`` makes for each ISA in the option ``targets``; the weights are
    those of the first. Raises what ``compile_one`` raises.
    """
    return join_targets([compile_one(replace(options, isa=isa)) for isa in options.targets])


def join_targets(packages: Sequence[Package]) -> Package:
    """Joins packages of one model, each for another ISA, into one."""
    first = packages[0]
    others = {isa: each for each in packages[1:] for isa in each.isas()}
    return replace(
        first,
        entries={name: _joined([each.entries[name] for each in packages]) for name in first.entries},
        packs={isa: packs_of(first.weights, each.weights) for isa, each in others.items()},
    )


def _joined(entries: Sequence[Entry]) -> Entry:
    executables = [entry.executable for entry in entries if entry.executable is not None]
    joined: Entry = replace(entries[0], executable=_united(executables))
    return joined


def _united(executables: Sequence[Executable]) -> Executable:
    """The first of ``executables``, with programs that hold the code of all. Raises ValueError if the
    executables differ in more than their targets.
    """
    programs = zip(*map(programs_of, executables), strict=True)

    def united(_: Program) -> Program:
        group = next(programs)
        targets = {isa: target for each in group for isa, target in each.targets.items()}
        merged: Program = replace(group[0], targets=targets)
        return merged

    return map_programs(executables[0], united)
