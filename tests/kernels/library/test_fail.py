"""Kernels that end a run: always, or if two numbers do not satisfy a condition."""

from __future__ import annotations

import pytest

from graphwright.kernels.control import fail
from graphwright.targets.cpu.isa import Isa
from tests.kernels.library.cases import each_isa
from tests.kernels.library.harness import call, load


@each_isa
def test_the_kernel_fail_always_fails(isa: Isa) -> None:
    assert call(load(fail, isa)[fail.FAIL], [], [], 1, 0) == fail.CANNOT_RUN


@each_isa
@pytest.mark.parametrize(("left", "right"), [(0, 0), (-1, 1), (1, -1), (1 << 40, 1 << 40), (7, 8)])
def test_requirements_compare_their_arguments(isa: Isa, left: int, right: int) -> None:
    library = load(fail, isa)
    equal = call(library[fail.REQUIRE_EQUAL], [], [left, right], 1, 0)
    at_most = call(library[fail.REQUIRE_AT_MOST], [], [left, right], 1, 0)
    assert equal == (0 if left == right else fail.CANNOT_RUN)
    assert at_most == (0 if left <= right else fail.CANNOT_RUN)
