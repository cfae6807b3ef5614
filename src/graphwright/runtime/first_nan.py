"""The message about the first step of a run whose results contain NaN or infinity."""

from __future__ import annotations

from graphwright.errors import Diagnostic

NAN = "NaN"
INFINITY = "infinity"


def first_nan(step: str, count: int, total: int, where: str = "", kind: str = NAN) -> Diagnostic:
    """The message that ``step`` is the first whose results contain ``kind``, in ``count`` elements."""
    return Diagnostic(
        "nan", f"{step} is the first whose results contain {kind}: {count} of {total} elements", where
    )
