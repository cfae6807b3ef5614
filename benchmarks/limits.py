"""Measures the limits of one core: FMAs per second in registers, bytes read and copied per second.

``python -m benchmarks.limits`` prints them next to the rates of the cost model. A kernel that is compared
with a limit should be measured alternately with it: other work on the machine slows both.
"""

from __future__ import annotations

from functools import cache

from graphwright.targets.cpu.isa import ISAS, Isa
from graphwright.targets.cpu.rates import LARGEST, Core, thread_seconds
from graphwright.targets.cpu.toolchain import find_toolchain

__all__ = ["copy_gbps", "fma_gflops", "read_gbps", "thread_seconds"]


@cache
def _core(isa: Isa) -> Core:
    return Core(isa, find_toolchain())


def fma_gflops(isa: Isa, repeats: int = 3) -> float:
    """GFLOP/s of independent f32 FMAs in registers, on this core at this moment."""
    return _core(isa).fma_gflops(repeats)


def read_gbps(size: int, isa: Isa, repeats: int = 3) -> float:
    """GB/s at which ``size`` bytes are read over and over: from memory if no cache holds them."""
    return _core(isa).read_gbps(size, repeats)


def copy_gbps(size: int, isa: Isa, repeats: int = 3) -> float:
    """GB/s at which ``size`` bytes are copied over and over; a byte copied counts once."""
    return _core(isa).copy_gbps(size, repeats)


def main() -> None:
    """Print the measured rates next to those of the cost model."""
    for isa in ISAS.values():
        table = isa.machine
        print(f"{isa.name}  f32 GFLOP/s {fma_gflops(isa):5.0f}  table {table.f32_gflops}")
        levels = {"L1": table.l1, "L2": table.l2, "L3": table.l3, "memory": table.memory}
        for name, level in levels.items():
            size = min(level.bytes // 2, LARGEST)
            copied = 2 * copy_gbps(size // 2, isa)
            print(f"    {name:6} GB/s loaded {read_gbps(size, isa):5.0f}  table {level.load:4}", end="")
            print(f"  loaded and stored {copied:5.0f}  table {level.moved:4}")


if __name__ == "__main__":
    main()
