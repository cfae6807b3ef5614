"""Which of several legal ways to compute something is taken: the one of the least predicted time, or the one
that was measured to be the fastest on this machine.

Kernels, layouts of chains, and merges of nodes are chosen in different places. Each asks the same question
here: it names the workload and its legal ways, the predicted one first.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

from graphwright.config import Options
from graphwright.ir.graph import Node
from graphwright.option_files.tuning_records import (
    NO_RECORD,
    USERS_RECORD,
    Measured,
    Times,
    Workloads,
    parsed,
)
from graphwright.records import dataclass, field


@dataclass(frozen=True, eq=False)
class Choice:
    """One way of several was taken: ``ways`` has the predicted one first. ``nodes``: the source nodes that
    the workload computes; ``place``: what reports call it.
    """

    ways: tuple[str, ...]
    taken: str
    workload: str = ""
    place: str = ""
    nodes: frozenset[str] = frozenset()
    measured: Measured | None = None
    """What the record knows of the workload."""

    @property
    def is_changed(self) -> bool:
        """Whether measuring led to another way than the predicted one."""
        return self.taken != self.ways[0]

    def ratio(self, way: str, other: str) -> float | None:
        """The time of ``way`` over that of ``other``, where both are known."""
        times = [1.0 if each == self.ways[0] else self._median(each) for each in (way, other)]
        return times[0] / times[1] if self.measured is not None and all(times) else None

    def _median(self, way: str) -> float:
        """0 where it is not known."""
        times = self.time_of(way)
        return 0.0 if times is None else times.median

    def time_of(self, way: str) -> Times | None:
        """The time of ``way`` over that of the predicted one, where it is known."""
        return None if self.measured is None else self.measured.times.get(way)


@dataclass(frozen=True, eq=False)
class Choices:
    """What was measured of workloads on ``isa``; ``sizes``: what open sizes were then. ``is_kept``: choices
    are noted, as there is a record.
    """

    isa: str = ""
    sizes: Mapping[str, int] = field(default_factory=dict)
    workloads: Workloads = field(default_factory=dict)
    is_kept: bool = False

    def choose(
        self, kind: str, content: Hashable, ways: Sequence[str], nodes: Sequence[Node], notes: list[object]
    ) -> Choice:
        """The choice of one of ``ways``, the predicted one first, to compute ``nodes``.

        A workload is told from others of its ``kind`` by ``content``, whose text has to be the same in each
        process. The choice is added to ``notes`` where there is a record.
        """
        if not self.is_kept or len(ways) < 2:
            return Choice(tuple(ways), ways[0])
        workload = workload_digest(kind, self.isa, (content, self._sizes_of(nodes)))
        measured = self.workloads.get(workload)
        taken = ways[0] if measured is None or measured.taken not in ways else measured.taken
        sources = frozenset(source for node in nodes for source in node.sources)
        made = Choice(tuple(ways), taken, workload, _place(nodes), sources, measured)
        notes.append(made)
        return made

    def _sizes_of(self, nodes: Sequence[Node]) -> Hashable:
        """What open sizes of ``nodes`` were measured as."""
        values = (value for node in nodes for value in (*node.inputs, *node.outputs) if value is not None)
        is_static = not self.sizes or all(value.type.is_static for value in values)
        return () if is_static else tuple(sorted(self.sizes.items()))


def _place(nodes: Sequence[Node]) -> str:
    return " -> ".join(dict.fromkeys(node.place for node in (nodes[0], nodes[-1])))


NOTHING_MEASURED: Final = Choices()


def workload_digest(kind: str, isa: str, content: Hashable) -> str:
    """What a record calls a workload."""
    return hashlib.blake2b(repr((kind, isa, content)).encode(), digest_size=16).hexdigest()


def choices_of(options: Options) -> Choices:
    """What the record in the option ``tuning`` knows."""
    if options.tuning in (NO_RECORD, USERS_RECORD):
        return NOTHING_MEASURED
    return Choices(options.isa, options.sizes_to_tune, _workloads(options.tuning), is_kept=True)


@lru_cache(maxsize=4)
def _workloads(text: str) -> Workloads:
    return parsed(text).workloads


def choices_in(notes: Iterable[object]) -> list[Choice]:
    """The choices among ``notes``."""
    return [note for note in notes if isinstance(note, Choice)]


def digest_of(choices: Iterable[Choice]) -> str:
    """A digest of what a record said of ``choices``; ``none`` where it knew none of them."""
    known: Mapping[str, str] = {each.workload: each.taken for each in choices if each.measured is not None}
    if not known:
        return NO_RECORD
    return hashlib.sha256(repr(sorted(known.items())).encode()).hexdigest()[:32]
