"""The low IR: buffers, tasks that access them, and the shape program that computes their sizes and arguments.

A :class:`TaskGraph` is valid for all shapes that its constraints allow. For concrete input shapes, the
runtime evaluates the shape program in checked int64 arithmetic, and plans the arena from the sizes of the
buffers. The result is a plan, which can run. A field of type ``Reg`` is the index of the instruction that
computes its value.
"""

from __future__ import annotations

import enum

from graphwright.ir.types import DType
from graphwright.kernels.ref import KernelRef
from graphwright.records import dataclass

Reg = int


class Code(enum.IntEnum):
    """Instructions of the shape program. Each defines one register: its own index."""

    CONST = 0
    """a: the number itself"""
    DIM = 1
    """size of axis ``b`` of input ``a``"""
    ADD = 2
    SUB = 3
    MUL = 4
    FLOORDIV = 5
    MOD = 6
    MIN = 7
    MAX = 8
    CHECK_EQ = 9
    """register a == register b, or planning fails with ``note``; value: a"""
    CHECK_LE = 10
    """register a <= register b, or planning fails with ``note``; value: a"""
    GUARD_EQ = 11
    """register a == register b, or these shapes need another compiled variant of the model; value: a"""
    GUARD_LE = 12
    """register a <= register b, as GUARD_EQ"""
    GUARD_NE = 13
    """register a != register b, as GUARD_EQ"""


@dataclass(frozen=True)
class Instruction:
    """``a`` and ``b`` are registers, except for CONST and DIM. ``note`` explains a failed check and names the
    node.
    """

    code: Code
    a: int
    b: int = 0
    note: str = ""


@dataclass(frozen=True)
class Binding:
    """An input or output of the program: dense, row-major."""

    name: str
    dtype: DType
    dims: tuple[Reg, ...]


class Storage(enum.IntEnum):
    """The kind of memory that a buffer is in."""

    INPUT = 0
    """memory of the caller; ``index`` is the input"""
    OUTPUT = 1
    """new memory or memory of the caller; ``index`` is the output"""
    WEIGHT = 2
    """the weights; ``index`` is the byte offset in them"""
    ARENA = 3
    """the arena, at a planned offset"""
    SCRATCH = 4
    """the arena, at a planned offset: private memory of a task, once per thread"""
    STATE = 5
    """memory of the caller that is read and updated in place; ``index`` is the input"""


@dataclass(frozen=True)
class Buffer:
    """``size`` is in bytes; ``conflicts`` are planned buffers of lower index that may be live at the same
    time.
    """

    storage: Storage
    size: Reg
    index: int = 0
    conflicts: tuple[int, ...] = ()
    name: str = ""


@dataclass(frozen=True)
class Operand:
    """A pointer that a kernel receives: ``buffer`` plus ``offset`` bytes."""

    buffer: int
    offset: Reg


@dataclass(frozen=True)
class FunctionOperand:
    """A pointer to the function ``kernels[kernel]``: an epilogue that a library kernel calls on its tiles."""

    kernel: int


class TaskKind(enum.IntEnum):
    """The work of a task on its operands and args. The native runtime uses the same numbers."""

    LAUNCH = 0
    """``kernels[kernel](operands, args, begin, end, scratch)`` over chunks of ``[0, grid)``"""
    COPY = 1
    """memmove of ``args[0]`` bytes from operand 1 to operand 0; an optional operand 2, an i64, is the index
    of a row of that size in operand 0
    """
    IF = 2
    """without args, operand 0 is a bool: run ``blocks[0]`` if it is true, else ``blocks[1]``. With an arg,
    operand 0 is an index of ``args[0]`` bytes: run the block of that index, or the last block if the index is
    out of range
    """
    HOSTCALL = 3
    """call the Python function ``hosts[kernel]``"""
    LOOP = 4
    """run ``blocks[0]`` repeatedly, until one of these ends it: ``args[0]`` iterations (optional), as many
    iterations as operand 1 says (an i64, optional), or a false operand 2 (a bool, optional). The task writes
    the index of the iteration to operand 0 (an i64), which the block reads
    """


@dataclass(frozen=True)
class Task:
    """One task. ``after`` are earlier tasks of the same block that must have finished; ``work`` is the
    predicted time in nanoseconds.
    """

    kind: TaskKind
    operands: tuple[Operand | FunctionOperand | None, ...] = ()
    writes: tuple[int, ...] = ()
    """Positions in ``operands`` that the task writes, and may read as well."""
    kernel: int = -1
    args: tuple[Reg, ...] = ()
    grid: Reg = -1
    scratch: int = -1
    """The index of its SCRATCH buffer; -1 if none."""
    work: Reg = -1
    blocks: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    stream: int = 0
    name: str = ""
    """The names of its source nodes, for profiles and errors."""
    ops: str = ""
    """The ops that it computes, such as ``Conv + Relu``, for profiles."""
    operations: Reg = -1
    """Floating-point operations of its matrix products and convolutions, for profiles; -1 if unknown."""


@dataclass(frozen=True)
class Block:
    """Tasks ``[first, first + count)``: the entry block (block 0), a branch, or the body of a loop."""

    first: int
    count: int


@dataclass(frozen=True)
class HostFunction:
    """An op that runs on its reference in Python: its text ``op``, and the types of its operands, whose sizes
    are registers.

    If attributes of the op contain symbolic sizes, there is one more input: an empty array of shape
    [0, sizes...], ordered by the names of the symbols.
    """

    op: str
    inputs: tuple[tuple[DType, tuple[Reg, ...]] | None, ...]
    outputs: tuple[tuple[DType, tuple[Reg, ...]], ...]


@dataclass(frozen=True)
class TaskGraph:
    """The tasks of one compiled graph, and all tables that they index."""

    inputs: tuple[Binding, ...]
    outputs: tuple[Binding, ...]
    shape: tuple[Instruction, ...]
    buffers: tuple[Buffer, ...]
    tasks: tuple[Task, ...]
    blocks: tuple[Block, ...]
    kernels: tuple[KernelRef, ...]
    hosts: tuple[HostFunction, ...] = ()
