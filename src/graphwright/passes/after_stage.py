"""The product that observers receive at the end of a stage of passes."""

from __future__ import annotations

from graphwright.ir.graph import Module
from graphwright.records import dataclass


@dataclass(frozen=True, eq=False)
class AfterStage:
    """The module at the end of a stage. Later stages change it in place."""

    module: Module
