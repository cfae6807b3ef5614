"""Translation units of a model's own kernels: each kernel once, about the same size, the same everywhere."""

from __future__ import annotations

import os

import pytest

from graphwright.compiler import modules as compiler
from graphwright.ir.loops.nodes import Kernel
from graphwright.ir.loops.text import parse_kernel, print_kernel
from graphwright.targets.cpu.emit import phases
from tests.ir.loops.cases import CASES

KERNELS: list[tuple[Kernel, str]] = [(parse_kernel(case.text), case.name) for case in CASES]


@pytest.mark.parametrize("unit_text", [1, 500, 2000, 10**9])
def test_every_kernel_is_in_one_unit(unit_text: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "UNIT_TEXT", unit_text)
    units = compiler._units(KERNELS)
    assert sorted(comment for unit in units.values() for _, comment, _ in unit) == sorted(
        c for _, c in KERNELS
    )
    for unit in units.values():
        for kernel, _, text in unit:
            assert text == "\n".join(map(print_kernel, phases(kernel)))
    expected = {1: min(compiler.MOST_UNITS, len(KERNELS)), 10**9: 1}
    assert len(units) == expected.get(unit_text, len(units))
    sizes = [sum(len(text) for _, _, text in unit) for unit in units.values()]
    largest = max(len(text) for unit in units.values() for _, _, text in unit)
    assert max(sizes) <= sum(sizes) / len(units) + largest


def test_units_do_not_depend_on_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    before = compiler._units(KERNELS)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0})
    assert compiler._units(KERNELS) == before
    assert list(compiler._units(KERNELS[:1])) == ["generated"]
    assert compiler._units([]) == {}
