"""Exports the names of ``onnxruntime_pybind11_state``, as in ONNX Runtime."""

from __future__ import annotations

from typing import Any

from graphwright.onnxruntime.capi.onnxruntime_pybind11_state import *  # noqa: F403  # the same names, as there
from graphwright.onnxruntime.refused import refused


def __getattr__(name: str) -> Any:
    return refused(name)
