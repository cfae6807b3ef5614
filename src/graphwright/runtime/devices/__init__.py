"""What runs a compiled model: ``cpu`` (native), ``null`` (plans, launches nothing), ``reference`` (NumPy)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from graphwright.package.package import Package, Target
from graphwright.runtime.devices.base import Device
from graphwright.runtime.devices.cpu import Cpu
from graphwright.runtime.devices.null import Null

NATIVE: Final[Mapping[str, Callable[[Package, Target], Device]]] = {"cpu": Cpu, "null": Null}
"""Devices that run a target of a package."""
