"""Devices: what runs a compiled model. ``cpu`` (native), ``null`` (plans, launches nothing), ``reference`` (NumPy)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from graphwright.runtime.devices.cpu import Cpu
from graphwright.runtime.devices.null import Null

NATIVE: Final[Mapping[str, type[Cpu]]] = {"cpu": Cpu, "null": Null}
"""Devices that run a target of a package."""
