"""Converts programs to plain lists of numbers and strings, as JSON holds them, and back."""

from __future__ import annotations

from typing import Any

from graphwright.ir.types import DTYPES, DType
from graphwright.kernels.ref import KernelRef
from graphwright.low_ir.tasks import (
    Binding,
    Block,
    Buffer,
    Code,
    FunctionOperand,
    HostFunction,
    Instruction,
    Operand,
    Storage,
    Task,
    TaskGraph,
    TaskKind,
)

Plain = Any
"""A value that JSON can represent."""


def to_plain(program: TaskGraph) -> dict[str, Plain]:
    """The program as plain lists: ``from_plain(to_plain(p)) == p``."""
    return {
        "inputs": [_binding(p) for p in program.inputs],
        "outputs": [_binding(p) for p in program.outputs],
        "shape": [[int(i.code), i.a, i.b, i.note] for i in program.shape],
        "buffers": [[int(b.storage), b.size, b.index, b.conflicts, b.name] for b in program.buffers],
        "tasks": [_task(t) for t in program.tasks],
        "profile": [[t.ops, t.operations] for t in program.tasks],
        "blocks": [[b.first, b.count] for b in program.blocks],
        "kernels": [[k.symbol, k.module] for k in program.kernels],
        "hosts": [
            [h.op, [_typed(t) for t in h.inputs], [_typed(t) for t in h.outputs]] for h in program.hosts
        ],
    }


def from_plain(plain: dict[str, Plain]) -> TaskGraph:
    """The inverse of :func:`to_plain`. Raises KeyError, TypeError, ValueError or IndexError for other
    values.
    """
    described = plain.get("profile", [["", -1]] * len(plain["tasks"]))
    return TaskGraph(
        inputs=tuple(_read_binding(p) for p in plain["inputs"]),
        outputs=tuple(_read_binding(p) for p in plain["outputs"]),
        shape=tuple(
            Instruction(Code(code), int(a), int(b), str(note)) for code, a, b, note in plain["shape"]
        ),
        buffers=tuple(
            Buffer(Storage(storage), int(size), int(index), tuple(map(int, conflicts)), str(name))
            for storage, size, index, conflicts, name in plain["buffers"]
        ),
        tasks=tuple(_read_task(t, *p) for t, p in zip(plain["tasks"], described, strict=True)),
        blocks=tuple(Block(int(first), int(count)) for first, count in plain["blocks"]),
        kernels=tuple(KernelRef(str(symbol), str(module)) for symbol, module in plain["kernels"]),
        hosts=tuple(
            HostFunction(
                str(op),
                tuple(None if t is None else _read_typed(t) for t in inputs),
                tuple(_read_typed(t) for t in outputs),
            )
            for op, inputs, outputs in plain["hosts"]
        ),
    )


def _binding(binding: Binding) -> Plain:
    return [binding.name, binding.dtype.name, binding.dims]


def _read_binding(plain: Plain) -> Binding:
    name, dtype, dims = plain
    return Binding(str(name), DTYPES[dtype], tuple(map(int, dims)))


def _typed(typed: tuple[DType, tuple[int, ...]] | None) -> Plain:
    return None if typed is None else [typed[0].name, typed[1]]


def _read_typed(plain: Plain) -> tuple[DType, tuple[int, ...]]:
    dtype, dims = plain
    return DTYPES[dtype], tuple(map(int, dims))


def _operand(operand: Operand | FunctionOperand | None) -> Plain:
    if operand is None:
        return None
    return [operand.kernel] if isinstance(operand, FunctionOperand) else [operand.buffer, operand.offset]


def _read_operand(plain: Plain) -> Operand | FunctionOperand | None:
    if plain is None:
        return None
    return FunctionOperand(int(plain[0])) if len(plain) == 1 else Operand(int(plain[0]), int(plain[1]))


def _task(task: Task) -> Plain:
    return [
        int(task.kind),
        [_operand(o) for o in task.operands],
        task.writes,
        task.kernel,
        task.args,
        task.grid,
        task.scratch,
        task.work,
        task.blocks,
        task.after,
        task.stream,
        task.name,
    ]


def _read_task(plain: Plain, ops: Plain, operations: Plain) -> Task:
    kind, operands, writes, kernel, args, grid, scratch, work, blocks, after, stream, name = plain
    return Task(
        TaskKind(kind),
        tuple(_read_operand(o) for o in operands),
        tuple(map(int, writes)),
        int(kernel),
        tuple(map(int, args)),
        int(grid),
        int(scratch),
        int(work),
        tuple(map(int, blocks)),
        tuple(map(int, after)),
        int(stream),
        str(name),
        str(ops),
        int(operations),
    )
