"""Damaged packages, a bounded part of ``make fuzz``: rejected, or run correctly; no untrusted code runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.packages import KINDS, SEEDS, Workshop
from tests.fuzz.run import figures_of

MUTANTS = 300


@pytest.mark.long
@pytest.mark.parametrize("kind", ["package", "model"])
def test_mutants_are_rejected_or_run(kind: str, tmp_path: Path) -> None:
    count = MUTANTS if kind == "package" else MUTANTS // 3
    found = figures_of(kind, 0, count, tmp_path)
    assert found.faults == []
    assert found.count == count
    assert len(found.outcomes) > 5, "mutants must fail in many ways"
    assert found.outcomes["ran"] > count // 50, "mutants must reach the kernels"


def test_a_mutant_follows_from_its_number(tmp_path: Path) -> None:
    shop = Workshop(tmp_path)
    numbers = range(len(SEEDS) * len(KINDS))
    made = {number: shop.mutant(number)[0].read_bytes() for number in numbers}
    assert len(set(made.values())) == len(numbers)
    for number in reversed(numbers):
        assert shop.mutant(number)[0].read_bytes() == made[number]


def test_the_mark_shows_foreign_code(tmp_path: Path) -> None:
    """The marker works: a shared object that is opened leaves the mark."""
    shop = Workshop(tmp_path)
    assert not shop.mark.exists()
    opened = f"import ctypes; ctypes.CDLL({str(shop.folder / 'evil.so')!r})"
    subprocess.run([sys.executable, "-c", opened], check=True)
    assert shop.mark.exists()
