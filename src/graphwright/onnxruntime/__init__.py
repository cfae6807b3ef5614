"""ONNX Runtime's names over graphwright: scripts and packages written for it run without a change.

>>> import sys
>>> import graphwright.onnxruntime
>>> sys.modules["onnxruntime"] = graphwright.onnxruntime
>>> import rapidocr  # anything that says "import onnxruntime"

``docs/onnxruntime.md`` says which behavior of ONNX Runtime is reproduced, which settings are accepted without
effect, and what is refused.
"""

from __future__ import annotations

from typing import Any

from graphwright.onnxruntime import capi as capi
from graphwright.onnxruntime.adapters import AdapterFormat, LoraAdapter
from graphwright.onnxruntime.binding import IOBinding
from graphwright.onnxruntime.devices import OrtDevice, OrtMemoryInfo
from graphwright.onnxruntime.enums import (
    ExecutionMode,
    ExecutionOrder,
    GraphOptimizationLevel,
    OrtAllocatorType,
    OrtCompileApiFlags,
    OrtDeviceMemoryType,
    OrtDeviceVendorId,
    OrtExecutionProviderDevicePolicy,
    OrtHardwareDeviceType,
    OrtMemoryInfoDeviceType,
    OrtMemType,
    OrtSparseFormat,
)
from graphwright.onnxruntime.environment import (
    VERSION,
    create_and_register_allocator,
    create_and_register_allocator_v2,
    disable_telemetry_events,
    enable_telemetry_events,
    get_all_providers,
    get_available_providers,
    get_build_info,
    get_device,
    get_version_string,
    has_collective_ops,
    preload_dlls,
    print_debug_info,
    set_default_logger_callback,
    set_default_logger_severity,
    set_default_logger_verbosity,
    set_global_thread_pool_sizes,
    set_seed,
)
from graphwright.onnxruntime.ep_devices import OrtEpDevice, OrtHardwareDevice, get_ep_devices
from graphwright.onnxruntime.install import install
from graphwright.onnxruntime.options import OrtArenaCfg, RunOptions, SessionOptions
from graphwright.onnxruntime.refused import REFUSED, refused
from graphwright.onnxruntime.session import InferenceSession
from graphwright.onnxruntime.signature import ModelMetadata, NodeArg
from graphwright.onnxruntime.values import OrtValue, copy_tensors

__version__ = version = VERSION
package_name = "onnxruntime"
cuda_version = ""
import_capi_exception = None
SessionIOBinding = IOBinding

__all__ = [
    "AdapterFormat",
    "ExecutionMode",
    "ExecutionOrder",
    "GraphOptimizationLevel",
    "IOBinding",
    "InferenceSession",
    "LoraAdapter",
    "ModelMetadata",
    "NodeArg",
    "OrtAllocatorType",
    "OrtArenaCfg",
    "OrtCompileApiFlags",
    "OrtDevice",
    "OrtDeviceMemoryType",
    "OrtDeviceVendorId",
    "OrtEpDevice",
    "OrtExecutionProviderDevicePolicy",
    "OrtHardwareDevice",
    "OrtHardwareDeviceType",
    "OrtMemType",
    "OrtMemoryInfo",
    "OrtMemoryInfoDeviceType",
    "OrtSparseFormat",
    "OrtValue",
    "RunOptions",
    "SessionIOBinding",
    "SessionOptions",
    "capi",
    "copy_tensors",
    "create_and_register_allocator",
    "create_and_register_allocator_v2",
    "disable_telemetry_events",
    "enable_telemetry_events",
    "get_all_providers",
    "get_available_providers",
    "get_build_info",
    "get_device",
    "get_ep_devices",
    "get_version_string",
    "has_collective_ops",
    "install",
    "preload_dlls",
    "print_debug_info",
    "set_default_logger_callback",
    "set_default_logger_severity",
    "set_default_logger_verbosity",
    "set_global_thread_pool_sizes",
    "set_seed",
]


def __getattr__(name: str) -> Any:
    value = globals()[name] = refused(name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *REFUSED})
