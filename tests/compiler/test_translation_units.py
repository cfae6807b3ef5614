"""Translation units of generated kernels: each kernel is in one unit, units have similar sizes, and the split
is deterministic.
"""

from __future__ import annotations

import os

import pytest

from graphwright.compiler import translation_units
from graphwright.ir.loops.nodes import Kernel
from graphwright.ir.loops.text import parse_kernel, print_kernel
from tests.ir.loops.cases import CASES

KERNELS: list[tuple[Kernel, str]] = [(parse_kernel(case.text), case.name) for case in CASES]


@pytest.mark.parametrize("unit_text", [1, 500, 2000, 10**9])
def test_every_kernel_is_in_one_unit(unit_text: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translation_units, "UNIT_TEXT", unit_text)
    units = translation_units._units(KERNELS)
    assert sorted(comment for unit in units.values() for _, comment, _ in unit) == sorted(
        c for _, c in KERNELS
    )
    for unit in units.values():
        for kernel, _, text in unit:
            assert text == print_kernel(kernel)
    expected = {1: min(translation_units.MOST_UNITS, len(KERNELS)), 10**9: 1}
    assert len(units) == expected.get(unit_text, len(units))
    sizes = [sum(len(text) for _, _, text in unit) for unit in units.values()]
    largest = max(len(text) for unit in units.values() for _, _, text in unit)
    assert max(sizes) <= sum(sizes) / len(units) + largest


def test_translation_units_do_not_depend_on_the_number_of_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    before = translation_units._units(KERNELS)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0})
    assert translation_units._units(KERNELS) == before
    assert list(translation_units._units(KERNELS[:1])) == ["generated"]
    assert translation_units._units([]) == {}
