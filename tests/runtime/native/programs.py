"""Programs that take long, or call Python."""

from __future__ import annotations

import time

from graphwright import _native
from graphwright.low_ir.tasks import HostFunction, Task, TaskGraph, TaskKind
from tests.runtime.native.handmade import (
    Builder,
    load,
)


def burning(microseconds: int) -> TaskGraph:
    """A program with one launch of 40 units, each of this many ``microseconds``."""
    b = Builder()
    n = b.const(40)
    b.launch("burn", [b.output((n,))], [0], n, args=[b.const(microseconds)], work=40_000 * microseconds)
    return b.program()


def hosted(library: _native.Library) -> _native.Program:
    """A host call after a launch: threads keep asking for the GIL."""
    b = Builder()
    n = b.const(40)
    y = b.output((n,))
    b.launch("burn", [y], [0], n, args=[b.const(10)], work=400_000)
    b.hosts.append(HostFunction("Nothing", (), ()))
    b.tasks.append(Task(TaskKind.HOSTCALL, kernel=0, after=(0,)))
    return load(b.program(), library, hosts=[lambda inputs, outputs: time.sleep(0)])
