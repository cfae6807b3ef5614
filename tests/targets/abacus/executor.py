"""Runs the tasks of a program on the interpreter, one after the other; each buffer has memory of its own."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from math import prod

import numpy as np

from graphwright.config import Options
from graphwright.errors import Diagnostic, FeedError
from graphwright.executable.nodes import Program
from graphwright.executable.target_code import TargetCode
from graphwright.ir.arrays import Array
from graphwright.ir.loops.interpret import interpret
from graphwright.ir.loops.nodes import Kernel
from graphwright.ir.loops.text import parse_kernel
from graphwright.ir.symbols import evaluate
from graphwright.low_ir.tasks import Buffer, Code, Instruction, Operand, Storage, Task, TaskKind
from graphwright.package.package import Package
from graphwright.runtime.executor import NoFastPath, ProgramPlan, Shapes, write_output
from graphwright.runtime.host_program.host_call import host_callable
from graphwright.runtime.instantiate import register_device

from .target import NAME as NAME

FUNCTIONS: Mapping[Code, Callable[[int, int], int]] = {
    Code.ADD: int.__add__,
    Code.SUB: int.__sub__,
    Code.MUL: int.__mul__,
    Code.FLOORDIV: int.__floordiv__,
    Code.MOD: int.__mod__,
    Code.MIN: min,
    Code.MAX: max,
}
KERNEL = re.compile(r"^kernel .*?^\}$", re.MULTILINE | re.DOTALL)


class Interpreter:
    """An executor of one program."""

    def __init__(self, target: TargetCode, weights: memoryview) -> None:
        self._graph, self._weights = target.task_graph, weights
        texts = [found for binary in target.objects.values() for found in KERNEL.findall(binary.decode())]
        self._kernels: dict[str, Kernel] = {(made := parse_kernel(text)).name: made for text in texts}
        self._hosts = [host_callable(host) for host in self._graph.hosts]
        self.runs = 0
        self.launched: list[str] = []
        """Names of the kernels that ran, in their order."""

    def fast_path(self, threads: int) -> NoFastPath:
        return NoFastPath(threads)

    def run(
        self, arrays: Sequence[Array], outputs: Sequence[Array | None] | None, threads: int
    ) -> list[Array]:
        graph, self.runs = self._graph, self.runs + 1
        registers: list[int] = []
        for instruction in graph.shape:
            registers.append(_value(instruction, registers, [array.shape for array in arrays]))
        made = [
            np.zeros([registers[dim] for dim in binding.dims], binding.dtype.numpy)
            for binding in graph.outputs
        ]
        memory = [self._memory(buffer, registers[buffer.size], arrays, made) for buffer in graph.buffers]
        for task in graph.tasks:
            self._run(task, registers, memory)
        given = outputs or [None] * len(made)
        return [write_output(a, t, b.name) for a, t, b in zip(made, given, graph.outputs, strict=True)]

    def plans(self, shapes: Shapes | None, threads: int) -> list[ProgramPlan]:
        return []

    def trim(self) -> int:
        return 0

    def stats(self) -> dict[str, int]:
        return {"runs": self.runs, "host_calls": 0, "arena_bytes": 0}

    def _memory(self, buffer: Buffer, size: int, inputs: Sequence[Array], outputs: Sequence[Array]) -> Array:
        """The bytes of a buffer."""
        if buffer.storage is Storage.INPUT:
            return inputs[buffer.index].reshape(-1).view(np.uint8)
        if buffer.storage is Storage.OUTPUT:
            return outputs[buffer.index].reshape(-1).view(np.uint8)
        if buffer.storage is Storage.WEIGHT:
            return np.frombuffer(self._weights, np.uint8)[buffer.index : buffer.index + size]
        return np.zeros(size, np.uint8)

    def _run(self, task: Task, registers: Sequence[int], memory: Sequence[Array]) -> None:
        args = [registers[arg] for arg in task.args]
        places = [
            memory[o.buffer][registers[o.offset] :] if isinstance(o, Operand) else None for o in task.operands
        ]
        if task.kind is TaskKind.COPY:
            target, source = places
            assert target is not None and source is not None
            target[: args[0]] = source[: args[0]]
        elif task.kind is TaskKind.LAUNCH:
            kernel = self._kernels[self._graph.kernels[task.kernel].symbol]
            self.launched.append(kernel.name)
            count = len(kernel.sizes)
            sizes = dict(zip(kernel.sizes, args[:count], strict=True))
            scalars = np.array(args[count:], np.int32).view(np.float32)
            buffers = {}
            for parameter, place in zip(kernel.parameters, places, strict=True):
                shape = [evaluate(dim, sizes) for dim in parameter.shape]
                assert place is not None
                bytes_needed = prod(shape) * parameter.dtype.bytes
                buffers[parameter.name] = place[:bytes_needed].view(parameter.dtype.numpy).reshape(shape)
            interpret(kernel, buffers, sizes, scalars.tolist())
        else:
            assert task.kind is TaskKind.HOSTCALL
            self._call(task, registers, places)

    def _call(self, task: Task, registers: Sequence[int], places: Sequence[Array | None]) -> None:
        host = self._graph.hosts[task.kernel]
        typed = [*host.inputs, *host.outputs]
        operands = []
        for place, type in zip(places, typed, strict=True):
            if place is None or type is None:
                operands.append(None)
                continue
            shape = tuple(registers[dim] for dim in type[1])
            operands.append((memoryview(place[: prod(shape) * type[0].bytes]), shape))
        count = len(host.inputs)
        self._hosts[task.kernel](operands[:count], [o for o in operands[count:] if o is not None])


def _value(instruction: Instruction, registers: Sequence[int], shapes: Sequence[Sequence[int]]) -> int:
    code, a, b = instruction.code, instruction.a, instruction.b
    if code is Code.CONST:
        return a
    if code is Code.DIM:
        return shapes[a][b]
    left, right = registers[a], registers[b]
    if code in FUNCTIONS:
        return FUNCTIONS[code](left, right)
    holds = {"EQ": left == right, "LE": left <= right, "NE": left != right}[code.name.rpartition("_")[2]]
    if not holds:
        raise FeedError(Diagnostic("constraint", f"{instruction.note}: {left} and {right}"))
    return left


def make(program: Program, package: Package, options: Options) -> Interpreter | None:
    """The executor of ``program``; None where it was not compiled for this target."""
    target = program.targets.get(NAME)
    return None if target is None else Interpreter(target, package.weights_of(NAME).data)


register_device(NAME, make)
