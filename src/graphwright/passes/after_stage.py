"""What observers of a compilation are told at the end of a stage that passes make up."""

from __future__ import annotations

from graphwright.ir.graph import Module
from graphwright.records import dataclass


@dataclass(frozen=True, eq=False)
class AfterStage:
    """The module as a stage left it; later stages change it."""

    module: Module
