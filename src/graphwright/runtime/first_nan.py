"""What is said of the first step of a run whose results have elements that are no finite numbers."""

from __future__ import annotations

from graphwright.errors import Diagnostic

NAN = "NaN"
INFINITY = "infinity"


def first_nan(step: str, count: int, total: int, where: str = "", kind: str = NAN) -> Diagnostic:
    """``count`` of the ``total`` elements that ``step`` gives are NaN, and those of no step before it."""
    return Diagnostic("nan", f"{step} is the first with {kind}: {count} of {total} elements", where)
