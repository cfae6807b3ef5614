"""How long a launch takes on one core, from what it does and a table of the machine.

A kernel states its work: multiply-adds and the share of the peak that its loops reach, bytes that it moves,
cycles of everything else. The machine has the rates. Sizes may be symbols: what is predicted is then an
expression that is evaluated when a plan is made.
"""

from __future__ import annotations

from typing import Final

from graphwright.cost.machine import Machine
from graphwright.ir.symbols import Dim, ceildiv, floordiv, maximum
from graphwright.records import dataclass


@dataclass(frozen=True)
class Work:
    """What a launch does; loops of arithmetic and the streams that feed them overlap."""

    fmas: Dim = 0
    """Multiply-adds of f32."""
    byte_fmas: Dim = 0
    """Multiply-adds of bytes to i32."""
    pair_fmas: Dim = 0
    """Multiply-adds of bf16 to f32."""
    efficiency: int = 100
    """The share of the peak, in percent, that the loops of multiply-adds reach."""
    cycles: Dim = 0
    """Cycles of instructions other than these."""
    moved: Dim = 0
    """Bytes that are loaded or stored once; the caches hold them if they are few enough."""
    weights: Dim = 0
    """Bytes of weights: they come from memory, as the model's other layers have been in the caches since."""


_UNITS: Final = 100_000
"""Of a nanosecond: rates become whole numbers, and an expression of sizes is divided only once."""


def predict(work: Work, machine: Machine) -> Dim:
    """Nanoseconds of ``work`` on one core."""
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
    """Two that run side by side; measured, the shorter still costs a fifth of itself."""
    if first == 0 or second == 0:
        return first + second
    return floordiv(_fivefold(first, second), 5)


def _fivefold(first: Dim, second: Dim) -> Dim:
    """Five times the longer, and the shorter."""
    return maximum(5 * first + second, first + 5 * second)


def cycles_ns(cycles: Dim, machine: Machine) -> Dim:
    """Nanoseconds of ``cycles``."""
    return ceildiv(1000 * cycles, machine.clock_mhz)


def stream_ns(moved: Dim, machine: Machine) -> Dim:
    """Nanoseconds to load and store so many bytes once, of which each cache holds a part."""
    return ceildiv(_stream_units(moved, machine), _UNITS)


def _stream_units(moved: Dim, machine: Machine) -> Dim:
    """As each level is slower than the one before it, the longest of three lines: one for the bytes beyond
    each size.
    """
    l2, l3, memory = (_UNITS // level.moved for level in (machine.l2, machine.l3, machine.memory))
    beyond_l2 = (l3 - l2) * machine.l2.bytes
    beyond_l3 = beyond_l2 + (memory - l3) * machine.l3.bytes
    return maximum(l2 * moved, l3 * moved - beyond_l2, memory * moved - beyond_l3)


def _per_gops(percent: int) -> int:
    """Units of a multiply-add, two operations, where ``percent`` of a billion are done in a second."""
    return 200 * _UNITS // percent
