"""Before and expected: what works on channel blocks and where values are transferred."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from graphwright import ops
from graphwright.cost.machine import MACHINES
from graphwright.fusion.fuse import Fuse
from graphwright.ir.graph import Module
from graphwright.ir.text import parse_module, print_module
from graphwright.ir.verify import verify
from graphwright.layout.assign import AssignLayouts, forget_layouts
from graphwright.layout.trans_data import TransData
from graphwright.passes.base import Record
from graphwright.passes.infer_shapes import InferShapes
from graphwright.passes.manager import run_passes
from graphwright.passes.remove_noops import RemoveNoops
from graphwright.targets.cpu.target import TARGETS
from tests.golden_modules import check_golden

ops.load()
CASES = sorted((Path(__file__).parent / "golden").glob("*.before"))
LANES = 16


def assigned(module: Module) -> Record:
    *_, record = run_passes(module, InferShapes(), Fuse(TARGETS["v4"]), AssignLayouts(LANES, MACHINES["v4"]))
    verify(module)
    return record


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_layouts_are_as_expected(path: Path, golden: Callable[[Path, str], None]) -> None:
    check_golden(path, assigned, {"N": 2, "H": 3}, golden)


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_the_pass_is_idempotent(path: Path) -> None:
    module = parse_module(path.read_text())
    assigned(module)
    once = print_module(module)
    assert not AssignLayouts(LANES, MACHINES["v4"]).run(module, Record("again"))
    assert print_module(module) == once


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_layouts_can_be_removed(path: Path) -> None:
    module, plain = parse_module(path.read_text()), parse_module(path.read_text())
    assigned(module)
    forget_layouts(module)
    run_passes(module, RemoveNoops())
    run_passes(plain, InferShapes(), Fuse(TARGETS["v4"]))
    assert not any(isinstance(node.op, TransData) for node in module.main)
    assert print_module(module) == print_module(plain)
