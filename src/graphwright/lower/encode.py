"""A program as flat little-endian int64 words: what ``runtime/native/program.c`` reads. Names stay behind.

Layout: magic, version, counts (inputs, outputs, instructions, buffers, tasks, blocks, kernels, hosts),
then these in this order. A list is its length and its items.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Sequence
from typing import Final

from graphwright.ir.types import DType
from graphwright.lower.tasks import Buffer, FunctionOperand, HostFunction, Operand, Port, Program, Reg, Task

MAGIC: Final = 0x31475250574C47
VERSION: Final = 1
_NULL, _FUNCTION = -1, -2


def encode(program: Program) -> bytes:
    """Raises OverflowError for a number beyond int64; everything else is checked by who decodes."""
    words = array("q", (MAGIC, VERSION))
    words.extend(
        len(section)
        for section in (
            program.inputs, program.outputs, program.shape, program.buffers,
            program.tasks, program.blocks, program.kernels, program.hosts,
        )
    )  # fmt: skip
    for port in (*program.inputs, *program.outputs):
        words.extend(_port(port))
    for instruction in program.shape:
        words.extend((instruction.code, instruction.a, instruction.b))
    for buffer in program.buffers:
        words.extend(_buffer(buffer))
    for task in program.tasks:
        words.extend(_task(task))
    for block in program.blocks:
        words.extend((block.first, block.count))
    for host in program.hosts:
        words.extend(_host(host))
    if sys.byteorder == "big":
        words.byteswap()
    return words.tobytes()


def _list(items: Sequence[int]) -> Iterable[int]:
    return (len(items), *items)


def _port(port: Port) -> Iterable[int]:
    return (port.dtype.bytes, *_list(port.dims))


def _buffer(buffer: Buffer) -> Iterable[int]:
    return (buffer.storage, buffer.size, buffer.index, *_list(buffer.conflicts))


def _operand(operand: Operand | FunctionOperand | None) -> tuple[int, int]:
    match operand:
        case None:
            return _NULL, 0
        case FunctionOperand(kernel):
            return _FUNCTION, kernel
        case Operand(buffer, offset):
            return buffer, offset


def _task(task: Task) -> Iterable[int]:
    yield from (task.kind, task.kernel, task.grid, task.scratch, task.work, len(task.operands))
    for operand in task.operands:
        yield from _operand(operand)
    for items in (task.writes, task.args, task.blocks, task.after):
        yield from _list(items)


def _host(host: HostFunction) -> Iterable[int]:
    yield from (len(host.inputs) + len(host.outputs), len(host.inputs))
    for operand in (*host.inputs, *host.outputs):
        yield from _host_operand(operand)


def _host_operand(operand: tuple[DType, tuple[Reg, ...]] | None) -> Iterable[int]:
    if operand is None:
        return (0, 0)
    dtype, dims = operand
    return (dtype.bytes, *_list(dims))
