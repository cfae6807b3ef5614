"""Kernels that end a run: a branch that cannot run was taken, or sizes violate an assumption."""

from __future__ import annotations

from typing import Final

from graphwright.kernels.library.abi import Abi
from graphwright.kernels.library.extent import BITS, GRID, Extent, within
from graphwright.targets.cpu.isa import Isa

FAIL: Final = "gw_fail"
"""Always fails."""
REQUIRE_EQUAL: Final = "gw_require_equal"
"""Fails unless its arguments are equal."""
REQUIRE_AT_MOST: Final = "gw_require_at_most"
"""Fails unless the first argument is at most the second."""
CANNOT_RUN: Final = 2
"""The error code of all three kernels."""

ABI: Final = Abi("require", (), ("left", "right"))
"""The arguments of the kernels that compare."""


def extents(isa: Isa) -> tuple[Extent, ...]:
    """They access no memory. Their operands are the outputs of later kernels, which makes those wait for
    them.
    """
    taken = {FAIL: (), REQUIRE_EQUAL: ABI.args, REQUIRE_AT_MOST: ABI.args}
    return tuple(
        Extent(name, args, (), grid=GRID, bounds=within(BITS, *args)) for name, args in taken.items()
    )


def header(isa: Isa) -> str:
    """The generated header of ``fail.c``."""
    return f"{ABI.c_text()}#define CANNOT_RUN {CANNOT_RUN}\n"
