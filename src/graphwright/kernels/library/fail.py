"""The kernel that only fails: what a branch that cannot run is made of."""

from __future__ import annotations

from typing import Final

from graphwright.kernels.library.isa import Isa, prelude

SYMBOL: Final = "gw_fail"
CANNOT_RUN: Final = 2
"""Its error code."""


def source(isa: Isa) -> str:
    """One C file with ``gw_fail``."""
    return "\n".join([prelude(isa), _BODY.replace("@CODE@", str(CANNOT_RUN))])


_BODY: Final = """
GW_EXPORT int32_t gw_fail(void *const *buf, const int64_t *arg, int64_t begin, int64_t end, void *scratch) {
    (void)buf, (void)arg, (void)begin, (void)end, (void)scratch;
    return @CODE@;
}
"""
