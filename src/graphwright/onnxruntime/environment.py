"""ONNX Runtime's functions about the process: versions, providers, logs and telemetry."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
from collections.abc import Callable
from typing import Any, Final

from graphwright.onnxruntime.providers import ALL, AVAILABLE

VERSION: Final = "1.32.0"
"""The version of ONNX Runtime whose names and behavior this module has."""
_SEVERITIES: Final = range(5)


def get_version_string() -> str:
    """The version of ONNX Runtime whose interface this module has."""
    return VERSION


def get_build_info() -> str:
    """The name and version of the engine."""
    return (
        f"graphwright {importlib.metadata.version('graphwright')}, with the names of ONNX Runtime {VERSION}"
    )


def get_device() -> str:
    """Always ``CPU``."""
    return "CPU"


def get_available_providers() -> list[str]:
    """Only the CPU provider."""
    return list(AVAILABLE)


def get_all_providers() -> list[str]:
    """Names of all providers that ONNX Runtime has in some build."""
    return list(ALL)


def has_collective_ops() -> bool:
    """Always False."""
    return False


def set_default_logger_severity(severity: int) -> None:
    """Does nothing: graphwright logs by Python's ``logging``. Raises TypeError, and RuntimeError beyond 0 to
    4.
    """
    _require_severity(severity)


def set_default_logger_verbosity(verbosity: int) -> None:
    """Does nothing: graphwright logs by Python's ``logging``."""


def set_default_logger_callback(callback: Callable[..., Any] | None, severity: int = 2) -> None:
    """Does nothing: graphwright logs by Python's ``logging``. Raises RuntimeError for what cannot be called,
    and for a severity beyond 0 to 4.
    """
    _require_severity(severity)
    if callback is not None and not callable(callback):
        raise RuntimeError(f"a callback must be a function or None, not {type(callback).__name__}")


def set_seed(seed: int) -> None:
    """Does nothing: random ops take the seed of their node, or a new one."""


def disable_telemetry_events() -> None:
    """Does nothing: graphwright sends nothing anywhere."""


def enable_telemetry_events() -> None:
    """Does nothing: graphwright sends nothing anywhere."""


def set_global_thread_pool_sizes(*counts: int) -> None:
    """Does nothing: sessions take ``intra_op_num_threads``, the process ``graphwright.set_threads``."""


def preload_dlls(cuda: bool = True, cudnn: bool = True, msvc: bool = True, directory: object = None) -> None:
    """Does nothing: graphwright needs no libraries except its own."""


def create_and_register_allocator(*_: object) -> None:
    """Does nothing: each model plans its arena when it is compiled."""


def create_and_register_allocator_v2(*_: object) -> None:
    """Does nothing, as :func:`create_and_register_allocator`."""


def print_debug_info() -> None:
    """Prints the versions of the engine, Python and the system."""
    print(get_build_info())
    print(f"Python {sys.version.split()[0]}, {platform.platform()}")


def _require_severity(severity: int) -> None:
    if not isinstance(severity, int):
        raise TypeError(f"a severity must be a number from 0 to 4, not {severity!r}")
    if severity not in _SEVERITIES:
        raise RuntimeError(f"a severity must be a number from 0 to 4, not {severity}")
