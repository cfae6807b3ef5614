"""Memory blocks that become buffers, locations in them, and copies between locations."""

from __future__ import annotations

from collections.abc import Sequence

from graphwright.ir.symbols import Dim
from graphwright.low_ir.tasks import Storage
from graphwright.records import dataclass


@dataclass(eq=False)
class Memory:
    """A memory block that lowering turns into a buffer; ``size`` is in bytes. Compared by identity."""

    storage: Storage
    size: Dim
    name: str
    index: int = 0
    slotted: bool = False
    """Whether different steps write parts of it, as those of a concatenation: then it is not reused in place.
    """


@dataclass(frozen=True)
class Location:
    """The location of a value: ``offset`` bytes into ``memory``."""

    memory: Memory
    offset: Dim = 0


@dataclass(frozen=True)
class Move:
    """A copy of ``size`` bytes."""

    source: Location
    target: Location
    size: Dim


def sequentialize(moves: Sequence[Move]) -> list[Move]:
    """Sequentializes a parallel move: orders ``moves`` so that none overwrites what a later one reads. Cycles
    are broken by a copy to temporary memory (Rideau, Serpette and Leroy, Tilting at Windmills with Coq,
    2008).
    """
    pending, ordered = list(moves), list[Move]()
    while pending:
        free = [
            m for m in pending if not any(o.source.memory is m.target.memory for o in pending if o is not m)
        ]
        if free:
            ordered.append(free[0])
            pending.remove(free[0])
            continue
        lost = pending[0].target
        spare = Location(Memory(Storage.ARENA, lost.memory.size, f"{lost.memory.name} spare"))
        ordered.append(Move(Location(lost.memory), spare, lost.memory.size))
        pending = [
            Move(Location(spare.memory, m.source.offset), m.target, m.size)
            if m.source.memory is lost.memory
            else m
            for m in pending
        ]
    return ordered
