"""What was decided about each edit of a partition, and why: kept in packages, shown by ``explain``."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence

from graphwright.ir.graph import Node
from graphwright.ir.refusal import Code
from graphwright.ir.symbols import Dim
from graphwright.passes.base import Record, Replacement
from graphwright.records import dataclass

MOST_DECISIONS = 20_000
"""Decisions that are kept of one compilation."""


class Kind(enum.StrEnum):
    """How an edit changes a partition of the graph into kernels."""

    MERGE = "merge"
    """The kernel of the first node computes the second one as well."""
    REPLACE = "replace"
    """One op with a kernel of its own replaces the nodes."""
    BAND = "band"
    """The kernels of the nodes run one after the other for some rows, then for the next ones."""


class Verdict(enum.StrEnum):
    """What became of an edit."""

    TAKEN = "taken"
    REFUSED = "refused"


@dataclass(frozen=True)
class Edit:
    """A change of a partition. ``nodes``: as errors and reports call them, in the order of the graph."""

    kind: Kind
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class Decision:
    """What was decided about ``edit``: the first reason that decided it.

    ``bytes_saved``: what would cross memory no more, in one run; an expression where sizes are open, None
    where it is not known. ``predicted``, ``measured``: the logarithm of the time after over that before.
    ``sources``: for each node of the edit, the nodes of the model that it comes from.
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
    bytes_saved: Dim | None = None,
    measured: float | None = None,
) -> Decision:
    """What was decided about computing ``consumer`` in the kernel of ``producer``."""
    verdict = Verdict.TAKEN if code is Code.MERGED else Verdict.REFUSED
    edit = Edit(Kind.MERGE, (producer.place, consumer.place))
    sources = producer.sources, consumer.sources
    return Decision(edit, verdict, code, why, bytes_saved, measured=measured, sources=sources)


def decisions_of(records: Sequence[Record]) -> list[Decision]:
    """All decisions about fusion that passes recorded, each once, in their order."""
    found = dict.fromkeys(_recorded(records))
    return list(found)[:MOST_DECISIONS]


def _recorded(records: Sequence[Record]) -> Iterable[Decision]:
    for record in records:
        decided = [note for note in record.notes if isinstance(note, Decision)]
        for note in record.notes:
            if isinstance(note, Replacement):
                edit, sources = Edit(Kind.REPLACE, (note.place,)), (note.sources,)
                yield Decision(edit, Verdict.TAKEN, note.code, f"rule {note.rule}", sources=sources)
        for reason in record.reasons:
            if reason.code is not None and not decided:
                edit = Edit(Kind.REPLACE, (reason.place,))
                yield Decision(edit, Verdict.REFUSED, reason.code, reason.why, sources=(reason.sources,))
        yield from decided
