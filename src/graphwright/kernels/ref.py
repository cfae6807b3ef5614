"""The name of a compiled kernel."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class KernelRef:
    """``symbol`` in the kernel library of this ISA (``module`` empty) or in a generated shared object (its
    name).
    """

    symbol: str
    module: str = ""
