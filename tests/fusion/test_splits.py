"""Kernels that are predicted to be slower than two: which cuts are considered, and which are made."""

from __future__ import annotations

import pytest

from graphwright.config import Options
from graphwright.cost.choices import Choice, Choices, choices_in
from graphwright.fusion.decisions import Decision, Verdict
from graphwright.fusion.fuse import Fuse
from graphwright.fusion.kernel_groups import KernelGroup
from graphwright.fusion.measured import APART, TOGETHER
from graphwright.fusion.rules.switches import rule_set
from graphwright.fusion.splits import MARGIN, MOST_NODES, Cut, Splits
from graphwright.ir.build import new_main_graph
from graphwright.ir.builtin.fused import Fused
from graphwright.ir.graph import Module, Node
from graphwright.ir.refusal import Code
from graphwright.ir.symbols import SymbolTable
from graphwright.ir.types import F32, tensor
from graphwright.ops.core.binary import Add, Mul
from graphwright.ops.core.div import Div
from graphwright.ops.core.matmul import MatMul
from graphwright.ops.core.reductions import ReduceMean
from graphwright.ops.core.reshape import Reshape
from graphwright.ops.core.unary import Neg, Sigmoid
from graphwright.option_files.tuning_records import Measured, Times, Workloads
from graphwright.passes.base import Record
from graphwright.targets.cpu.target import TARGETS

CPU = TARGETS["v4"]


def short_sums_stored_twice() -> Module:
    """A matrix multiplication, and the sigmoid of its result, which is an output too."""
    module = Module()
    b, (x, w) = new_main_graph(module, [("x", tensor(F32, 128, 16)), ("w", tensor(F32, 16, 1024))])
    sums = b(MatMul(), x, w)
    module.main.set_outputs([sums, b(Sigmoid(), sums)])
    return module


def residual_after_sums(rows: int, terms: int, columns: int) -> Module:
    """A matrix multiplication and a residual."""
    module = Module()
    b, (x, w, r) = new_main_graph(
        module,
        [
            ("x", tensor(F32, rows, terms)),
            ("w", tensor(F32, terms, columns)),
            ("r", tensor(F32, rows, columns)),
        ],
    )
    module.main.set_outputs([b(Add(), b(MatMul(), x, w), r)])
    return module


def silu() -> list[Node]:
    module = Module()
    b, (x,) = new_main_graph(module, [("x", tensor(F32, 64, 64))])
    y = b(Neg(), x)
    module.main.set_outputs([b(Mul(), y, b(Sigmoid(), y))])
    return list(module.main)


def fused(module: Module, splits: bool = True) -> tuple[list[Decision], int]:
    """The decisions, and the number of kernels."""
    record = Record(Fuse.name)
    Fuse(CPU, rule_set(Options()), splits=splits).run(module, record)
    kernels = sum(isinstance(node.op, Fused | MatMul) for node in module.main)
    return [note for note in record.notes if isinstance(note, Decision)], kernels


def cuts(nodes: list[Node]) -> list[Cut]:
    return list(Splits(CPU.machine, SymbolTable()).cuts(KernelGroup(nodes)))


def test_a_kernel_that_is_predicted_to_be_slower_is_split() -> None:
    (decision,), kernels = fused(short_sums_stored_twice())
    assert (decision.code, decision.verdict, kernels) == (Code.PREDICTED, Verdict.REFUSED, 2)
    assert decision.predicted is not None and decision.predicted > MARGIN
    (decision,), kernels = fused(short_sums_stored_twice(), splits=False)
    assert (decision.code, kernels) == (Code.MERGED, 1)
    assert decision.predicted is not None and decision.predicted > MARGIN


def test_predictions_are_about_the_kernels_after_the_splits() -> None:
    """A mean is split from what follows it. The view then begins its kernel: no cut is between it and the
    next node.
    """
    module = Module()
    b, (x, s) = new_main_graph(module, [("x", tensor(F32, 64, 1280, 7, 7)), ("s", tensor(F32, 1))])
    mean = b(ReduceMean((2, 3)), x)
    view = b(Reshape((64, 1280)), mean)
    module.main.set_outputs([b(Neg(), b(Div(), view, s))])
    decisions, kernels = fused(module)
    assert kernels == 2
    split, without_cut, kept = decisions
    assert (split.code, without_cut.code, kept.code) == (Code.PREDICTED, Code.MERGED, Code.MERGED)
    assert split.predicted is not None and split.predicted > MARGIN
    assert without_cut.predicted is None
    assert kept.predicted is not None and kept.predicted < MARGIN


def test_a_kernel_that_was_measured_to_be_faster_than_two_stays() -> None:
    def run(workloads: Workloads) -> tuple[Choice, int]:
        module, record = short_sums_stored_twice(), Record(Fuse.name)
        Fuse(CPU, rule_set(Options()), Choices("v4", workloads=workloads, is_kept=True)).run(module, record)
        (choice,) = (each for each in choices_in(record.notes) if each.alternatives[0] == APART)
        return choice, sum(isinstance(node.op, Fused | MatMul) for node in module.main)

    choice, kernels = run({})
    assert (choice.alternatives, choice.taken, kernels) == ((APART, TOGETHER), APART, 2)
    choice, kernels = run({choice.workload: Measured(APART, {TOGETHER: Times(0.9, 0.9, 0.9)}, TOGETHER)})
    assert (choice.taken, kernels) == (TOGETHER, 1)


def test_a_kernel_that_is_predicted_to_be_faster_stays() -> None:
    (decision,), kernels = fused(residual_after_sums(512, 768, 768))
    assert (decision.code, kernels) == (Code.MERGED, 1)
    assert decision.predicted is not None and decision.predicted < MARGIN


def test_a_kernel_that_takes_less_than_a_launch_stays() -> None:
    (decision,), kernels = fused(residual_after_sums(1, 1, 1024))
    assert (decision.code, kernels) == (Code.MERGED, 1)


def test_a_cut_has_a_node_and_its_ancestors_on_one_side() -> None:
    neg, sigmoid, mul = nodes = silu()
    found = {(cut.producer, cut.reader): (list(cut.first), list(cut.second)) for cut in cuts(nodes)}
    assert found == {
        (neg, sigmoid): ([neg], [sigmoid, mul]),
        (neg, mul): ([neg], [sigmoid, mul]),
        (sigmoid, mul): ([neg, sigmoid], [mul]),
    }
    assert all(cut.predicted < 0 for cut in cuts(nodes))


def test_both_sides_of_a_cut_are_connected() -> None:
    module = Module()
    b, (x,) = new_main_graph(module, [("x", tensor(F32, 64, 64))])
    y = b(Neg(), x)
    module.main.set_outputs([b(Sigmoid(), y), b(Neg(), y)])
    assert cuts(list(module.main)) == []


@pytest.mark.parametrize("length", [1, MOST_NODES + 1])
def test_kernels_of_one_node_and_of_many_have_no_cuts(length: int) -> None:
    module = Module()
    b, (value,) = new_main_graph(module, [("x", tensor(F32, 64, 64))])
    for _ in range(length):
        value = b(Neg(), value)
    module.main.set_outputs([value])
    assert cuts(list(module.main)) == []


def test_two_contractions_have_no_prediction() -> None:
    module = Module()
    b, (x, w) = new_main_graph(module, [("x", tensor(F32, 64, 64)), ("w", tensor(F32, 64, 64))])
    module.main.set_outputs([b(Mul(), b(MatMul(), x, w), b(MatMul(), x, w))])
    assert cuts(list(module.main)) == []
