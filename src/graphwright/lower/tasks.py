"""The low IR: buffers, tasks over them, and the shape program that gives every number they need.

A :class:`TaskGraph` holds for all shapes that its constraints allow. For one concrete set of input shapes the
shape program is evaluated (checked int64) into registers, the arena is planned from the buffers' sizes, and
the result, a plan, is what runs. Wherever a field is a ``Reg`` it names the instruction whose value is meant.
"""

from __future__ import annotations

import enum
from typing import Final

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
    """register a == register b, or the plan is refused with ``note``; value: a"""
    CHECK_LE = 10
    """register a <= register b, or the plan is refused with ``note``; value: a"""
    GUARD_EQ = 11
    """register a == register b, or these shapes need another form of the model; value: a"""
    GUARD_LE = 12
    """register a <= register b, as GUARD_EQ"""
    GUARD_NE = 13
    """register a != register b, as GUARD_EQ"""


@dataclass(frozen=True)
class Instruction:
    """``a`` and ``b`` are registers, but for CONST and DIM. ``note`` says what a failed check means, with
    the node."""

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
    """Whose memory a buffer is."""

    INPUT = 0
    """the caller's; ``index`` is the input"""
    OUTPUT = 1
    """fresh or the caller's; ``index`` is the output"""
    WEIGHT = 2
    """``index`` is the byte offset into the weights"""
    ARENA = 3
    """planned; lives with ``conflicts``"""
    SCRATCH = 4
    """planned, once per thread: a task's private memory"""
    STATE = 5
    """the caller's, read and updated in place; ``index`` is the input"""


@dataclass(frozen=True)
class Buffer:
    """``size`` in bytes. ``conflicts``: planned buffers of lower number that may be live at the same time."""

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
    """A pointer to the function ``kernels[kernel]``: the hook that a library kernel calls on its tiles."""

    kernel: int


ABSENT: Final = None
"""An operand that the kernel receives as a null pointer."""


class TaskKind(enum.IntEnum):
    """What a task does with its operands and args; the native runtime has the same numbers."""

    LAUNCH = 0
    """``kernels[kernel](operands, args, begin, end, scratch)`` over chunks of ``[0, grid)``"""
    COPY = 1
    """memmove of ``args[0]`` bytes from operand 1 to operand 0; with an operand 2, an i64 that counts runs,
    to that row of operand 0, rows being as large
    """
    IF = 2
    """operand 0 is one bool: run block ``blocks[0]`` if it is not zero, else ``blocks[1]``; with an arg, it
    is an index of ``args[0]`` bytes: run the block that it counts from 0, the last one if it counts none
    """
    HOSTCALL = 3
    """call back into Python: host function number ``kernel``"""
    LOOP = 4
    """run block ``blocks[0]`` again and again: at most ``args[0]`` times, if there is an arg; at most as
    often as operand 1 says, an i64; while operand 2, one bool, is not zero. Either may be absent. Operand 0,
    an i64, is the number of the run: written by the task, read by the block
    """


@dataclass(frozen=True)
class Task:
    """One step. ``after``: earlier tasks of the same block that must have ended. ``work``: estimated
    nanoseconds."""

    kind: TaskKind
    operands: tuple[Operand | FunctionOperand | None, ...] = ()
    writes: tuple[int, ...] = ()
    """Positions in ``operands`` that the task writes (it may read them as well)."""
    kernel: int = -1
    args: tuple[Reg, ...] = ()
    grid: Reg = -1
    scratch: int = -1
    """The SCRATCH buffer; -1 if none."""
    work: Reg = -1
    blocks: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    stream: int = 0
    name: str = ""
    """Source nodes, for profiles and errors."""
    ops: str = ""
    """The ops that it computes, as in ``Conv + Relu``, for profiles; so is the next."""
    operations: Reg = -1
    """Multiplications and additions of products and convolutions among them; -1 if none are known."""


@dataclass(frozen=True)
class Block:
    """Tasks ``[first, first + count)``: the entry (block 0), a branch or the body of a loop."""

    first: int
    count: int


@dataclass(frozen=True)
class HostFunction:
    """An op run on its reference, in Python: ``op`` as the graph text prints it, and types with sizes in
    registers.

    Where attributes of the op speak of sizes, there is one more input: an empty array of shape [0, sizes...],
    in the order of their names.
    """

    op: str
    inputs: tuple[tuple[DType, tuple[Reg, ...]] | None, ...]
    outputs: tuple[tuple[DType, tuple[Reg, ...]], ...]


@dataclass(frozen=True)
class TaskGraph:
    """The whole of one compiled entry graph."""

    inputs: tuple[Binding, ...]
    outputs: tuple[Binding, ...]
    shape: tuple[Instruction, ...]
    buffers: tuple[Buffer, ...]
    tasks: tuple[Task, ...]
    blocks: tuple[Block, ...]
    kernels: tuple[KernelRef, ...]
    hosts: tuple[HostFunction, ...] = ()
