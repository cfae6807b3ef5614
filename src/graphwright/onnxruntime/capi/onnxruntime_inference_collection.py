"""The module in which ONNX Runtime defines its Python classes."""

from __future__ import annotations

from typing import Any

from graphwright.onnxruntime.adapters import AdapterFormat as AdapterFormat
from graphwright.onnxruntime.binding import IOBinding as IOBinding
from graphwright.onnxruntime.devices import OrtDevice as OrtDevice
from graphwright.onnxruntime.devices import get_ort_device_type as get_ort_device_type
from graphwright.onnxruntime.enums import OrtDeviceVendorId as OrtDeviceVendorId
from graphwright.onnxruntime.providers import (
    check_and_normalize_provider_args as check_and_normalize_provider_args,
)
from graphwright.onnxruntime.refused import refused
from graphwright.onnxruntime.session import InferenceSession as InferenceSession
from graphwright.onnxruntime.values import OrtValue as OrtValue
from graphwright.onnxruntime.values import copy_tensors as copy_tensors

Session = InferenceSession


def __getattr__(name: str) -> Any:
    return refused(name)
