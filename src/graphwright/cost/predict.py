"""Predicts the time of a launch on one core, from its work and the machine model.

A kernel states its work: multiply-adds and the share of peak that its loops reach, bytes moved, and cycles of
everything else. The machine model has the rates. With symbolic sizes, the prediction is an expression that is
evaluated when a plan is made.
"""

from __future__ import annotations

from typing import Final

from graphwright.cost.machine import Machine
from graphwright.ir.symbols import Dim, ceildiv, floordiv, maximum
from graphwright.records import dataclass


@dataclass(frozen=True)
class Work:
    """The work of a launch. Arithmetic overlaps with the memory streams that feed it."""

    fmas: Dim = 0
    """Multiply-adds of f32."""
    byte_fmas: Dim = 0
    """8-bit multiply-adds to i32."""
    pair_fmas: Dim = 0
    """bf16 multiply-adds to f32."""
    efficiency: int = 100
    """Percent of peak that the multiply-add loops reach."""
    cycles: Dim = 0
    """Cycles of all other instructions."""
    moved: Dim = 0
    """Bytes that are loaded or stored once; they come from a cache if they fit."""
    weights: Dim = 0
    """Bytes of weights. They come from memory, as the other layers of the model have evicted them."""


_UNITS: Final = 100_000
"""Units per nanosecond: rates become integers, and an expression is divided only once."""


def predict(work: Work, machine: Machine) -> Dim:
    """The time of ``work`` on one core, in nanoseconds."""
    busy = (
        _per_gops(machine.f32_gflops * work.efficiency) * work.fmas
        + _per_gops(machine.i8_gops * work.efficiency) * work.byte_fmas
        + _per_gops(machine.bf16_gflops * work.efficiency) * work.pair_fmas
        + _UNITS * 1000 // machine.clock_mhz * work.cycles
    )
    streams = _stream_units(work.moved, machine) + _UNITS // machine.memory.load * work.weights
    if isinstance(busy, int) and busy == 0:
        return ceildiv(streams, _UNITS)
    if isinstance(streams, int) and streams == 0:
        return ceildiv(busy, _UNITS)
    return ceildiv(_fivefold(busy, streams), 5 * _UNITS)


def overlapped(first: Dim, second: Dim) -> Dim:
    """The time of two activities that overlap: measurements show that a fifth of the shorter one remains."""
    if first == 0 or second == 0:
        return first + second
    return floordiv(_fivefold(first, second), 5)


def _fivefold(first: Dim, second: Dim) -> Dim:
    """Five times the longer plus the shorter."""
    return maximum(5 * first + second, first + 5 * second)


def cycles_ns(cycles: Dim, machine: Machine) -> Dim:
    """Nanoseconds of ``cycles``."""
    return ceildiv(1000 * cycles, machine.clock_mhz)


def stream_ns(moved: Dim, machine: Machine) -> Dim:
    """Nanoseconds to load and store ``moved`` bytes once, each part from the cache level that holds it."""
    return ceildiv(_stream_units(moved, machine), _UNITS)


def _stream_units(moved: Dim, machine: Machine) -> Dim:
    """A piecewise linear function with one piece per cache level. As each level is slower than the previous
    one, it is the maximum of the pieces.
    """
    l2, l3, memory = (_UNITS // level.moved for level in (machine.l2, machine.l3, machine.memory))
    beyond_l2 = (l3 - l2) * machine.l2.bytes
    beyond_l3 = beyond_l2 + (memory - l3) * machine.l3.bytes
    return maximum(l2 * moved, l3 * moved - beyond_l2, memory * moved - beyond_l3)


def _per_gops(percent: int) -> int:
    """Units per multiply-add (two operations) at ``percent`` / 100 Gop/s."""
    return 200 * _UNITS // percent
