"""Kernels that end a run: branches that cannot run, and sizes that are not as a branch assumes."""

from __future__ import annotations

from typing import Final

from graphwright.kernels.library.extent import BITS, UNITS, Extent, within
from graphwright.targets.cpu.isa import Isa, prelude

FAIL: Final = "gw_fail"
"""Always fails."""
REQUIRE_EQUAL: Final = "gw_require_equal"
"""Fails unless arg 0 == arg 1."""
REQUIRE_AT_MOST: Final = "gw_require_at_most"
"""Fails unless arg 0 <= arg 1."""
CANNOT_RUN: Final = 2
"""The error code of all three."""

_CONDITIONS: Final = {FAIL: "0", REQUIRE_EQUAL: "arg[0] == arg[1]", REQUIRE_AT_MOST: "arg[0] <= arg[1]"}


def extents(isa: Isa) -> tuple[Extent, ...]:
    """They touch nothing: their operands are what the kernels behind them write, so that these wait."""
    args = ("left", "right")
    counts = {FAIL: 0, REQUIRE_EQUAL: 2, REQUIRE_AT_MOST: 2}
    return tuple(
        Extent(name, args[:count], (), grid=UNITS, bounds=within(BITS, *args[:count]))
        for name, count in counts.items()
    )


def source(isa: Isa) -> str:
    """One C file with the three symbols."""
    kernels = (
        _KERNEL.replace("@NAME@", name).replace("@CONDITION@", text) for name, text in _CONDITIONS.items()
    )
    return "\n".join([prelude(isa), *kernels]).replace("@CODE@", str(CANNOT_RUN))


_KERNEL: Final = """
GW_EXPORT int32_t @NAME@(void *const *buf, const int64_t *arg, int64_t begin, int64_t end, void *scratch) {
    (void)buf, (void)arg, (void)begin, (void)end, (void)scratch;
    return @CONDITION@ ? 0 : @CODE@;
}
"""
