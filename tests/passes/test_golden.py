"""Before and expected: each pass alone on tests/golden/PASS/CASE.before, and the meaning unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphwright.ir.graph import Node
from graphwright.ir.text import parse_module, print_module
from graphwright.ir.verify import verify
from graphwright.ops.conv import Conv
from graphwright.ops.matmul import MatMul
from graphwright.passes.algebraic import ALGEBRAIC
from graphwright.passes.base import Pass
from graphwright.passes.carried_values import CarriedValues
from graphwright.passes.constants_into_regions import ConstantsIntoRegions
from graphwright.passes.cse import CommonSubexpressions
from graphwright.passes.dead_branches import DeadBranches
from graphwright.passes.dead_code import DeadCode
from graphwright.passes.decompose import Decompose
from graphwright.passes.fold_constants import FoldConstants
from graphwright.passes.fold_conv_bn import FOLD_CONV_BN
from graphwright.passes.forward_steps import FORWARD_STEPS
from graphwright.passes.fuse_attention import FUSE_ATTENTION
from graphwright.passes.infer_shapes import InferShapes
from graphwright.passes.integer_products import INTEGER_PRODUCTS
from graphwright.passes.loop_invariants import LoopInvariants
from graphwright.passes.manager import run_passes
from graphwright.passes.pipeline import GRAPH_PASSES
from graphwright.passes.remove_noops import RemoveNoops
from graphwright.passes.simplify_loops import SimplifyLoops
from graphwright.passes.simplify_reshapes import SIMPLIFY_RESHAPES
from graphwright.passes.simplify_sequences import SIMPLIFY_SEQUENCES
from graphwright.passes.simplify_transposes import SIMPLIFY_TRANSPOSES
from graphwright.passes.sink_tails import SinkTails

from .support import assert_same_meaning

GOLDEN = Path(__file__).parent.parent / "golden"


def _keep_products(node: Node) -> bool:
    return isinstance(node.op, Conv | MatMul)


PASSES: tuple[Pass, ...] = (
    InferShapes(),
    FoldConstants(),
    CommonSubexpressions(),
    DeadCode(),
    DeadBranches(),
    SinkTails(),
    RemoveNoops(),
    FOLD_CONV_BN,
    ALGEBRAIC,
    SIMPLIFY_TRANSPOSES,
    SIMPLIFY_RESHAPES,
    SIMPLIFY_SEQUENCES,
    FUSE_ATTENTION,
    CarriedValues(),
    ConstantsIntoRegions(),
    INTEGER_PRODUCTS,
    FORWARD_STEPS,
    LoopInvariants(),
    SimplifyLoops(),
    Decompose(_keep_products),
)
BY_NAME = {each.name: each for each in PASSES}
CASES = sorted(GOLDEN.glob("*/*.before"))


@pytest.mark.parametrize("path", CASES, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_pass_gives_the_expected_text(path: Path, request: pytest.FixtureRequest) -> None:
    text = path.read_text()
    before, module = parse_module(text), parse_module(text)
    verify(before, "the case itself")
    stages = GRAPH_PASSES if path.parent.name == "pipeline" else (BY_NAME[path.parent.name],)
    records = run_passes(module, *stages)
    reasons = "".join(f"// {reason}\n" for record in records for reason in record.reasons)
    given = print_module(module) + reasons
    expected = path.with_suffix(".expected")
    if request.config.getoption("--update-golden"):
        expected.write_text(given)
    assert given == expected.read_text()
    assert_same_meaning(before, module)


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_every_pass_has_a_golden_case(name: str) -> None:
    assert list((GOLDEN / name).glob("*.before"))


@pytest.mark.parametrize("path", CASES, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_pass_is_idempotent(path: Path) -> None:
    """A second run of the pass alone finds nothing left to do: fixpoints rely on it."""
    module = parse_module(path.read_text())
    stages = GRAPH_PASSES if path.parent.name == "pipeline" else (BY_NAME[path.parent.name],)
    run_passes(module, *stages)
    once = print_module(module)
    run_passes(module, *stages)
    assert print_module(module) == once
