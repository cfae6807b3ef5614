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


def check_and_normalize_provider_args(
    providers: Sequence[Any] | None,
    provider_options: Sequence[Mapping[Any, Any]] | None,
    available_provider_names: Sequence[str],
) -> tuple[list[str], list[dict[str, str]]]:
    """The names of ``providers``, each once, and the options of each, as text.

    Warns about names that are not available and about repeated ones. Raises ValueError for other arguments
    than those that a session takes.
    """
    known: dict[str, dict[str, str]] = {}
    for name, options in _pairs(providers, provider_options):
        _warn_unless_available(name, available_provider_names, stacklevel=3)
        if name in known:
            warnings.warn(f"Duplicate provider '{name}' encountered, ignoring.", stacklevel=2)
            continue
        known[name] = {str(key): str(value) for key, value in options.items()}
    return list(known), list(known.values())


def warn_of_others(
    providers: Sequence[Any] | None, options: Sequence[Mapping[Any, Any]] | None
) -> Sequence[str]:
    """Warns about unsupported and malformed providers; the CPU runs the model. Returns the names.

    ONNX Runtime prints what is malformed and falls back to the CPU as well.
    """
    try:
        names = [name for name, _ in _pairs(providers, options)]
    except ValueError as error:
        warnings.warn(f"{error}; running on the CPU", stacklevel=4)
        return AVAILABLE
    for name in names:
        _warn_unless_available(name, AVAILABLE, stacklevel=5)
    return names


def _warn_unless_available(name: str, available: Sequence[str], *, stacklevel: int) -> None:
    if name not in available:
        warnings.warn(
            f"Specified provider '{name}' is not in available provider names. "
            f"Available providers: '{', '.join(available)}'",
            stacklevel=stacklevel,
        )


def _pairs(
    providers: Sequence[Any] | None, options: Sequence[Mapping[Any, Any]] | None
) -> list[tuple[str, Mapping[Any, Any]]]:
    """Each provider with its options. Raises ValueError."""
    if providers is None:
        return []
    if isinstance(providers, str) or not isinstance(providers, Sequence):
        raise ValueError(f"'providers' should be a sequence of names, not {providers!r}")
    if options is None:
        return list(map(_pair, providers))
    if not isinstance(options, Sequence):
        raise ValueError(f"'provider_options' should be a sequence of dicts, not {options!r}")
    if len(providers) != len(options):
        raise ValueError("'providers' and 'provider_options' should be the same length if both are given")
    if not all(isinstance(name, str) for name in providers):
        raise ValueError("'providers' are names if 'provider_options' is given")
    if not all(isinstance(each, Mapping) for each in options):
        raise ValueError("'provider_options' values must be dicts")
    return list(zip(providers, options, strict=True))


def _pair(given: Any) -> tuple[str, Mapping[Any, Any]]:
    """A provider and its options, from its name or from such a pair."""
    match given:
        case str() as name:
            return name, {}
        case (str() as name, dict() as options):
            return name, options
    raise ValueError(f"'providers' are names or (name, options) pairs, not {given!r}")
