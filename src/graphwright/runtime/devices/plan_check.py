"""The memory plan of a loaded target, seen by the independent checker."""

from __future__ import annotations

from graphwright.config import Options
from graphwright.errors import Diagnostic, VerifyError
from graphwright.memory.checker import check_plan
from graphwright.package.package import Package
from graphwright.runtime.devices.cpu import Cpu


def verify_plan(package: Package, device: Cpu, options: Options) -> None:
    """Let the independent checker see the memory plan where all sizes are known. Raises VerifyError."""
    shapes = [tuple(d for d in spec.shape or () if isinstance(d, int)) for spec in package.inputs]
    if any(len(shape) < len(spec.shape or ()) for shape, spec in zip(shapes, package.inputs, strict=True)):
        return
    threads = max(options.threads, 1)
    faults = check_plan(package.targets[options.isa].program, device.plan(shapes, threads), threads)
    if faults:
        raise VerifyError(*(Diagnostic("memory-plan", fault) for fault in faults[:20]))
