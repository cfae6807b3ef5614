"""Fusion decisions: for each edit of the partition, the outcome and the reason. Packages store them;
``graphwright explain`` shows them.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence

from graphwright.ir.graph import Node
from graphwright.ir.refusal import Code
from graphwright.ir.symbols import Dim
from graphwright.passes.base import Record, Replacement
from graphwright.records import dataclass

MOST_DECISIONS = 20_000
"""The most decisions that are recorded per compilation."""


class Kind(enum.StrEnum):
    """The kind of an edit."""

    MERGE = "merge"
    """The kernel of the first node also computes the second one."""
    REPLACE = "replace"
    """One op that has a kernel of its own replaces the nodes."""
    BAND = "band"
    """The kernels of the nodes run in turn for a band of rows, then for the next band."""


class Verdict(enum.StrEnum):
    """The outcome of an edit."""

    TAKEN = "taken"
    REFUSED = "refused"


@dataclass(frozen=True)
class Edit:
    """A change of the partition. ``nodes`` are named as in errors and reports, in graph order."""

    kind: Kind
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class Decision:
    """The decision about ``edit``, with the first reason that decided it.

    ``bytes_saved``: memory traffic saved per run, symbolic for dynamic shapes, None if unknown.
    ``predicted``, ``measured``: log(time after / time before). ``sources``: for each node of the edit, the
    nodes of the model that it comes from.
    """

    edit: Edit
    verdict: Verdict
    code: Code
    why: str
    bytes_saved: Dim | None = None
    predicted: float | None = None
    measured: float | None = None
    sources: tuple[tuple[str, ...], ...] = ()


def merge_decision(
    producer: Node,
    consumer: Node,
    code: Code,
    why: str,
    bytes_saved: Dim | None,
    predicted: float | None,
    measured: float | None = None,
) -> Decision:
    """The decision about computing ``consumer`` in the kernel of ``producer``."""
    verdict = Verdict.TAKEN if code is Code.MERGED else Verdict.REFUSED
    edit = Edit(Kind.MERGE, (producer.location, consumer.location))
    sources = producer.sources, consumer.sources
    return Decision(edit, verdict, code, why, bytes_saved, predicted, measured, sources)


def decisions_of(records: Sequence[Record]) -> list[Decision]:
    """The fusion decisions that passes recorded, in order and without duplicates."""
    found = dict.fromkeys(_recorded(records))
    return list(found)[:MOST_DECISIONS]


def _recorded(records: Sequence[Record]) -> Iterable[Decision]:
    for record in records:
        decided = [note for note in record.notes if isinstance(note, Decision)]
        for note in record.notes:
            if isinstance(note, Replacement):
                edit, sources = Edit(Kind.REPLACE, (note.location,)), (note.sources,)
                yield Decision(edit, Verdict.TAKEN, note.code, f"rule {note.rule}", sources=sources)
        for reason in record.reasons:
            if reason.code is not None and not decided:
                edit = Edit(Kind.REPLACE, (reason.location,))
                yield Decision(edit, Verdict.REFUSED, reason.code, reason.why, sources=(reason.sources,))
        yield from decided
