"""Shape programs in Python: the same registers as the native runtime computes."""

from __future__ import annotations

import pytest

import graphwright as gw
from docs.make_path import tiny
from graphwright.low_ir.evaluate import register_values
from graphwright.runtime.devices.cpu import Cpu


@pytest.mark.parametrize("batch", [0, 1, 2, 7, 64, 1000])
def test_registers_are_those_of_a_plan(batch: int) -> None:
    model = gw.compile(tiny())
    (program,) = model.package.programs()
    (target,) = program.targets.values()
    assert isinstance(model.executor, Cpu)
    shape = (batch, 3, 16, 16)
    planned = model.executor.plan([shape], 1)["registers"]
    assert register_values(target.task_graph, {"image": shape}, 64) == list(planned)
    assert register_values(target.task_graph, {}, batch)[:1] == list(planned)[:1]
