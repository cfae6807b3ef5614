"""What runs a compiled model: ``cpu`` (native), ``null`` (plans, launches nothing), ``reference`` (NumPy)."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from graphwright.config import Options
from graphwright.package.package import Package, Target
from graphwright.runtime.devices.base import Device
from graphwright.runtime.devices.cpu import Cpu
from graphwright.runtime.devices.null import Null
from graphwright.runtime.devices.target import Shared


class Native(Protocol):
    """Makes a device of a target of a package."""

    def __call__(
        self, package: Package, target: Target, plans: int = ..., shared: Shared | None = ...
    ) -> Device:
        """``plans``: how many plans of input shapes it keeps; ``shared``: what it has with other programs."""


Load = Callable[[Package, Options], Device | None]
"""Makes what runs a package, None where it cannot run as it is."""
NATIVE: Final[Mapping[str, Native]] = {"cpu": Cpu, "null": Null}
"""Devices that run a target of a package."""


def specialized(device: Device, package: Package, options: Options, load: Load) -> Device:
    """``device`` and what the option ``specialize`` puts before it, imported where it is asked for."""
    if options.specialize == "none":
        return device
    made: Device = importlib.import_module("graphwright.runtime.devices.hot").specialized(
        device, package, options, load
    )
    return made
