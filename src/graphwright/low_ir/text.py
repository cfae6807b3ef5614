"""Prints programs as text: each register as a number or expression, and each launch with the loops of its
kernel.

::

    program {
      input x: f32[d0, 3]
      output y: f32[d0, 8]
      size d0 = axis 0 of input x
      check d0 <= 64  // N is at most 64
      b0 input 0 "x": 12*d0 bytes
      b2 arena "h": 32*d0 bytes
      entry {
        t0 launch gw_gemm_f32(b0, b1, out b2) args(m=d0, n=8, k=3) grid d0 work 120 ns  // MatMul_0
        t1 launch relu_0 in generated(b2, out b3) args(n0=8*d0) grid 1 after t0  // Relu_1
          kernel relu_0(...) sizes(n0) { ... }
      }
    }
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from graphwright.ir.loops.hook import HOOK_SIZES
from graphwright.ir.text.quoting import quote
from graphwright.low_ir.tasks import (
    Binding,
    Code,
    FunctionOperand,
    Instruction,
    Operand,
    Reg,
    Storage,
    Task,
    TaskGraph,
    TaskKind,
)
from graphwright.support.escaping import terminal

MAX_EXPRESSION = 60
"""The longest expression that is printed inline, in characters; a longer one is printed once and named."""

_SIGNS = {Code.ADD: ("+", 1), Code.SUB: ("-", 1), Code.MUL: ("*", 2)}
"""Operators and their precedence."""
_CALLS = {Code.FLOORDIV: "floordiv", Code.MOD: "mod", Code.MIN: "min", Code.MAX: "max"}
_CHECKS = {
    Code.CHECK_EQ: "check {} == {}",
    Code.CHECK_LE: "check {} <= {}",
    Code.GUARD_EQ: "guard {} == {}",
    Code.GUARD_LE: "guard {} <= {}",
    Code.GUARD_NE: "guard {} != {}",
}
_ATOM = 3
_KERNEL = re.compile(r"^(?=kernel \w+\()", re.MULTILINE)
_ARGUMENTS = re.compile(r" (?:sizes|scalars)\(([^)]+)\)")
Names = Mapping[str, Sequence[str]]
"""The names of the arguments of each kernel."""


def print_program(program: TaskGraph, loops: str = "", names: Names | None = None) -> str:
    """The text of ``program``. ``loops`` is the loop IR of its generated kernels; each is shown below its
    first launch. ``names`` are those of arguments of other kernels.
    """
    return "\n".join(["program {", *_Printer(program, _by_kernel(loops), names or {}).lines(), "}"]) + "\n"


def _by_kernel(loops: str) -> dict[str, list[str]]:
    """The lines of each kernel, by its name."""
    texts = _KERNEL.split(loops)[1:]
    return {text[len("kernel ") : text.index("(")]: text.rstrip().split("\n") for text in texts}


def _argument_names(head: str) -> list[str]:
    """The names of the arguments of a generated kernel whose text begins with ``head``; those that a tile has
    as an epilogue are not arguments of a launch.
    """
    names = [name for listed in _ARGUMENTS.findall(head) for name in listed.split(", ")]
    return [name for name in names if name not in HOOK_SIZES]


class _Registers:
    """The expression of each register as text with its precedence; ``defined`` are lines that define
    names.
    """

    def __init__(self, shape: Sequence[Instruction], inputs: Sequence[Binding]) -> None:
        self.defined: list[str] = []
        self._inputs = inputs
        self._sizes = 0
        self._texts: list[tuple[str, int]] = []
        for index, instruction in enumerate(shape):
            self._texts.append(self._shortened(index, self._text(instruction)))

    def __getitem__(self, register: Reg) -> str:
        return self._texts[register][0] if 0 <= register < len(self._texts) else f"?{register}"

    def _text(self, instruction: Instruction) -> tuple[str, int]:
        code, a, b = instruction.code, instruction.a, instruction.b
        if code is Code.CONST:
            return str(a), _ATOM if a >= 0 else 0
        if code is Code.DIM:
            return self._size(a, b), _ATOM
        if code in _CALLS:
            return f"{_CALLS[code]}({self[a]}, {self[b]})", _ATOM
        if code in _CHECKS:
            note = f"  // {terminal(instruction.note)}" if instruction.note else ""
            self.defined.append(_CHECKS[code].format(self[a], self[b]) + note)
            return self._texts[a]
        sign, level = _SIGNS[code]
        left, right = self._within(a, level), self._within(b, level + (code is Code.SUB))
        if code is Code.ADD and self[b].startswith("-"):
            return f"{left} - {self[b][1:]}", level
        return f"{left}{sign}{right}" if code is Code.MUL else f"{left} {sign} {right}", level

    def _within(self, register: Reg, level: int) -> str:
        text, own = self._texts[register]
        return text if own >= level else f"({text})"

    def _size(self, index: int, axis: int) -> str:
        name = f"d{self._sizes}"
        self._sizes += 1
        self.defined.append(f"size {name} = axis {axis} of input {_name(self._inputs[index].name)}")
        return name

    def _shortened(self, index: int, expression: tuple[str, int]) -> tuple[str, int]:
        if len(expression[0]) <= MAX_EXPRESSION:
            return expression
        self.defined.append(f"size r{index} = {expression[0]}")
        return f"r{index}", _ATOM


class _Printer:
    def __init__(self, program: TaskGraph, loops: Mapping[str, list[str]], names: Names) -> None:
        self.program, self.loops = program, loops
        self.names = {**names, **{name: _argument_names(lines[0]) for name, lines in loops.items()}}
        self.registers = _Registers(program.shape, program.inputs)
        self.shown: dict[str, int] = {}
        """For each kernel whose loops were printed, the task where."""

    def lines(self) -> Iterator[str]:
        for what, bindings in (("input", self.program.inputs), ("output", self.program.outputs)):
            for binding in bindings:
                yield f"  {what} {_name(binding.name)}: {binding.dtype}[{self._list(binding.dims)}]"
        yield from (f"  {line}" for line in self.registers.defined)
        for number, buffer in enumerate(self.program.buffers):
            name = f" {quote(buffer.name)}" if buffer.name else ""
            index = f" {buffer.index}" if buffer.storage in (Storage.INPUT, Storage.OUTPUT) else ""
            start = f" at {buffer.index}" if buffer.storage is Storage.WEIGHT else ""
            size = self.registers[buffer.size]
            yield f"  b{number} {buffer.storage.name.lower()}{index}{name}: {size} bytes{start}"
        yield "  entry {"
        yield from self._block(0, "    ")
        yield "  }"

    def _block(self, number: int, margin: str) -> Iterator[str]:
        block = self.program.blocks[number]
        for index in range(block.first, block.first + block.count):
            yield from self._task(index, self.program.tasks[index], margin)

    def _task(self, index: int, task: Task, margin: str) -> Iterator[str]:
        parts = [f"t{index} {self._head(task)}({self._operands(task)})"]
        if task.args:
            parts.append(f"args({self._arguments(task)})")
        for word, register in (("grid", task.grid), ("work", task.work)):
            if register >= 0:
                parts.append(f"{word} {self.registers[register]}" + (" ns" if word == "work" else ""))
        if task.scratch >= 0:
            parts.append(f"scratch b{task.scratch}")
        if task.stream:
            parts.append(f"stream {task.stream}")
        if task.after:
            parts.append(f"after {', '.join(f't{earlier}' for earlier in task.after)}")
        name = f"  // {terminal(task.name)}" if task.name else ""
        yield f"{margin}{' '.join(parts)}{name}"
        yield from self._loops(index, task, f"{margin}  ")
        for word, block in zip(_block_words(task), task.blocks, strict=False):
            yield f"{margin}{word} {{"
            yield from self._block(block, f"{margin}  ")
            yield f"{margin}}}"

    def _head(self, task: Task) -> str:
        if task.kind is TaskKind.LAUNCH:
            ref = self.program.kernels[task.kernel]
            return f"launch {ref.symbol}" + (f" in {ref.module}" if ref.module else "")
        if task.kind is TaskKind.HOSTCALL:
            return f"hostcall {terminal(self.program.hosts[task.kernel].op)}"
        return task.kind.name.lower()

    def _operands(self, task: Task) -> str:
        return ", ".join(
            ("out " if position in task.writes else "") + self._operand(operand)
            for position, operand in enumerate(task.operands)
        )

    def _operand(self, operand: Operand | FunctionOperand | None) -> str:
        if operand is None:
            return "_"
        if isinstance(operand, FunctionOperand):
            return f"function {self.program.kernels[operand.kernel].symbol}"
        offset = self.registers[operand.offset]
        return f"b{operand.buffer}" if offset == "0" else f"b{operand.buffer} + {offset}"

    def _arguments(self, task: Task) -> str:
        """The arguments of a task with their names; those of an epilogue follow those of the kernel."""
        values = [self.registers[register] for register in task.args]
        names = [name for symbol in self._kernels(task) for name in self.names.get(symbol, ())]
        if len(names) != len(values):
            return ", ".join(values)
        return ", ".join(f"{name}={value}" for name, value in zip(names, values, strict=True))

    def _kernels(self, task: Task) -> list[str]:
        """The kernel that a task launches, and those that it passes to it."""
        if task.kind is not TaskKind.LAUNCH:
            return []
        numbers = [task.kernel, *(o.kernel for o in task.operands if isinstance(o, FunctionOperand))]
        return [self.program.kernels[number].symbol for number in numbers]

    def _loops(self, index: int, task: Task, margin: str) -> Iterator[str]:
        """The loops of the generated kernels that a task launches; later tasks only refer to the
        first one.
        """
        for symbol in self._kernels(task):
            if symbol in self.shown:
                yield f"{margin}// loops of {symbol}: see t{self.shown[symbol]}"
            elif symbol in self.loops:
                self.shown[symbol] = index
                yield from (f"{margin}{line}" for line in self.loops[symbol])

    def _list(self, registers: Sequence[Reg]) -> str:
        return ", ".join(self.registers[register] for register in registers)


def _block_words(task: Task) -> Sequence[str]:
    if task.kind is TaskKind.LOOP:
        return ("repeat",)
    return [f"case {k}" for k in range(len(task.blocks))] if task.args else ("then", "else")


def _name(text: str) -> str:
    return text if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_./]*", text) else quote(text)
