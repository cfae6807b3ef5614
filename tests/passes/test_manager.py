"""The pass runner: order, fixpoints, verification, records."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

import graphwright as gw
from graphwright.errors import VerifyError
from graphwright.ir.build import new_main_graph
from graphwright.ir.graph import Module
from graphwright.ir.match import constant_array
from graphwright.ir.types import F32, tensor
from graphwright.ops.core.binary import Add
from graphwright.ops.core.expand import Expand
from graphwright.ops.core.matmul import MatMul
from graphwright.ops.core.transpose import Transpose
from graphwright.passes.base import Known, Pass, Record
from graphwright.passes.fold_constants import FoldConstants
from graphwright.passes.manager import Fixpoint, PassManager, run_passes

from .support import op_names


@dataclass(frozen=True)
class Counted(Pass):
    """Modifies on its first ``changes`` runs."""

    changes: int
    runs: list[str]
    name: str = "counted"
    requires: Known = Known.NOTHING
    ensures: Known = Known.NOTHING
    done: list[int] = field(default_factory=list)

    def run(self, module: Module, record: Record) -> bool:
        self.runs.append(self.name)
        self.done.append(1)
        return len(self.done) <= self.changes


def test_fixpoint_ends_when_no_other_pass_has_more_to_do() -> None:
    runs: list[str] = []
    group = Fixpoint("group", (Counted(2, runs, "a"), Counted(1, runs, "b"), Counted(0, runs, "c")))
    manager = PassManager([group])
    assert manager.run(Module())
    assert runs == ["a", "b", "c", "a", "b", "c"]


def test_fixpoint_of_passes_with_nothing_to_do_runs_once() -> None:
    runs: list[str] = []
    assert not PassManager([Fixpoint("group", (Counted(0, runs, "a"), Counted(0, runs, "b")))]).run(Module())
    assert runs == ["a", "b"]


def test_fixpoint_has_a_budget() -> None:
    runs: list[str] = []
    endless = Fixpoint("endless", (Counted(99, runs, "a"), Counted(99, runs, "b")), rounds=3)
    manager = PassManager([endless])
    assert manager.run(Module())
    assert len(runs) == 6
    assert "endless stopped after 3 rounds" in manager.records[-1].counts


def test_requirements_are_checked() -> None:
    runs: list[str] = []
    needy = Counted(0, runs, "needy", requires=Known.TYPES)
    with pytest.raises(ValueError, match="needy needs TYPES"):
        PassManager([needy]).run(Module())
    PassManager([Counted(0, runs, "giver", ensures=Known.TYPES), needy]).run(Module())
    assert runs == ["giver", "needy"]


@dataclass(frozen=True)
class Spoil(Pass):
    name: str = "spoil"

    def run(self, module: Module, record: Record) -> bool:
        next(iter(module.main)).output.type = tensor(F32, 99)
        return True


def test_verification_names_the_pass() -> None:
    module = Module()
    b, (x,) = new_main_graph(module, [("x", tensor(F32, 3))])
    b.graph.set_outputs([b(Add(), x, x)])
    with pytest.raises(VerifyError, match="after spoil: "):
        run_passes(module, Spoil())


def test_records_and_callbacks_report_each_pass() -> None:
    module = Module()
    b, (x,) = new_main_graph(module, [("x", tensor(F32, 3))])
    one = b.const(np.ones(3), F32)
    b.graph.set_outputs([b(Add(), x, b(Add(), one, one))])
    seen: list[tuple[str, list[str]]] = []
    manager = PassManager(
        [FoldConstants()], verify_each=True, after=lambda m, r: seen.append((r.name, op_names(m)))
    )
    manager.run(module)
    (record,) = manager.records
    assert (record.modified, record.counts) == (True, {"nodes folded": 1})
    assert record.seconds > 0
    assert seen == [("fold_constants", ["Add"])]
    assert "nodes folded 1" in str(record)


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (FoldConstants(max_bytes=1000), "more than 1000"),
        (FoldConstants(small_bytes=1000, max_repeated=0), "its inputs only 4"),
        (FoldConstants(total_bytes=3000), "budget for constant folding is exhausted"),
        (FoldConstants(total_steps=500), "budget for constant folding is exhausted"),
    ],
)
def test_folding_keeps_to_its_budgets(limits: FoldConstants, reason: str) -> None:
    module = Module()
    b, _ = new_main_graph(module, [])
    b.graph.set_outputs([b(Expand((1000 - k,)), b.const(np.ones(1), F32)) for k in range(2)], ["a", "b"])
    (record,) = run_passes(module, limits)
    assert op_names(module)
    assert reason in str(list(record.reasons)[-1])


def test_a_large_weight_is_transposed_in_its_own_memory() -> None:
    module = Module()
    b, (x,) = new_main_graph(module, [("x", tensor(F32, 2, 7))])
    weight = np.arange(21, dtype=np.float32).reshape(3, 7)
    turned = b(Transpose((1, 0)), b.const(weight))
    b.graph.set_outputs([b(MatMul(), x, turned), turned], ["product", "weight"])
    run_passes(module, FoldConstants(small_bytes=80))
    assert op_names(module) == ["MatMul"]
    held = constant_array(module.main.outputs[1], module)
    assert held is not None
    assert np.shares_memory(held, weight)
    given = np.ones((2, 7), np.float32)
    product, result = gw.compile(module)(given)
    np.testing.assert_array_equal(product, given @ weight.T)
    np.testing.assert_array_equal(result, weight.T)
