"""Strides of arrays."""

from __future__ import annotations

from graphwright.ir.symbols import Dim


def row_major_strides(shape: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """Strides, in elements, of a dense row-major array."""
    strides: list[Dim] = []
    running: Dim = 1
    for dim in reversed(shape):
        strides.append(running)
        running = running * dim
    return tuple(reversed(strides))
