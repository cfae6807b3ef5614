"""What a crash in a kernel says of it, made when a program is loaded: a signal handler can only write."""

from __future__ import annotations

import re
from collections.abc import Mapping

from graphwright.executable.nodes import Program
from graphwright.executable.target_code import TargetCode
from graphwright.ir.names import terminal
from graphwright.kernels.ref import KernelRef
from graphwright.lower.tasks import FunctionOperand, Task, TaskKind

_LINE = 2000
"""Characters of a line."""


def crash_sites(program: Program, target: TargetCode, model: str) -> list[str]:
    """For each task the lines that say which model, task, kernel and nodes it is; the sizes of generated
    kernels are named in their heads.
    """
    graph = target.task_graph
    heads = kernel_heads(target.sources)
    ends = [
        ", ".join(f"{spec.name}: {spec.type_text}" for spec in s) for s in (program.inputs, program.outputs)
    ]
    found = []
    for number, task in enumerate(graph.tasks):
        kernels = [graph.kernels[k] for k in _kernels_of(task)]
        lines = [
            f"  model: {model} ({ends[0]}) -> ({ends[1]})",
            f"  task: {number} of {len(graph.tasks)}",
            *(f"  kernel: {_kernel_text(kernel, target.name)}" for kernel in kernels),
            *(f"  loops: {heads[k.module, k.symbol]}" for k in kernels if (k.module, k.symbol) in heads),
            f"  nodes: {task.name}",
        ]
        found.append("".join(f"{terminal(line, _LINE)}\n" for line in lines))
    return found


def kernel_heads(sources: Mapping[str, str]) -> dict[tuple[str, str], str]:
    """The parameters and sizes of each generated kernel, by the name of its unit and its own."""
    heads = {}
    for file, text in sources.items():
        unit, _, kind = file.rpartition(".")
        for found in re.finditer(r"(?m)^kernel (\w+)(.*) \{$", text) if kind == "loops" else ():
            heads[unit, found[1]] = f"{found[1]}{found[2]}"
    return heads


def _kernels_of(task: Task) -> list[int]:
    """The kernel that it launches, and epilogues that this calls."""
    if task.kind is not TaskKind.LAUNCH:
        return []
    return [task.kernel, *(o.kernel for o in task.operands if isinstance(o, FunctionOperand))]


def _kernel_text(kernel: KernelRef, target: str) -> str:
    return f"{kernel.symbol} of {f'{kernel.module}.c' if kernel.module else 'the library'}, for {target}"
