"""Verifies the memory plan of a loaded program with the independent checker."""

from __future__ import annotations

from graphwright.errors import Diagnostic, VerifyError
from graphwright.executable.nodes import Program
from graphwright.executable.specs import static_shapes
from graphwright.executable.target_code import TargetCode
from graphwright.memory.checker.check import check_plan
from graphwright.runtime.devices.cpu import Cpu


def verify_plan(program: Program, target: TargetCode, executor: Cpu, threads: int) -> None:
    """Verifies the memory plan if all sizes are static. Raises VerifyError."""
    shapes = static_shapes(program.inputs)
    if shapes is None:
        return
    threads = max(threads, 1)
    faults = check_plan(target.task_graph, executor.plan(shapes, threads), threads)
    if faults:
        raise VerifyError(*(Diagnostic("memory-plan", fault) for fault in faults[:20]))
