"""Rates of a machine are defined only in the table of machines."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import graphwright

ROOT = Path(graphwright.__file__).parent
DECIDING = ("compiler", "fusion", "kernels", "layout", "loop_nests", "lower", "memory", "schedule", "targets")
"""Folders that choose kernels, layouts and blocks."""
RATE = re.compile(r"(^|_)(GFLOPS|GOPS|FLOPS|MHZ|GHZ|BANDWIDTH|NS|LATENCY|L[123]|CACHE)(_|$)")
SIZE = re.compile(r"(^|_)BYTES$")
WORK = {
    "kernels/movement/rows.py:_UNIT_BYTES": "bytes that a unit of the grid moves",
    "fusion/decision_text.py:_MOST_BYTES": "the end of the numbers that are read",
    "kernels/search/top_k.py:_COLUMN_BYTES": "scratch for the columns that are copied at a time",
    "layout/fold_depth.py:_MOST_BYTES": "the memory that a pass may add",
    "layout/transform.py:_READ_BYTES": "bytes of weights that are packed at a time",
    "layout/transform.py:_JOB_BYTES": "bytes of weights that a thread packs",
    "kernels/ml/candidates.py:NODE_BYTES": "the size of a record",
    "memory/checker/check.py:NUMBER_BYTES": "the size of an integer",
}
"""Sizes that are no cache's."""


def constants(path: Path) -> Iterator[tuple[str, ast.expr]]:
    """Names that the module gives to numbers."""
    for node in ast.parse(path.read_text()).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        value = getattr(node, "value", None)
        for target in targets:
            if isinstance(target, ast.Name) and value is not None and is_number(value):
                yield target.id, value


def is_number(value: ast.expr) -> bool:
    """Whether ``value`` is written in digits: ``8``, ``512 << 10``."""
    if isinstance(value, ast.BinOp):
        return is_number(value.left) and is_number(value.right)
    return isinstance(value, ast.Constant) and type(value.value) in (int, float)


@pytest.mark.parametrize("folder", DECIDING)
def test_rates_and_sizes_of_caches_are_not_written_elsewhere(folder: str) -> None:
    found = []
    for path in sorted((ROOT / folder).rglob("*.py")):
        for name, _ in constants(path):
            where = f"{path.relative_to(ROOT)}:{name}"
            if RATE.search(name.upper()) or (SIZE.search(name.upper()) and where not in WORK):
                found.append(where)
    assert not found, "put it in cost/machine.py, or say as a share of what stands there how large it is"


def test_the_scan_finds_constants_with_units(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text('L2_BYTES = 1 << 20\nGFLOPS: Final = 117\nSHARE = 0.8\nnames = "a"\nTWICE = 2 * SHARE\n')
    assert [name for name, _ in constants(path)] == ["L2_BYTES", "GFLOPS", "SHARE"]
    assert RATE.search("GFLOPS") and RATE.search("LAUNCH_NS") and not RATE.search("LINES")


def test_the_listed_constants_exist() -> None:
    there = {f"{p.relative_to(ROOT)}:{name}" for p in ROOT.rglob("*.py") for name, _ in constants(p)}
    assert WORK.keys() <= there
