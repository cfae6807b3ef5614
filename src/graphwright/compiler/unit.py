"""The unit of compilation: a module that becomes one program."""

from __future__ import annotations

from collections.abc import Sequence

from graphwright.compiler.pipeline import graph_passes, kernel_passes
from graphwright.compiler.run_passes import Observer, observe_nothing, run_passes
from graphwright.config import Options
from graphwright.ir.graph import Module
from graphwright.lower.checks import refuse_unknown_ranks
from graphwright.passes.base import Record
from graphwright.passes.manager import Scheduled
from graphwright.records import dataclass, replace
from graphwright.targets.registry import target_of


@dataclass(frozen=True)
class Unit:
    """A module that becomes one program."""

    module: Module
    records: Sequence[Record] | None = None
    """The records of the passes that have run; None if the graph passes have not."""
    device: str = ""
    """Empty for the default device."""

    @property
    def is_simplified(self) -> bool:
        """Whether the graph passes have run."""
        return self.records is not None

    def graph_passes(self, options: Options) -> tuple[Scheduled, ...]:
        """The graph passes that still have to run."""
        return () if self.is_simplified else graph_passes(options)


def run_kernel_passes(unit: Unit, options: Options, observe: Observer = observe_nothing) -> Unit:
    """Runs the graph passes, if they have not run, and the passes for the target of ``options`` on the module
    of ``unit``. Raises ModelError if a rank is still unknown.
    """
    passes = (*unit.graph_passes(options), *kernel_passes(target_of(options), options))
    records = [*(unit.records or ()), *run_passes(unit.module, passes, options, observe)]
    refuse_unknown_ranks(unit.module.main)
    return replace(unit, records=records)
