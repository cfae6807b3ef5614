"""Calibration files, which ``graphwright calibrate`` writes, and the values of the option ``calibration``.

A file is JSON: ``format``, ``cpu`` (the measured CPU model), and ``rates``, for each ISA the numbers of
:data:`RATES`. Rates are integers: operations and bytes per nanosecond, and MHz.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from graphwright.log import warn_once
from graphwright.option_files.text import option_text

FORMAT: Final = 1
NO_RATES: Final = "none"
USERS_RATES: Final = "auto"
RATES: Final = (
    "clock_mhz", "f32_gflops", "l1_load", "l1_store", "l2_load", "l2_store", "l3_load", "l3_store",
    "memory_load", "memory_store",
)  # fmt: skip
"""The rates of a core; see ``cost/machine.py``."""
ISAS: Final = ("v3", "v4")
MOST: Final = 100_000
"""The largest valid rate."""
REQUIRED: Final = "must be auto, none, or a file that graphwright calibrate wrote"
Rates = Mapping[str, Mapping[str, int]]
"""Rates by ISA and name."""


def read_calibration(text: str) -> str:
    """Reads the option ``calibration``: ``auto``, ``none``, or a file, given by its path or content. Returns
    its content. Raises ValueError with the reason.
    """
    if text in (USERS_RATES, NO_RATES):
        return text
    if text.startswith("{"):
        return rates_text(*parsed(text))
    try:
        return rates_text(*parsed(option_text(Path(text).expanduser())))
    except OSError as error:
        raise ValueError(f"{error.strerror or error}; it {REQUIRED}") from error


def rates_text(cpu: str, rates: Rates) -> str:
    """The content of a file: the same for the same rates."""
    return json.dumps({"format": FORMAT, "cpu": cpu, "rates": rates}, sort_keys=True)


def parsed(text: str) -> tuple[str, Rates]:
    """The CPU and the rates that ``text`` holds. Raises ValueError."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not JSON: {error}") from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise ValueError(f"it has no rates of format {FORMAT}")
    cpu, rates = found.get("cpu"), found.get("rates")
    if not isinstance(cpu, str) or not isinstance(rates, dict) or not rates or not rates.keys() <= {*ISAS}:
        raise ValueError(f"it names no CPU, or has no rates of {' or '.join(ISAS)}")
    faults = [fault for isa, each in rates.items() for fault in _faults(isa, each)]
    if faults:
        raise ValueError("; ".join(faults))
    return cpu, rates


def _faults(isa: str, rates: Any) -> list[str]:
    if not isinstance(rates, dict) or rates.keys() != {*RATES}:
        return [f"rates of {isa} are not {', '.join(RATES)}"]
    wrong = [name for name, rate in rates.items() if type(rate) is not int or not 1 <= rate <= MOST]
    return [f"{name} of {isa} is not an integer from 1 to {MOST}" for name in wrong]


def cpu_model() -> str:
    """The model name of this CPU."""
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return "unknown"
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "unknown")


REMEDY = "graphwright calibrate measures this machine, graphwright calibrate --reset removes the file"


def resolved(calibration: str, users_file: Path) -> str:
    """The option ``calibration``; ``auto`` is replaced by the content of ``users_file``. If there is no such
    file, or if it is damaged or of another CPU, ``auto`` is replaced by ``none``; the last two cases log one
    warning.
    """
    if calibration != USERS_RATES:
        return calibration
    if not os.path.exists(users_file):  # also for a folder that this user may not enter
        return NO_RATES
    try:
        cpu, rates = parsed(option_text(users_file))
    except (OSError, ValueError) as error:
        warn_once(f"rates {users_file}", "%s is not used: %s; %s", users_file, error, REMEDY)
        return NO_RATES
    if cpu != cpu_model():
        message = "%s is not used: it was measured on %s; %s"
        warn_once(f"rates {users_file}", message, users_file, cpu, REMEDY)
        return NO_RATES
    return rates_text(cpu, rates)
