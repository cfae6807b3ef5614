"""The machine model: one table of rates per instruction set.

The table is fixed, so that a model compiles to the same bytes on every machine, unless the user has
calibrated (``cost/calibration.py``). It decides between kernels and layouts, and how launches are split among
threads. Rates are those of one core of an AMD Zen 4 server CPU at 3.7 GHz, measured with ``python -m
benchmarks.limits``, which prints them next to this table. Decisions depend on ratios of rates, which differ
less between machines than the rates themselves.
"""

from __future__ import annotations

from typing import Final

from graphwright.records import dataclass


@dataclass(frozen=True)
class Level:
    """A cache or memory: its capacity in bytes, and the bytes that one core loads or stores
    per nanosecond.
    """

    bytes: int
    load: int
    store: int

    @property
    def moved(self) -> int:
        """Bytes per nanosecond if as many are stored as loaded."""
        return 2 * self.load * self.store // (self.load + self.store)


@dataclass(frozen=True)
class Machine:
    """One core: its vectors, its clock, and its arithmetic and memory rates."""

    vector_bytes: int
    clock_mhz: int
    f32_gflops: int
    """Peak f32 rate in Gflop/s; a multiply-add counts as two operations."""
    i8_gops: int
    """Peak rate of 8-bit multiply-adds, counted in the same way."""
    bf16_gflops: int
    """Peak rate of bf16 multiply-adds, counted in the same way."""
    l1: Level
    l2: Level
    l3: Level
    memory: Level
    l1_ways: int = 8
    """Associativity of L1: lines that it holds whose addresses differ by multiples of :attr:`l1_period`."""
    lane_row: int = 8
    """The most elements per row for which strided loads, with a row in each lane, cost less than horizontal
    sums.
    """
    launch_ns: int = 300
    """A launch in nanoseconds, on one thread and with its operands in the caches."""
    hook_call_ns: int = 4
    """A call of a generated epilogue in nanoseconds."""
    task_ns: int = 4000
    """Overhead of one more task in nanoseconds: its launch, a thread barrier, and the caches refilled after
    it.
    """

    @property
    def lanes(self) -> int:
        """f32 elements per vector."""
        return self.vector_bytes // 4

    @property
    def l1_period(self) -> int:
        """The distance in f32 elements at which addresses map to the same set of L1."""
        return self.l1.bytes // self.l1_ways // 4


FMA_SUMS: Final = 8
"""Independent sums that keep the FMA units busy: two units with latency 4."""

_L1: Final = Level(32 << 10, load=180, store=180)
_L2: Final = Level(1 << 20, load=112, store=112)
_L3: Final = Level(16 << 20, load=75, store=95)
_MEMORY: Final = Level(1 << 62, load=24, store=24)

MACHINES: Final = {
    "v3": Machine(
        32, 3660, f32_gflops=117, i8_gops=190, bf16_gflops=117, l1=_L1, l2=_L2, l3=_L3, memory=_MEMORY
    ),
    "v4": Machine(
        64, 3660, f32_gflops=117, i8_gops=468, bf16_gflops=231, l1=_L1, l2=_L2, l3=_L3, memory=_MEMORY
    ),
}
"""By name of the instruction set. On Zen 4, two 256-bit FMA units form one 512-bit unit, so both have the
same f32 rate.
"""
