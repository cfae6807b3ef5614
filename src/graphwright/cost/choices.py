"""Chooses among several legal ways to compute a workload: the one with the least predicted time, or the one
measured fastest on this machine.

Kernels, bands and merges are chosen in different places. Each of them names the workload and its alternatives
here, the predicted best first.
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
    """A choice among ``alternatives``, the predicted best first. ``nodes``: the source nodes that the
    workload computes; ``location``: its name in reports.
    """

    alternatives: tuple[str, ...]
    taken: str
    workload: str = ""
    location: str = ""
    nodes: frozenset[str] = frozenset()
    measured: Measured | None = None
    """The measurements of the workload, if the record has any."""

    @property
    def is_changed(self) -> bool:
        """Whether measurements led to another choice than the prediction."""
        return self.taken != self.alternatives[0]

    def ratio(self, alternative: str, other: str) -> float | None:
        """The time of ``alternative`` over that of ``other``, if both are known."""
        times = [1.0 if each == self.alternatives[0] else self._median(each) for each in (alternative, other)]
        return times[0] / times[1] if self.measured is not None and all(times) else None

    def _median(self, alternative: str) -> float:
        """The median of ``times``; 0 if unknown."""
        times = self.time_of(alternative)
        return 0.0 if times is None else times.median

    def time_of(self, alternative: str) -> Times | None:
        """The time of ``alternative`` relative to that of the predicted best, if known."""
        return None if self.measured is None else self.measured.times.get(alternative)


@dataclass(frozen=True, eq=False)
class Choices:
    """The measurements of workloads on ``isa``. ``sizes``: the values that symbolic sizes had. ``is_kept``:
    whether there is a record, so that choices are added to notes.
    """

    isa: str = ""
    sizes: Mapping[str, int] = field(default_factory=dict)
    workloads: Workloads = field(default_factory=dict)
    is_kept: bool = False

    def choose(
        self,
        kind: str,
        content: Hashable,
        alternatives: Sequence[str],
        nodes: Sequence[Node],
        notes: list[object],
    ) -> Choice:
        """Chooses one of ``alternatives``, the predicted best first, to compute ``nodes``.

        ``content`` identifies the workload among those of its ``kind``; its repr must be the same in each
        process. With a record, the choice is added to ``notes``.
        """
        if not self.is_kept or len(alternatives) < 2:
            return Choice(tuple(alternatives), alternatives[0])
        workload = workload_digest(kind, self.isa, (content, self._sizes_of(nodes)))
        measured = self.workloads.get(workload)
        taken = alternatives[0] if measured is None or measured.taken not in alternatives else measured.taken
        sources = frozenset(source for node in nodes for source in node.sources)
        choice = Choice(tuple(alternatives), taken, workload, _place(nodes), sources, measured)
        notes.append(choice)
        return choice

    def _sizes_of(self, nodes: Sequence[Node]) -> Hashable:
        """The values that symbolic sizes of ``nodes`` had when they were measured."""
        values = (value for node in nodes for value in (*node.inputs, *node.outputs) if value is not None)
        is_static = not self.sizes or all(value.type.is_static for value in values)
        return () if is_static else tuple(sorted(self.sizes.items()))


def _place(nodes: Sequence[Node]) -> str:
    return " -> ".join(dict.fromkeys(node.location for node in (nodes[0], nodes[-1])))


NOTHING_MEASURED: Final = Choices()


def workload_digest(kind: str, isa: str, content: Hashable) -> str:
    """The key of a workload in a record."""
    return hashlib.blake2b(repr((kind, isa, content)).encode(), digest_size=16).hexdigest()


def choices_of(options: Options) -> Choices:
    """The measurements in the option ``tuning``."""
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
    """A digest of what a record says about ``choices``; ``none`` if it has none of them."""
    known: Mapping[str, str] = {each.workload: each.taken for each in choices if each.measured is not None}
    if not known:
        return NO_RECORD
    return hashlib.sha256(repr(sorted(known.items())).encode()).hexdigest()[:32]
