"""ONNX Runtime's native module: exception classes, enumerations and functions."""

from __future__ import annotations

from typing import Any

from graphwright.onnxruntime.adapters import AdapterFormat as AdapterFormat
from graphwright.onnxruntime.adapters import LoraAdapter as LoraAdapter
from graphwright.onnxruntime.binding import SessionIOBinding as SessionIOBinding
from graphwright.onnxruntime.devices import OrtDevice as OrtDevice
from graphwright.onnxruntime.devices import OrtMemoryInfo as OrtMemoryInfo
from graphwright.onnxruntime.enums import ExecutionMode as ExecutionMode
from graphwright.onnxruntime.enums import ExecutionOrder as ExecutionOrder
from graphwright.onnxruntime.enums import GraphOptimizationLevel as GraphOptimizationLevel
from graphwright.onnxruntime.enums import OrtAllocatorType as OrtAllocatorType
from graphwright.onnxruntime.enums import OrtCompileApiFlags as OrtCompileApiFlags
from graphwright.onnxruntime.enums import OrtDeviceMemoryType as OrtDeviceMemoryType
from graphwright.onnxruntime.enums import OrtExecutionProviderDevicePolicy as OrtExecutionProviderDevicePolicy
from graphwright.onnxruntime.enums import OrtHardwareDeviceType as OrtHardwareDeviceType
from graphwright.onnxruntime.enums import OrtMemoryInfoDeviceType as OrtMemoryInfoDeviceType
from graphwright.onnxruntime.enums import OrtMemType as OrtMemType
from graphwright.onnxruntime.enums import OrtSparseFormat as OrtSparseFormat
from graphwright.onnxruntime.environment import create_and_register_allocator as create_and_register_allocator
from graphwright.onnxruntime.environment import (
    create_and_register_allocator_v2 as create_and_register_allocator_v2,
)
from graphwright.onnxruntime.environment import disable_telemetry_events as disable_telemetry_events
from graphwright.onnxruntime.environment import enable_telemetry_events as enable_telemetry_events
from graphwright.onnxruntime.environment import get_all_providers as get_all_providers
from graphwright.onnxruntime.environment import get_available_providers as get_available_providers
from graphwright.onnxruntime.environment import get_build_info as get_build_info
from graphwright.onnxruntime.environment import get_device as get_device
from graphwright.onnxruntime.environment import get_version_string as get_version_string
from graphwright.onnxruntime.environment import has_collective_ops as has_collective_ops
from graphwright.onnxruntime.environment import set_default_logger_callback as set_default_logger_callback
from graphwright.onnxruntime.environment import set_default_logger_severity as set_default_logger_severity
from graphwright.onnxruntime.environment import set_default_logger_verbosity as set_default_logger_verbosity
from graphwright.onnxruntime.environment import set_global_thread_pool_sizes as set_global_thread_pool_sizes
from graphwright.onnxruntime.environment import set_seed as set_seed
from graphwright.onnxruntime.ep_devices import OrtEpDevice as OrtEpDevice
from graphwright.onnxruntime.ep_devices import OrtHardwareDevice as OrtHardwareDevice
from graphwright.onnxruntime.ep_devices import get_ep_devices as get_ep_devices
from graphwright.onnxruntime.ep_devices import get_hardware_devices as get_hardware_devices
from graphwright.onnxruntime.errors import DeviceReset as DeviceReset
from graphwright.onnxruntime.errors import EngineError as EngineError
from graphwright.onnxruntime.errors import EPFail as EPFail
from graphwright.onnxruntime.errors import Fail as Fail
from graphwright.onnxruntime.errors import InvalidArgument as InvalidArgument
from graphwright.onnxruntime.errors import InvalidGraph as InvalidGraph
from graphwright.onnxruntime.errors import InvalidProtobuf as InvalidProtobuf
from graphwright.onnxruntime.errors import ModelLoadCanceled as ModelLoadCanceled
from graphwright.onnxruntime.errors import ModelLoaded as ModelLoaded
from graphwright.onnxruntime.errors import ModelRequiresCompilation as ModelRequiresCompilation
from graphwright.onnxruntime.errors import NoModel as NoModel
from graphwright.onnxruntime.errors import NoSuchFile as NoSuchFile
from graphwright.onnxruntime.errors import NotFound as NotFound
from graphwright.onnxruntime.errors import NotImplemented as NotImplemented
from graphwright.onnxruntime.errors import RuntimeException as RuntimeException
from graphwright.onnxruntime.options import OrtArenaCfg as OrtArenaCfg
from graphwright.onnxruntime.options import RunOptions as RunOptions
from graphwright.onnxruntime.options import SessionOptions as SessionOptions
from graphwright.onnxruntime.refused import refused
from graphwright.onnxruntime.session import InferenceSession as InferenceSession
from graphwright.onnxruntime.signature import ModelMetadata as ModelMetadata
from graphwright.onnxruntime.signature import NodeArg as NodeArg
from graphwright.onnxruntime.values import OrtValue as OrtValue
from graphwright.onnxruntime.values import OrtValueVector as OrtValueVector
from graphwright.onnxruntime.values import copy_tensors as copy_tensors
from graphwright.onnxruntime.weights import quantize_matmul_2bits as quantize_matmul_2bits
from graphwright.onnxruntime.weights import quantize_matmul_4bits as quantize_matmul_4bits
from graphwright.onnxruntime.weights import quantize_matmul_8bits as quantize_matmul_8bits
from graphwright.onnxruntime.weights import quantize_matmul_bnb4 as quantize_matmul_bnb4
from graphwright.onnxruntime.weights import quantize_qdq_matmul_4bits as quantize_qdq_matmul_4bits

get_default_session_options = SessionOptions


def __getattr__(name: str) -> Any:
    return refused(name)
