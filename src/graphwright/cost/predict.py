"""How long a launch takes on one core, from what it does and a table of the machine.

A kernel states its work: multiply-adds and the share of the peak that its loops reach, bytes that it moves,
cycles of everything else. The machine has the rates. Sizes may be symbols: what is predicted is then an
expression that is evaluated when a plan is made.
"""

from __future__ import annotations

from graphwright.cost.machine import Machine
from graphwright.ir.symbols import Dim, ceildiv, floordiv, maximum, minimum
from graphwright.records import dataclass


@dataclass(frozen=True)
class Work:
    """What a launch does; loops of arithmetic and the streams that feed them overlap."""

    fmas: Dim = 0
    """Multiply-adds of f32."""
    byte_fmas: Dim = 0
    """Multiply-adds of bytes to i32."""
    efficiency: int = 100
    """The share of the peak, in percent, that the loops of multiply-adds reach."""
    cycles: Dim = 0
    """Cycles of instructions other than these."""
    moved: Dim = 0
    """Bytes that are loaded or stored once; the caches hold them if they are few enough."""
    weights: Dim = 0
    """Bytes of weights: they come from memory, as the model's other layers have been in the caches since."""


def predict(work: Work, machine: Machine) -> Dim:
    """Nanoseconds of ``work`` on one core."""
    busy = (
        _arithmetic_ns(work.fmas, machine.f32_gflops * work.efficiency)
        + _arithmetic_ns(work.byte_fmas, machine.i8_gops * work.efficiency)
        + cycles_ns(work.cycles, machine)
    )
    return overlapped(busy, stream_ns(work.moved, machine) + weights_ns(work.weights, machine))


def overlapped(first: Dim, second: Dim) -> Dim:
    """Two that run side by side; measured, the shorter still costs a fifth of itself."""
    if first == 0 or second == 0:
        return first + second
    return maximum(first, second) + floordiv(minimum(first, second), 5)


def cycles_ns(cycles: Dim, machine: Machine) -> Dim:
    """Nanoseconds of ``cycles``."""
    return ceildiv(1000 * cycles, machine.clock_mhz)


def stream_ns(moved: Dim, machine: Machine) -> Dim:
    """Nanoseconds to load and store so many bytes once, of which each cache holds a part."""
    l2, l3, memory = machine.l2, machine.l3, machine.memory
    near = minimum(moved, l2.bytes)
    middle = minimum(moved, l3.bytes) - near
    return ceildiv(near, l2.moved) + ceildiv(middle, l3.moved) + ceildiv(moved - near - middle, memory.moved)


def weights_ns(weights: Dim, machine: Machine) -> Dim:
    """Nanoseconds to load weights from memory."""
    return ceildiv(weights, machine.memory.load)


def _arithmetic_ns(fmas: Dim, percent_of_gflops: int) -> Dim:
    return ceildiv(200 * fmas, percent_of_gflops)
