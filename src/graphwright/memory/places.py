"""Buffers to be, places in them, and copies between places."""

from __future__ import annotations

from collections.abc import Sequence

from graphwright.ir.symbols import Dim
from graphwright.lower.tasks import Storage
from graphwright.records import dataclass


@dataclass(eq=False)
class Memory:
    """One buffer to be. ``size`` in bytes."""

    storage: Storage
    size: Dim
    name: str
    index: int = 0
    slotted: bool = False
    """Whether parts of it are written by different steps: never reused in place."""


@dataclass(frozen=True)
class Place:
    """Where a value lies: ``offset`` bytes into ``memory``."""

    memory: Memory
    offset: Dim = 0


@dataclass(frozen=True)
class Move:
    """``size`` bytes that must be copied."""

    source: Place
    target: Place
    size: Dim


def in_sequence(moves: Sequence[Move]) -> list[Move]:
    """``moves``, which are meant to happen at once, one after the other: none overwrites what a later one
    reads. A circle is cut by a copy (Leroy et al., 2008).
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
        spare = Place(Memory(Storage.ARENA, lost.memory.size, f"{lost.memory.name} spare"))
        ordered.append(Move(Place(lost.memory), spare, lost.memory.size))
        pending = [
            Move(Place(spare.memory, m.source.offset), m.target, m.size)
            if m.source.memory is lost.memory
            else m
            for m in pending
        ]
    return ordered
