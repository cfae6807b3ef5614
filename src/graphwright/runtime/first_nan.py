"""The message about the first step of a run whose results contain NaN or infinity."""

from __future__ import annotations

from graphwright.errors import Diagnostic

NAN = "NaN"
INFINITY = "infinity"


def first_nan(step: str, count: int, total: int, where: str = "", kind: str = NAN) -> Diagnostic:
    """``step`` is the first whose results contain ``kind``: in ``count`` of ``total`` elements."""
    return Diagnostic("nan", f"{step} is the first with {kind}: {count} of {total} elements", where)
