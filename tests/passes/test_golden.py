"""Before and expected: each pass alone on tests/golden/PASS/CASE.before, and the meaning unchanged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from graphwright.compiler.pipeline import STAGES, graph_passes, passes_of
from graphwright.ir.graph import Node
from graphwright.ir.text import parse_module, print_module
from graphwright.ir.verify import verify
from graphwright.ops.core.matmul import MatMul
from graphwright.ops.nn.conv import Conv
from graphwright.passes.base import Pass
from graphwright.passes.decompose import Decompose
from graphwright.passes.infer_shapes import InferShapes
from graphwright.passes.manager import run_passes
from graphwright.targets.cpu.target import TARGETS

from .support import assert_same_meaning

GOLDEN = Path(__file__).parent.parent / "golden"


def _keep_products(node: Node) -> bool:
    return isinstance(node.op, Conv | MatMul)


OWN_FOLDER = ("fuse", "assign_layouts")
"""Passes whose golden texts have a test of their own: tests/fusion and tests/layout."""
PASSES: tuple[Pass, ...] = (
    InferShapes(),
    *(each for stage in STAGES for each in passes_of(stage, TARGETS["v4"]) if each.name not in OWN_FOLDER),
    Decompose(_keep_products),
)
BY_NAME = {each.name: each for each in PASSES}
CASES = sorted(GOLDEN.glob("*/*.before"))


@pytest.mark.parametrize("path", CASES, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_pass_gives_the_expected_text(path: Path, golden: Callable[[Path, str], None]) -> None:
    text = path.read_text()
    before, module = parse_module(text), parse_module(text)
    verify(before, "the case itself")
    stages = graph_passes() if path.parent.name == "pipeline" else (BY_NAME[path.parent.name],)
    records = run_passes(module, *stages)
    reasons = "".join(f"// {reason}\n" for record in records for reason in record.reasons)
    given = print_module(module) + reasons
    golden(path.with_suffix(".expected"), given)
    assert_same_meaning(before, module)


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_every_pass_has_a_golden_case(name: str) -> None:
    assert list((GOLDEN / name).glob("*.before"))


@pytest.mark.parametrize("path", CASES, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_pass_is_idempotent(path: Path) -> None:
    """A second run of the same pass changes nothing, which fixpoints require."""
    module = parse_module(path.read_text())
    stages = graph_passes() if path.parent.name == "pipeline" else (BY_NAME[path.parent.name],)
    run_passes(module, *stages)
    once = print_module(module)
    run_passes(module, *stages)
    assert print_module(module) == once
