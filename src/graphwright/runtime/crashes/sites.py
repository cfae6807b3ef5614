"""The texts that a crash in a kernel reports. They are made when a program is loaded, as a signal handler can
only write.

The sizes of the run are unknown at that time: ``\\1aN;`` stands for argument N of the kernel and ``\\1rN;``
for register N of the shape program. The handler replaces both by their values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from graphwright.executable.nodes import Program
from graphwright.executable.target_code import TargetCode
from graphwright.kernels.ref import KernelRef
from graphwright.low_ir.tasks import Binding, FunctionOperand, Operand, Task, TaskGraph, TaskKind
from graphwright.support.escaping import terminal

_LINE = 2000
"""The longest line, in characters."""


def crash_sites(program: Program, target: TargetCode, model: str) -> list[str]:
    """For each task, the lines that name its model, task, kernel and nodes."""
    graph = target.task_graph
    heads = kernel_heads(target.sources)
    ends = [
        ", ".join(f"{spec.name}: {spec.type_text}" for spec in s) for s in (program.inputs, program.outputs)
    ]
    shapes = [", ".join(map(_shape_text, each)) for each in (graph.inputs, graph.outputs)]
    found = []
    for number, task in enumerate(graph.tasks):
        kernels = [graph.kernels[k] for k in _kernels_of(task)]
        lines = [
            f"  model: {model} ({ends[0]}) -> ({ends[1]})",
            f"  task: {number} of {len(graph.tasks)}",
            *(f"  kernel: {_kernel_text(kernel, target.name)}" for kernel in kernels),
            f"  nodes: {task.name}",
        ]
        loops = [heads[k.module, k.symbol] for k in kernels if (k.module, k.symbol) in heads]
        sizes = [
            *(f"  loops: {_with_sizes(terminal(head, _LINE))}" for head in loops),
            f"  shapes: ({shapes[0]}) -> ({shapes[1]})",
            f"  operands: {', '.join(_operand_texts(graph, task)) or 'none'}",
        ]
        found.append("".join(f"{line}\n" for line in [*(terminal(line, _LINE) for line in lines), *sizes]))
    return found


def _with_sizes(head: str) -> str:
    """The signature ``head`` of a generated kernel, in which each size shows its value: a kernel argument."""
    start, named, rest = head.partition(" sizes(")
    names, end, rest = rest.partition(")")
    sizes = [f"{name} = \1a{k};" for k, name in enumerate(names.split(", ")) if name]
    return f"{start}{named}{', '.join(sizes)}{end}{rest}"


def _shape_text(binding: Binding) -> str:
    dims = ", ".join(map(_register, binding.dims))
    return f"{terminal(binding.name)}: {binding.dtype}[{dims}]"


def _operand_texts(graph: TaskGraph, task: Task) -> list[str]:
    """The names and sizes in bytes of the values that the kernel reads and writes."""
    texts = []
    for position, operand in enumerate(task.operands):
        if isinstance(operand, Operand):
            buffer = graph.buffers[operand.buffer]
            kind = "written" if position in task.writes else "read"
            name = terminal(buffer.name) or buffer.storage.name.lower()
            texts.append(f"{name} ({kind}, {_register(buffer.size)} bytes)")
    return texts


def _register(number: int) -> str:
    """The placeholder that the handler replaces by the value of a register."""
    return f"\1r{number};"


def kernel_heads(sources: Mapping[str, str]) -> dict[tuple[str, str], str]:
    """The signature (parameters and sizes) of each generated kernel, by its module and symbol."""
    heads = {}
    for file, text in sources.items():
        unit, _, kind = file.rpartition(".")
        for found in re.finditer(r"(?m)^kernel (\w+)(.*) \{$", text) if kind == "loops" else ():
            heads[unit, found[1]] = f"{found[1]}{found[2]}"
    return heads


def _kernels_of(task: Task) -> list[int]:
    """The kernel that a task launches, and the epilogues that this kernel calls."""
    if task.kind is not TaskKind.LAUNCH:
        return []
    return [task.kernel, *(o.kernel for o in task.operands if isinstance(o, FunctionOperand))]


def _kernel_text(kernel: KernelRef, target: str) -> str:
    return f"{kernel.symbol} of {f'{kernel.module}.c' if kernel.module else 'the library'}, for {target}"
