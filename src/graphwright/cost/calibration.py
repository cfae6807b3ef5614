"""The machine that costs are predicted for, with rates that were measured on the machine at hand."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from graphwright.cost.machine import MACHINES, Level, Machine
from graphwright.log import warn_once
from graphwright.rate_files import NO_RATES, USERS_RATES, cpu_model, parsed, rates_text
from graphwright.records import replace

REMEDY = "graphwright calibrate measures this machine, graphwright calibrate --reset removes the file"


def resolved(calibration: str, users_file: Path) -> str:
    """``calibration``, an option, with the content of ``users_file`` in place of ``auto``: ``none`` where
    there is no file, or, with one warning, where it is damaged or of another CPU.
    """
    if calibration != USERS_RATES:
        return calibration
    try:
        cpu, rates = parsed(users_file.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return NO_RATES
    except (OSError, ValueError) as error:
        warn_once(f"rates {users_file}", "%s is not used: %s; %s", users_file, error, REMEDY)
        return NO_RATES
    if cpu != cpu_model():
        message = "%s is not used: it was measured on %s; %s"
        warn_once(f"rates {users_file}", message, users_file, cpu, REMEDY)
        return NO_RATES
    return rates_text(cpu, rates)


@cache
def machine_of(isa: str, calibration: str) -> Machine:
    """The machine of ``isa`` with the rates that ``calibration`` holds for it; that of the table where it
    holds none."""
    if not calibration.startswith("{"):
        return MACHINES[isa]
    rates = parsed(calibration)[1]
    return with_rates(MACHINES[isa], rates[isa]) if isa in rates else MACHINES[isa]


def with_rates(machine: Machine, rates: Mapping[str, int]) -> Machine:
    """``machine`` with ``rates``. What is not measured follows the f32 rate: products of bytes and of bf16.
    Sizes of caches stay: kernels were built for them.
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
    """The rates of ``machine``, as files have them."""
    levels = {"l1": machine.l1, "l2": machine.l2, "l3": machine.l3, "memory": machine.memory}
    return {
        "clock_mhz": machine.clock_mhz,
        "f32_gflops": machine.f32_gflops,
        **{f"{name}_load": level.load for name, level in levels.items()},
        **{f"{name}_store": level.store for name, level in levels.items()},
    }
