"""What a chosen kernel needs to be called, in symbolic sizes: the link from kernel selection to lowering."""

from __future__ import annotations

from dataclasses import dataclass

from graphwright.ir.graph import Value
from graphwright.ir.symbols import Dim
from graphwright.kernels.ref import KernelRef


@dataclass(frozen=True)
class Hook:
    """An epilogue that a library kernel calls on each finished tile; its operands and args follow the kernel's own."""

    kernel: KernelRef
    operands: tuple[Value, ...]
    writes: tuple[int, ...]
    args: tuple[Dim, ...]


@dataclass(frozen=True)
class Launch:
    """One kernel call over ``grid`` independent units. ``scratch`` in bytes per thread, ``work`` in nanoseconds of one core."""

    kernel: KernelRef
    operands: tuple[Value | None, ...]
    writes: tuple[int, ...]
    """Positions in ``operands`` that are outputs."""
    args: tuple[Dim, ...]
    grid: Dim
    scratch: Dim = 0
    work: Dim = 0
    hook: Hook | None = None
