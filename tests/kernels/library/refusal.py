"""Checks that a launch is planned only if its operands have at least the bytes that the kernel declares to
access.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import pytest

from graphwright import _native
from graphwright.low_ir.tasks import FunctionOperand, Storage
from graphwright.targets.cpu.c.extent import FIRST
from tests.low_ir.words import encode
from tests.runtime.native.handmade import Builder

NOWHERE = 1
"""In place of the kernel's address: it is not called."""


def check(extent: Any, args: Sequence[Any], grid: int, reach: Sequence[float], hooked: bool) -> None:
    """``reach``: what ``extent`` says for these arguments."""
    address = ctypes.cast(extent, ctypes.c_void_p).value or 0
    scratch, ends = int(reach[1]), [int(end) for end in reach[FIRST:]]

    def plan(sizes: Sequence[int | None], scratch: int = scratch, grid: int = grid) -> None:
        _plan(address, list(map(int, args)), grid, sizes, scratch, hooked)

    whole = [abs(end) for end in ends]
    plan(whole)
    plan([None if end <= 0 else end for end in ends])
    for k, size in enumerate(whole):
        if size:
            _refused(lambda k=k, size=size: plan([*whole[:k], size - 1, *whole[k + 1 :]]))
        if ends[k] > 0:
            _refused(lambda k=k: plan([*whole[:k], None, *whole[k + 1 :]]))
    if scratch:
        _refused(lambda: plan(whole, scratch=scratch - 1))


def _refused(planned: Any) -> None:
    with pytest.raises(_native.PlanError, match="task 0"):
        planned()


def _plan(
    extent: int, args: list[int], grid: int, sizes: Sequence[int | None], scratch: int, hooked: bool
) -> None:
    b = Builder()
    operands: list[Any] = [
        None if size is None else b.at(b.buffer(Storage.ARENA, b.const(size))) for size in sizes
    ]
    operands.append(FunctionOperand(b.kernel("hook")) if hooked else None)
    room = b.buffer(Storage.SCRATCH, b.const(scratch))
    b.launch("kernel", operands, [], b.const(grid), args=[b.const(a) for a in args], scratch=room)
    extents = [extent if kernel.symbol == "kernel" else _NONE for kernel in b.kernels]
    _native.Program(encode(b.program()), b"", [NOWHERE] * len(b.kernels), extents=extents).plan([])


_EXTENT = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.POINTER(ctypes.c_double)
)
_nothing = _EXTENT(lambda *_: 0)
_NONE = ctypes.cast(_nothing, ctypes.c_void_p).value or 0
"""The extent of an epilogue that touches nothing."""
