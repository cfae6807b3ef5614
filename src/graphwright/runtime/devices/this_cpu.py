"""The ISA of this CPU, and the options that depend on it."""

from __future__ import annotations

from graphwright import _native
from graphwright.config import Options
from graphwright.errors import Diagnostic, ToolchainError
from graphwright.option_files.rate_files import resolved
from graphwright.option_values import DEVICES
from graphwright.records import replace

LEVELS = ("baseline", "v3", "v4")
"""Microarchitecture levels of x86-64; each includes the instructions of those before it."""


def target_isa(options: Options) -> str:
    """The ISA whose kernels run. Raises ToolchainError on a CPU that lacks the instructions they need."""
    here = _native.isa()
    name = here if options.isa == "auto" else options.isa
    if name == "baseline":
        raise ToolchainError(
            Diagnostic("cpu", "this CPU has no AVX2 and FMA (x86-64-v3), which all kernels need")
        )
    if LEVELS.index(name) > LEVELS.index(here) and name not in options.targets:
        what = f"isa={name} needs another CPU: this one is x86-64-{here}"
        hint = f"to compile for both, set targets={name},{here}"
        raise ToolchainError(Diagnostic("cpu", what, hint=hint))
    return name


def for_this_cpu(options: Options) -> Options:
    """``options`` with the ISA of the kernels and the rates of the cost model filled in; unchanged if the
    device is not a CPU. Raises ToolchainError.
    """
    if options.device not in DEVICES:
        return options
    rates = resolved(options.calibration, options.calibration_file)
    return replace(options, isa=target_isa(options), calibration=rates)


def usable_isas() -> tuple[str, ...]:
    """The ISAs that this CPU supports and that have kernels, lowest level first."""
    return LEVELS[1 : LEVELS.index(_native.isa()) + 1]


def multiplies_bf16(options: Options) -> bool:
    """Whether the target CPU has bf16 dot-product instructions: this CPU if it is the target; a CPU of a
    higher level is assumed to have them.
    """
    return options.isa == "v4" and (_native.has_bf16() or _native.isa() != "v4")


def convolves_bf16(options: Options) -> bool:
    """Whether convolutions are faster in bf16 than in f32 on the target CPU (see :func:`multiplies_bf16`).
    Those of matrices can use AMX, those of images have only AVX512-BF16.
    """
    return multiplies_bf16(options) and (_native.has_fast_bf16() or _native.isa() != "v4")
