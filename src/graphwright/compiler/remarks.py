"""Remarks: what a compilation did beside fusion and what it declined, from the records of its passes.

Packages keep them (:mod:`graphwright.compiler.remark_text`), and ``explain`` shows them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from graphwright.fusion.decisions import Decision, Verdict
from graphwright.kernels.kernel_choice import KernelChoice
from graphwright.layout.remarks import LayoutCopy, LayoutRequest
from graphwright.passes.base import NodeKey, Record
from graphwright.records import dataclass

MOST_NAMES: Final = 6
"""Nodes of a kind that are named; the others are counted."""
MOST_DECLINED: Final = 30
"""Reasons that are kept of a pass: those of most nodes."""
MOST_NODES: Final = 5000
"""Remarks about single nodes that are kept of each kind."""


@dataclass(frozen=True)
class NodeCount:
    """So many nodes, and the names of the first."""

    count: int = 0
    first: tuple[str, ...] = ()


@dataclass(frozen=True)
class Declined:
    """Why a pass left ``nodes`` as they are. ``code`` is that of a decision about fusion, or empty."""

    code: str
    rule: str
    why: str
    nodes: NodeCount


@dataclass(frozen=True)
class PassRemark:
    """What all runs of a pass in a stage did: ``changes`` by kind, nodes that went and came, constants not
    counted, and what stopped it.
    """

    stage: str
    name: str
    runs: int
    changes: Mapping[str, int]
    removed: NodeCount
    added: NodeCount
    declined: tuple[Declined, ...]

    @property
    def size(self) -> tuple[int, int]:
        """How much it changed: nodes, then anything."""
        nodes = self.removed.count + self.added.count
        return nodes, nodes + sum(self.changes.values())


@dataclass(frozen=True)
class Remarks:
    """Of one entry; of several programs, what is said of passes is summed."""

    passes: tuple[PassRemark, ...] = ()
    requests: tuple[LayoutRequest, ...] = ()
    copies: tuple[LayoutCopy, ...] = ()
    kernels: tuple[KernelChoice, ...] = ()


def remarks_of(records: Sequence[Record]) -> Remarks:
    """What ``records`` say, in their order."""
    runs: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        runs.setdefault((record.stage, record.name), []).append(record)
    notes = [note for record in records for note in record.notes]
    return Remarks(
        tuple(_pass_remark(*key, of_pass) for key, of_pass in runs.items()),
        tuple(note for note in notes if isinstance(note, LayoutRequest))[:MOST_NODES],
        tuple(note for note in notes if isinstance(note, LayoutCopy))[:MOST_NODES],
        tuple(note for note in notes if isinstance(note, KernelChoice))[:MOST_NODES],
    )


def _pass_remark(stage: str, name: str, records: Sequence[Record]) -> PassRemark:
    changes: Counter[str] = Counter()
    removed: Counter[NodeKey] = Counter()
    added: Counter[NodeKey] = Counter()
    for record in records:
        changes += record.counts  # leaves out what was counted as 0
        removed.update(record.removed)
        added.update(record.added)
    declined = _grouped(dict.fromkeys(each for record in records for each in _declined(record)))
    return PassRemark(stage, name, len(records), changes, _count(removed), _count(added), declined)


def _count(nodes: Counter[NodeKey]) -> NodeCount:
    names = (f"{op} {' + '.join(sources)}".rstrip() for op, sources in list(nodes)[:MOST_NAMES])
    return NodeCount(nodes.total(), tuple(names))


def _declined(record: Record) -> Iterator[tuple[str, str, str, str]]:
    """Code, rule, reason and node. A decision about fusion has a code; its reason is what that means."""
    decisions = [note for note in record.notes if isinstance(note, Decision)]
    for each in decisions:
        if each.verdict is Verdict.REFUSED:
            yield each.code.value, "", each.code.means, " -> ".join(each.edit.nodes)
    for reason in record.reasons:
        if reason.code is None:
            yield "", reason.rule, reason.why, reason.place
        elif not decisions:
            yield reason.code.value, "", reason.code.means, reason.place


def _grouped(found: Iterable[tuple[str, str, str, str]]) -> tuple[Declined, ...]:
    """By reason, those of most nodes first."""
    places: dict[tuple[str, str, str], list[str]] = {}
    for *reason, place in found:
        code, rule, why = reason
        places.setdefault((code, rule, why), []).append(place)
    made = (Declined(*key, NodeCount(len(of), tuple(of[:MOST_NAMES]))) for key, of in places.items())
    return tuple(sorted(made, key=lambda each: -each.nodes.count)[:MOST_DECLINED])
