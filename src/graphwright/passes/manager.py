"""The pass manager: runs passes in order and to fixpoints, verifies and times them, and records what each
did.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Sequence

from graphwright.ir.graph import Module
from graphwright.ir.verify import verify
from graphwright.passes.base import Known, NodeKey, Pass, Record, node_keys
from graphwright.passes.plugin_passes import Point, passes_at
from graphwright.records import dataclass, field

AfterPass = Callable[[Module, Record], None]
"""Called after each pass, for example to print the module."""
AfterStage = Callable[[str, Module], None]
"""Called after each stage with its name and the module."""


@dataclass(frozen=True)
class Fixpoint:
    """Passes that run in turn until none changes anything, at most ``rounds`` times each.

    A pass must be idempotent: if only it changed something, it is not run again.
    """

    name: str
    passes: tuple[Pass, ...]
    rounds: int = 8


@dataclass(frozen=True)
class StageEnd:
    """Marks the end of a pipeline stage."""

    name: str


Scheduled = Pass | Fixpoint | Point | StageEnd
"""An item that a pass manager runs. A Point stands for the passes that users registered at it."""


@dataclass
class PassManager:
    """Runs ``stages`` on a module. ``records`` holds one record per pass run, in order."""

    stages: Sequence[Scheduled]
    verify_each: bool = False
    after: AfterPass | None = None
    after_stage: AfterStage | None = None
    records: list[Record] = field(default_factory=list)
    _known: Known = Known.NOTHING
    _nodes: int = 0
    _keys: Counter[NodeKey] = field(default_factory=Counter)
    _of_stage: int = 0
    """Index of the first record of the current stage."""

    def run(self, module: Module) -> bool:
        """Runs all stages. Returns whether any pass modified the module. With ``verify_each``, a VerifyError
        names the pass that broke the module.
        """
        self._known, self._nodes, self._keys = Known.NOTHING, _count(module), node_keys(module)
        return any([self._stage(stage, module) for stage in self.stages])

    def _stage(self, stage: Scheduled, module: Module) -> bool:
        if isinstance(stage, Point):
            return any([self._pass(each, module) for each in passes_at(stage)])
        if isinstance(stage, StageEnd):
            for record in self.records[self._of_stage :]:
                record.stage = stage.name
            self._of_stage = len(self.records)
            if self.after_stage is not None:
                self.after_stage(stage.name, module)
            return False
        if not isinstance(stage, Fixpoint):
            return self._pass(stage, module)
        modified = False
        idle = 0
        for each in itertools.chain.from_iterable(itertools.repeat(stage.passes, stage.rounds)):
            if idle == len(stage.passes) - modified:
                return modified
            if self._pass(each, module):
                modified, idle = True, 0
            else:
                idle += 1
        self.records[-1].did(f"{stage.name} stopped after {stage.rounds} rounds")
        return modified

    def _pass(self, each: Pass, module: Module) -> bool:
        missing = each.requires & ~self._known
        if missing:
            raise ValueError(f"pass {each.name} needs {missing.name}, which no earlier pass ensures")
        record = Record(each.name, nodes_before=self._nodes)
        start = time.perf_counter()
        record.modified = each.run(module, record)
        record.seconds = time.perf_counter() - start
        if record.modified:
            self._count_changes(module, record)
        record.nodes_after = self._nodes
        self.records.append(record)
        self._known |= each.ensures
        if self.after is not None:
            self.after(module, record)
        if self.verify_each:
            verify(module, f"after {each.name}")
        return record.modified

    def _count_changes(self, module: Module, record: Record) -> None:
        keys = node_keys(module)
        record.removed, record.added = self._keys - keys, keys - self._keys
        self._nodes, self._keys = _count(module), keys


def _count(module: Module) -> int:
    return sum(1 for _ in module.walk())


def run_passes(module: Module, *stages: Scheduled, verify_each: bool = True) -> list[Record]:
    """Runs ``stages`` on ``module`` and returns the records."""
    manager = PassManager(stages, verify_each)
    manager.run(module)
    return manager.records
