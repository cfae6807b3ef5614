"""Remarks: what a compilation did and declined besides fusion, collected from the records of
its passes.

Packages store them (:mod:`graphwright.compiler.remark_text`); ``graphwright explain`` shows
them.
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
"""The most nodes that are named per kind; the others are only counted."""
MOST_DECLINED: Final = 30
"""The most reasons that are kept per pass: those that concern the largest numbers of nodes."""
MOST_NODES: Final = 5000
"""The most remarks about single nodes that are kept per kind."""


@dataclass(frozen=True)
class NodeCount:
    """A number of nodes, and the names of the first ones."""

    count: int = 0
    first: tuple[str, ...] = ()


@dataclass(frozen=True)
class Declined:
    """Why a pass left ``nodes`` unchanged. ``code``: the code of the fusion decision, or empty."""

    code: str
    rule: str
    why: str
    nodes: NodeCount


@dataclass(frozen=True)
class PassRemark:
    """The summary of all runs of a pass in a stage: changes by kind, nodes removed and added (constants are
    not counted), and reasons for which it declined.
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
        """Sort key for the size of the change: nodes removed and added, then all changes."""
        nodes = self.removed.count + self.added.count
        return nodes, nodes + sum(self.changes.values())


@dataclass(frozen=True)
class Remarks:
    """The remarks of one entry. If it has several programs, those about passes are summed."""

    passes: tuple[PassRemark, ...] = ()
    requests: tuple[LayoutRequest, ...] = ()
    copies: tuple[LayoutCopy, ...] = ()
    kernels: tuple[KernelChoice, ...] = ()


def remarks_of(records: Sequence[Record]) -> Remarks:
    """The remarks in ``records``, in order."""
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
        changes += record.counts  # drops zero counts
        removed.update(record.removed)
        added.update(record.added)
    declined = _grouped(dict.fromkeys(each for record in records for each in _declined(record)))
    return PassRemark(stage, name, len(records), changes, _count(removed), _count(added), declined)


def _count(nodes: Counter[NodeKey]) -> NodeCount:
    names = (f"{op} {' + '.join(sources)}".rstrip() for op, sources in list(nodes)[:MOST_NAMES])
    return NodeCount(nodes.total(), tuple(names))


def _declined(record: Record) -> Iterator[tuple[str, str, str, str]]:
    """Tuples of code, rule, reason and node. For a fusion decision the reason is the meaning of its code."""
    decisions = [note for note in record.notes if isinstance(note, Decision)]
    for each in decisions:
        if each.verdict is Verdict.REFUSED:
            yield each.code.value, "", each.code.means, " -> ".join(each.edit.nodes)
    for reason in record.reasons:
        if reason.code is None:
            yield "", reason.rule, reason.why, reason.location
        elif not decisions:
            yield reason.code.value, "", reason.code.means, reason.location


def _grouped(found: Iterable[tuple[str, str, str, str]]) -> tuple[Declined, ...]:
    """Grouped by reason, those that concern the most nodes first."""
    locations: dict[tuple[str, str, str], list[str]] = {}
    for *reason, location in found:
        code, rule, why = reason
        locations.setdefault((code, rule, why), []).append(location)
    declined = (Declined(*key, NodeCount(len(of), tuple(of[:MOST_NAMES]))) for key, of in locations.items())
    return tuple(sorted(declined, key=lambda each: -each.nodes.count)[:MOST_DECLINED])
