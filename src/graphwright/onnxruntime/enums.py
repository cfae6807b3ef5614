"""ONNX Runtime's enumerations."""

from __future__ import annotations

from enum import Enum, IntEnum


class _Named(IntEnum):
    """Prints as ``Class.NAME``, as ONNX Runtime's do."""

    __str__ = Enum.__str__


class GraphOptimizationLevel(_Named):
    """The optimizations that run. graphwright runs all of them at every level."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(_Named):
    """Whether nodes run concurrently. graphwright runs each node on all threads."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(_Named):
    """The order of nodes. graphwright chooses its own."""

    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


class OrtAllocatorType(_Named):
    """How memory is allocated."""

    INVALID = -1
    ORT_DEVICE_ALLOCATOR = 0
    ORT_ARENA_ALLOCATOR = 1


class OrtMemType(_Named):
    """Kinds of memory from the view of a provider."""

    CPU_INPUT = -2
    CPU_OUTPUT = -1
    CPU = -1
    DEFAULT = 0


class OrtDeviceMemoryType(_Named):
    """Kinds of memory from the view of a device."""

    DEFAULT = 0
    HOST_ACCESSIBLE = 5


class OrtMemoryInfoDeviceType(_Named):
    """Kinds of devices that own memory."""

    CPU = 0
    GPU = 1
    FPGA = 2
    NPU = 3


class OrtHardwareDeviceType(_Named):
    """Kinds of hardware."""

    CPU = 0
    GPU = 1
    NPU = 2


class OrtSparseFormat(_Named):
    """Formats of sparse tensors."""

    ORT_SPARSE_UNDEFINED = 0
    ORT_SPARSE_COO = 1
    ORT_SPARSE_CSRC = 2
    ORT_SPARSE_BLOCK_SPARSE = 4


class OrtDeviceVendorId(IntEnum):
    """PCI numbers of device vendors."""

    NONE = 0x0000
    AMD = 0x1002
    NVIDIA = 0x10DE
    ARM = 0x13B5
    MICROSOFT = 0x1414
    HUAWEI = 0x19E5
    QUALCOMM = 0x5143
    INTEL = 0x8086


class OrtExecutionProviderDevicePolicy(_Named):
    """The device to prefer. graphwright supports only the CPU."""

    DEFAULT = 0
    PREFER_CPU = 1
    PREFER_NPU = 2
    PREFER_GPU = 3
    MAX_PERFORMANCE = 4
    MAX_EFFICIENCY = 5
    MIN_OVERALL_POWER = 6


class OrtCompileApiFlags(_Named):
    """Flags of ModelCompiler, which graphwright does not have."""

    NONE = 0
    ERROR_IF_NO_NODES_COMPILED = 1
    ERROR_IF_OUTPUT_FILE_EXISTS = 2
