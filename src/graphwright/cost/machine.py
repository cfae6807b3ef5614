"""The machine that costs are predicted for: one table for each instruction set.

The table is fixed, so that a model compiles to the same bytes on every machine, unless its user has measured
another (``cost/calibration.py``): it decides between kernels and layouts, and how a launch is split among
threads. Rates are those of one core of a server with AMD Zen 4
cores at 3.7 GHz, measured with ``python -m benchmarks.limits``, which prints them beside this table. What
decides are ratios between rates, and these differ less between machines than the rates.
"""

from __future__ import annotations

from typing import Final

from graphwright.records import dataclass


@dataclass(frozen=True)
class Level:
    """A cache or memory: bytes that it holds, and bytes that one core loads or stores in a nanosecond."""

    bytes: int
    load: int
    store: int

    @property
    def moved(self) -> int:
        """Bytes a nanosecond where as many are stored as are loaded."""
        return 2 * self.load * self.store // (self.load + self.store)


@dataclass(frozen=True)
class Machine:
    """One core: its vectors, its clock, and what it multiplies and moves in a nanosecond."""

    vector_bytes: int
    clock_mhz: int
    f32_gflops: int
    """Multiply-adds of f32 at full rate, each of which counts twice: operations a nanosecond."""
    i8_gops: int
    """Multiply-adds of bytes, likewise."""
    bf16_gflops: int
    """Multiply-adds of bf16, likewise."""
    l1: Level
    l2: Level
    l3: Level
    memory: Level
    l1_ways: int = 8
    """Lines that L1 holds of those whose addresses differ by multiples of :attr:`l1_period`."""
    task_ns: int = 4000
    """One task more: its launch, a barrier of the threads, and caches that hold other values behind it."""

    @property
    def lanes(self) -> int:
        """f32 elements of a vector."""
        return self.vector_bytes // 4

    @property
    def l1_period(self) -> int:
        """f32 elements after which addresses meet in a set of L1."""
        return self.l1.bytes // self.l1_ways // 4


FMA_SUMS: Final = 8
"""Independent sums that keep the FMA units of a core busy: two units of latency 4."""

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
"""By the name of the instruction set. Zen 4 has as many FMA units for 256 bits as halves of one for 512."""
