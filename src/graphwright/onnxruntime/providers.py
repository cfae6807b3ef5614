"""Names of execution providers: ONNX Runtime's, of which graphwright has the CPU."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

AVAILABLE: Final = ("CPUExecutionProvider",)
ALL: Final = (
    "TensorrtExecutionProvider", "CUDAExecutionProvider", "MIGraphXExecutionProvider",
    "OpenVINOExecutionProvider", "DnnlExecutionProvider", "VitisAIExecutionProvider", "QNNExecutionProvider",
    "NnapiExecutionProvider", "VSINPUExecutionProvider", "JsExecutionProvider", "CoreMLExecutionProvider",
    "DmlExecutionProvider", "RknpuExecutionProvider", "WebNNExecutionProvider", "WebGpuExecutionProvider",
    "XnnpackExecutionProvider", "CANNExecutionProvider", "AzureExecutionProvider", "CPUExecutionProvider",
)  # fmt: skip
"""Those that ONNX Runtime has in some build."""


def normalized(
    providers: Sequence[Any] | None, options: Sequence[Mapping[Any, Any]] | None
) -> dict[str, dict[str, str]]:
    """Options by provider. Warns of providers that are not here, once for each.

    ONNX Runtime prints what is malformed and falls back to the CPU; here it is a warning as well.
    """
    found: dict[str, dict[str, str]] = {}
    try:
        pairs = _pairs(providers, options)
    except ValueError as error:
        warnings.warn(f"{error}; running on the CPU", stacklevel=4)
        return found
    for name, given in pairs:
        if name not in AVAILABLE:
            warnings.warn(
                f"Specified provider '{name}' is not in available provider names. "
                f"Available providers: '{', '.join(AVAILABLE)}'",
                stacklevel=4,
            )
        found.setdefault(name, {str(key): str(value) for key, value in given.items()})
    return found


def _pairs(
    providers: Sequence[Any] | None, options: Sequence[Mapping[Any, Any]] | None
) -> Iterable[tuple[str, Mapping[Any, Any]]]:
    if providers is None:
        return []
    if isinstance(providers, str) or not isinstance(providers, Sequence):
        raise ValueError(f"'providers' should be a sequence of names, not {providers!r}")
    if options is None:
        return [_pair(given) for given in providers]
    if len(providers) != len(options):
        raise ValueError("'providers' and 'provider_options' should be the same length if both are given")
    if not all(isinstance(name, str) for name in providers):
        raise ValueError("'providers' are names if 'provider_options' is given")
    return list(zip(providers, options, strict=True))


def _pair(given: Any) -> tuple[str, Mapping[Any, Any]]:
    if isinstance(given, str):
        return given, {}
    match given:
        case (str() as name, dict() as options):
            return name, options
    raise ValueError(f"'providers' are names or (name, options) pairs, not {given!r}")
