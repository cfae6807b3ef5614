"""Compiles modules to programs: runs the passes, then generates code."""

from __future__ import annotations

from collections.abc import Sequence

from graphwright.compiler.code_generation import Compilation, generate_code
from graphwright.compiler.pipeline import graph_passes, kernel_passes
from graphwright.compiler.run_passes import Observer, run_passes
from graphwright.config import Options
from graphwright.ir.graph import Module
from graphwright.kernels.candidates.registry import load
from graphwright.lower.checks import refuse_unknown_ranks
from graphwright.package.weights import Weights
from graphwright.passes.base import Record
from graphwright.passes.manager import Scheduled
from graphwright.records import dataclass
from graphwright.targets.registry import target_of


@dataclass(frozen=True)
class Unit:
    """A module that becomes one program."""

    module: Module
    records: Sequence[Record] | None = None
    """The records of the graph passes; None if they have not run on the module yet."""
    device: str = ""
    """Empty for the default device."""

    @property
    def is_simplified(self) -> bool:
        """Whether the graph passes have run."""
        return self.records is not None

    def graph_passes(self, options: Options) -> tuple[Scheduled, ...]:
        """The graph passes that still have to run."""
        return () if self.is_simplified else graph_passes(options)


def compile_units(
    units: Sequence[Unit],
    options: Options,
    observe: Observer = lambda name, product: None,
    shared: Weights | None = None,
) -> list[Compilation]:
    """Compiles each of ``units``, whose modules are rewritten in place, to a program for the device of
    ``options``. The programs share one set of weights, which begins with ``shared``, and one set of generated
    kernels. Raises ModelError, ToolchainError.
    """
    load()
    kernels = kernel_passes(target_of(options), options)
    records: list[list[Record]] = []
    for unit in units:
        passes = (*unit.graph_passes(options), *kernels)
        records.append([*(unit.records or ()), *run_passes(unit.module, passes, options, observe)])
        refuse_unknown_ranks(unit.module.main)
    return generate_code([unit.module for unit in units], records, options, observe, shared)
