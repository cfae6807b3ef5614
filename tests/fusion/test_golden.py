"""Before and expected: what fuses, what does not and why, on tests/fusion/golden/CASE.before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from graphwright import ops
from graphwright.fusion.candidate import Candidate
from graphwright.fusion.fuse import Fuse
from graphwright.fusion.rules.base import FusionRule
from graphwright.fusion.rules.switches import RuleSet
from graphwright.ir.build import new_main_graph
from graphwright.ir.builtin.fused import Fused
from graphwright.ir.graph import Module, Value
from graphwright.ir.symbols import symbol
from graphwright.ir.types import F32, tensor
from graphwright.ir.verify import verify
from graphwright.ops.core.binary import Add
from graphwright.ops.core.reductions import ReduceSum
from graphwright.ops.core.unary import Neg
from graphwright.passes.base import Record
from graphwright.passes.infer_shapes import InferShapes
from graphwright.passes.manager import run_passes
from graphwright.targets.cpu.limits import LIMITS
from graphwright.targets.cpu.target import TARGETS
from tests.golden_modules import check_golden

ops.load()
CASES = sorted((Path(__file__).parent / "golden").glob("*.before"))


def fused(module: Module) -> Record:
    *_, record = run_passes(module, InferShapes(), Fuse(TARGETS["v4"]))
    verify(module)
    return record


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_fusion_gives_the_expected_text(path: Path, golden: Callable[[Path, str], None]) -> None:
    check_golden(path, fused, {"N": 2}, golden)


def test_a_region_holds_a_limited_number_of_nodes() -> None:
    module = Module()
    b, (x,) = new_main_graph(module, [("x", tensor(F32, 4))])
    value = x
    for _ in range(LIMITS.nodes + 1):
        value = b(Neg(), value)
    module.main.set_outputs([value])
    record = fused(module)
    assert sorted(len(n.regions[0]) for n in module.main if isinstance(n.op, Fused)) == [1, LIMITS.nodes]
    assert [r.why for r in record.reasons] == [f"the kernel would have more than {LIMITS.nodes} nodes"]


def test_a_region_reads_a_limited_number_of_operands() -> None:
    module = Module()
    b, values = new_main_graph(module, [(f"x{k}", tensor(F32, 4)) for k in range(LIMITS.operands + 2)])
    total: Value = values[0]
    for value in values[1:]:
        total = b(Add(), total, value)
    module.main.set_outputs([total])
    record = fused(module)
    regions = [n for n in module.main if isinstance(n.op, Fused)]
    assert [len(n.inputs) for n in regions] == [LIMITS.operands, 3]
    assert [r.why for r in record.reasons] == [f"the kernel would have more than {LIMITS.operands} operands"]


@pytest.mark.parametrize(("width", "regions"), [(1000, 1), (1_000_000, 2)])
def test_rows_that_leave_the_cache_are_not_walked_twice(width: int, regions: int) -> None:
    module = Module()
    n = symbol("N")
    b, (x,) = new_main_graph(module, [("x", tensor(F32, n, width))])
    module.main.set_outputs([b(Add(), x, b(ReduceSum((1,)), x))])
    record = fused(module)
    assert sum(isinstance(node.op, Fused) for node in module.main) == regions
    assert [r.why for r in record.reasons] == [
        f"rows of {width} elements do not stay in the cache between passes"
    ] * (regions - 1)


def test_a_rule_says_which_merges_are_made() -> None:
    module = Module()
    b, (x,) = new_main_graph(module, [("x", tensor(F32, 4))])
    first = b(Neg(), x)
    second = b(Neg(), first)
    module.main.set_outputs([b(Neg(), second)])

    def apart(candidate: Candidate) -> str | None:
        ends = {first.producer, second.producer}
        return "kept apart" if ends <= {*candidate.nodes} else None

    rules = RuleSet((FusionRule("apart", "keeps two nodes apart", lambda candidate: True, apart),))
    run_passes(module, InferShapes(), Fuse(TARGETS["v4"], rules))
    assert [len(n.regions[0]) for n in module.main if isinstance(n.op, Fused)] == [1, 2]
