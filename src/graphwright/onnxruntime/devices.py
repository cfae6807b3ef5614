"""OrtDevice and OrtMemoryInfo: names of devices. graphwright supports only the CPU."""

from __future__ import annotations

from typing import Final

from graphwright.onnxruntime.enums import OrtAllocatorType, OrtDeviceMemoryType, OrtMemType
from graphwright.records import dataclass

_TYPES: Final = {"cpu": 0, "cuda": 1, "gpu": 1, "dml": 1, "webgpu": 1, "npu": 3, "cann": 3}
"""ONNX Runtime's numbers of kinds of devices."""


def get_ort_device_type(device_type: str) -> int:
    """The number of the kind of devices with this name. Raises Exception for other names, as ONNX Runtime
    does.
    """
    if device_type not in _TYPES:
        raise Exception(f"Unsupported device type: {device_type}")
    return _TYPES[device_type]


class OrtDevice:
    """A device by its kind and number.

    ONNX Runtime has a class in Python that wraps a native one; this is both.
    """

    def __init__(self, kind: int, memory: int = 0, *numbers: int) -> None:
        """``numbers``: the number of the device, after that of its vendor if there are two."""
        vendor, number = (0, *numbers)[-2:] if numbers else (0, 0)
        self._kind, self._memory, self._vendor, self._number = kind, memory, vendor, number

    @staticmethod
    def cpu() -> int:
        """The kind of CPUs."""
        return _TYPES["cpu"]

    @staticmethod
    def cuda() -> int:
        """The kind of GPUs."""
        return _TYPES["cuda"]

    @staticmethod
    def default_memory() -> int:
        """The device's own memory."""
        return int(OrtDeviceMemoryType.DEFAULT)

    def _get_c_device(self) -> OrtDevice:
        """The native device, which some scripts pass on."""
        return self

    @staticmethod
    def make(ort_device_name: str, device_id: int, vendor_id: int = -1) -> OrtDevice:
        """The device with this name. Raises Exception for other names, as ONNX Runtime does."""
        return OrtDevice(get_ort_device_type(ort_device_name), 0, max(0, vendor_id), device_id)

    def name(self) -> str:
        """The first name of its kind."""
        return next((name for name, kind in _TYPES.items() if kind == self._kind), f"kind {self._kind}")

    def device_id(self) -> int:
        """Its number among the devices of its kind."""
        return self._number

    def device_type(self) -> int:
        """Its kind; 0 is the CPU."""
        return self._kind

    def device_vendor_id(self) -> int:
        """The PCI number of its vendor; 0 if it has none."""
        return self._vendor

    def device_mem_type(self) -> int:
        """0: its own memory."""
        return self._memory


def require_cpu(name: str | OrtDevice, number: int = 0, vendor: int = -1) -> None:
    """Raises RuntimeError for a device other than the CPU, and Exception for an unknown name."""
    device = name if isinstance(name, OrtDevice) else OrtDevice.make(name, number, vendor)
    if device.device_type():
        raise RuntimeError(f"graphwright cannot use memory on {name!r}: it runs on the CPU; name 'cpu'")


@dataclass(frozen=True)
class OrtMemoryInfo:
    """The memory of an input or output."""

    name: str
    allocator_type: OrtAllocatorType = OrtAllocatorType.ORT_DEVICE_ALLOCATOR
    device_id: int = 0
    mem_type: OrtMemType = OrtMemType.DEFAULT
    device_mem_type: OrtDeviceMemoryType = OrtDeviceMemoryType.DEFAULT
    device_vendor_id: int = 0

    @staticmethod
    def create_v2(
        name: str,
        device_type: object,
        vendor_id: int,
        device_id: int,
        memory_type: OrtDeviceMemoryType,
        alignment: int,
        allocator_type: OrtAllocatorType,
    ) -> OrtMemoryInfo:
        """The same from the arguments of ONNX Runtime's newer form."""
        return OrtMemoryInfo(
            name, allocator_type, device_id, device_mem_type=memory_type, device_vendor_id=vendor_id
        )


CPU: Final = OrtMemoryInfo("Cpu")
"""The memory of all inputs and outputs."""
