"""The machine model with rates measured on the machine at hand."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from graphwright.cost.machine import MACHINES, Level, Machine
from graphwright.option_files.rate_files import parsed
from graphwright.records import replace


@cache
def machine_of(isa: str, calibration: str) -> Machine:
    """The machine for ``isa`` with the rates in ``calibration``; the built-in table if it has none."""
    if not calibration.startswith("{"):
        return MACHINES[isa]
    rates = parsed(calibration)[1]
    return with_rates(MACHINES[isa], rates[isa]) if isa in rates else MACHINES[isa]


def with_rates(machine: Machine, rates: Mapping[str, int]) -> Machine:
    """``machine`` with measured ``rates``. Rates of 8-bit and bf16 products are not measured, and scale with
    the f32 rate. Cache sizes stay, as kernels were built for them.
    """

    def level(name: str, of: Level) -> Level:
        return replace(of, load=rates[f"{name}_load"], store=rates[f"{name}_store"])

    def scaled(rate: int) -> int:
        return max(1, rate * rates["f32_gflops"] // machine.f32_gflops)

    return replace(
        machine,
        clock_mhz=rates["clock_mhz"],
        f32_gflops=rates["f32_gflops"],
        i8_gops=scaled(machine.i8_gops),
        bf16_gflops=scaled(machine.bf16_gflops),
        l1=level("l1", machine.l1),
        l2=level("l2", machine.l2),
        l3=level("l3", machine.l3),
        memory=level("memory", machine.memory),
    )


def rates_of(machine: Machine) -> dict[str, int]:
    """The rates of ``machine`` in the file format."""
    levels = {"l1": machine.l1, "l2": machine.l2, "l3": machine.l3, "memory": machine.memory}
    return {
        "clock_mhz": machine.clock_mhz,
        "f32_gflops": machine.f32_gflops,
        **{f"{name}_load": level.load for name, level in levels.items()},
        **{f"{name}_store": level.store for name, level in levels.items()},
    }
