"""Memory blocks that become buffers, locations in them, and copies between locations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush

from graphwright.ir.symbols import Dim
from graphwright.low_ir.tasks import Storage
from graphwright.records import dataclass, replace


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
    pending, ordered = dict(enumerate(moves)), list[Move]()
    reads = Counter(move.source.memory for move in moves)
    writers: dict[Memory, list[int]] = {}
    for index, move in pending.items():
        writers.setdefault(move.target.memory, []).append(index)

    def freed(indices: Iterable[int]) -> list[int]:
        """The ``indices`` whose targets no other pending move reads."""
        waiting = ((index, pending[index]) for index in indices if index in pending)
        return [k for k, m in waiting if reads[m.target.memory] == (m.source.memory is m.target.memory)]

    free = freed(pending)  # in order, which makes it a heap
    while pending:
        if free:
            move = pending.pop(heappop(free))
            ordered.append(move)
            read = move.source.memory
            reads[read] -= 1
        else:
            read = next(iter(pending.values())).target.memory
            spare = Location(Memory(Storage.ARENA, read.size, f"{read.name} spare"))
            ordered.append(Move(Location(read), spare, read.size))
            for index, move in pending.items():
                if move.source.memory is read:
                    pending[index] = replace(move, source=replace(spare, offset=move.source.offset))
            reads[spare.memory] = reads.pop(read)
        for index in freed(writers.get(read, ())):
            heappush(free, index)
    return ordered
