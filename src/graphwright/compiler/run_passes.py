"""Runs passes on a module for an observer."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from graphwright.config import Options
from graphwright.ir.graph import Module
from graphwright.passes.after_stage import AfterStage
from graphwright.passes.base import Record
from graphwright.passes.manager import PassManager, Scheduled

Observer = Callable[[str, object], None]
"""Called after each pass and each stage with its name and its product: a module, a kernel selection, sources,
tasks. The product of a stage of passes is an :class:`AfterStage`.
"""


def observe_nothing(name: str, product: object) -> None:
    """The default observer."""


def run_passes(
    module: Module, passes: Sequence[Scheduled], options: Options, observe: Observer = observe_nothing
) -> list[Record]:
    """Runs ``passes`` on ``module`` and returns a record of what each one did."""
    manager = PassManager(
        passes,
        options.verify,
        lambda m, record: observe(record.name, m),
        lambda name, m: observe(name, AfterStage(m)),
    )
    manager.run(module)
    return manager.records
