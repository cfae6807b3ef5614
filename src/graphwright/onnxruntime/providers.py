"""The names of ONNX Runtime's execution providers. graphwright supports only the CPU provider."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Final

AVAILABLE: Final = ("CPUExecutionProvider",)
ALL: Final = (
    "TensorrtExecutionProvider", "CUDAExecutionProvider", "MIGraphXExecutionProvider",
    "OpenVINOExecutionProvider", "DnnlExecutionProvider", "VitisAIExecutionProvider", "QNNExecutionProvider",
    "NnapiExecutionProvider", "VSINPUExecutionProvider", "JsExecutionProvider", "CoreMLExecutionProvider",
    "DmlExecutionProvider", "RknpuExecutionProvider", "WebNNExecutionProvider", "WebGpuExecutionProvider",
    "XnnpackExecutionProvider", "CANNExecutionProvider", "AzureExecutionProvider", "CPUExecutionProvider",
)  # fmt: skip
"""The providers of any build of ONNX Runtime."""


def warn_of_others(
    providers: Sequence[Any] | None, options: Sequence[Mapping[Any, Any]] | None
) -> Sequence[str]:
    """Warns about unsupported and malformed providers; the CPU runs the model. Returns the names.

    ONNX Runtime prints what is malformed and falls back to the CPU as well.
    """
    try:
        names = _names(providers, options)
    except ValueError as error:
        warnings.warn(f"{error}; running on the CPU", stacklevel=4)
        return AVAILABLE
    for name in names:
        if name not in AVAILABLE:
            warnings.warn(
                f"Specified provider '{name}' is not in available provider names. "
                f"Available providers: '{', '.join(AVAILABLE)}'",
                stacklevel=4,
            )
    return names


def _names(providers: Sequence[Any] | None, options: Sequence[Mapping[Any, Any]] | None) -> Sequence[str]:
    if providers is None:
        return []
    if isinstance(providers, str) or not isinstance(providers, Sequence):
        raise ValueError(f"'providers' should be a sequence of names, not {providers!r}")
    if options is None:
        return list(map(_name, providers))
    if len(providers) != len(options):
        raise ValueError("'providers' and 'provider_options' should be the same length if both are given")
    if not all(isinstance(name, str) for name in providers):
        raise ValueError("'providers' are names if 'provider_options' is given")
    return providers


def _name(given: Any) -> str:
    """The name of a provider, or of a pair of a provider and its options."""
    match given:
        case str() as name:
            return name
        case (str() as name, dict()):
            return name
    raise ValueError(f"'providers' are names or (name, options) pairs, not {given!r}")
