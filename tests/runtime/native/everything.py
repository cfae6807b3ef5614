"""A program with tasks of all kinds."""

from __future__ import annotations

from graphwright.ir.types import F32
from graphwright.low_ir.tasks import (
    Block,
    Code,
    FunctionOperand,
    HostFunction,
    Storage,
    Task,
    TaskGraph,
    TaskKind,
)
from tests.runtime.native.handmade import Builder

HEAVY = 1_000_000


def everything() -> TaskGraph:
    """Every kind of task, storage and operand; the first byte of the weights chooses a branch."""
    b = Builder()
    x, (n,) = b.input(1)
    b.register(Code.CHECK_LE, n, b.const(100), "too long")
    size = b.bytes_of(n)
    y = b.output((n,))
    w = b.buffer(Storage.WEIGHT, b.const(16), 0)
    t = b.arena(size)
    u = b.arena(size, [t])
    scratch = b.buffer(Storage.SCRATCH, b.const(100), 0, [t, u])
    number = b.arena(b.const(8), [t, u, scratch])
    rows = b.arena(b.register(Code.MUL, size, b.const(2)), [t, u, scratch, number])
    b.task(TaskKind.COPY, [b.at(t), b.at(x)], [0], args=(size,))
    b.task(TaskKind.IF, [b.at(w)], blocks=(1, 2), after=(0,))
    b.hosts.append(HostFunction("Nothing", ((F32, (n,)), None), ((F32, (n,)),)))
    b.tasks.append(Task(TaskKind.HOSTCALL, (b.at(t), None, b.at(u)), (2,), kernel=0, after=(0, 1)))
    b.launch(
        "fail_at", [u, y, w], [1], n, args=[b.const(1), b.const(-1)], after=[2], work=HEAVY, scratch=scratch
    )
    steering = (b.at(number), b.at(w, 8), b.at(w))  # two limits: one damaged word leaves one of them
    b.task(TaskKind.LOOP, steering, [0], args=(b.const(2),), blocks=(3,), after=(3,))
    hook = FunctionOperand(b.kernel("triple"))
    b.launch("fail_at", [x, hook, None, t], [3], n, args=[b.const(1), b.const(-1)], work=HEAVY)
    b.launch("fail_at", [x, t], [1], n, args=[b.const(1), b.const(-1)], after=[5])
    b.task(TaskKind.COPY, [b.at(t), b.at(x)], [0], args=(size,))
    b.launch("fail_at", [t, u], [1], n, args=[b.const(1), b.const(-1)])
    b.task(TaskKind.COPY, [b.at(rows), b.at(u), b.at(number)], [0], args=(size,), after=(8,))
    b.task(TaskKind.IF, [b.at(number)], args=(b.const(8),), blocks=(4,), after=(9,))
    b.launch("fail_at", [t, u], [1], n, args=[b.const(1), b.const(-1)])
    b.blocks = [Block(0, 5), Block(5, 2), Block(7, 1), Block(8, 3), Block(11, 1)]
    return b.program()
