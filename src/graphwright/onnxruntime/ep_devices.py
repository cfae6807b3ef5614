"""Execution providers and the devices that they run on: graphwright has one of each, the CPU."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final, NoReturn

from graphwright.onnxruntime.devices import OrtMemoryInfo
from graphwright.onnxruntime.enums import OrtDeviceMemoryType, OrtHardwareDeviceType
from graphwright.onnxruntime.environment import VERSION
from graphwright.onnxruntime.providers import AVAILABLE


class OrtHardwareDevice:
    """The processor. Its vendor is not looked up."""

    type: Final = OrtHardwareDeviceType.CPU
    vendor: Final = ""
    vendor_id: Final = 0
    device_id: Final = 0
    metadata: Final = MappingProxyType[str, str]({})


HARDWARE: Final = OrtHardwareDevice()


class OrtEpDevice:
    """The CPU provider on the processor."""

    ep_name: Final = AVAILABLE[0]
    ep_vendor: Final = "graphwright"
    ep_metadata: Final = MappingProxyType({"version": VERSION})
    ep_options: Final = MappingProxyType[str, str]({})
    device: Final = HARDWARE

    def memory_info(self, memory_type: OrtDeviceMemoryType) -> OrtMemoryInfo | None:
        """None: the CPU has no memory of its own."""

    def create_sync_stream(self) -> NoReturn:
        """Raises RuntimeError: the CPU has no streams."""
        raise RuntimeError("the CPU has no streams: a run has ended when it returns")


DEVICE: Final = OrtEpDevice()


def get_ep_devices() -> list[OrtEpDevice]:
    """The CPU provider."""
    return [DEVICE]


def get_hardware_devices() -> list[OrtHardwareDevice]:
    """The processor."""
    return [HARDWARE]
