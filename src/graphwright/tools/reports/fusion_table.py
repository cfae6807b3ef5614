"""``explain`` without a section: what fusion saved and missed, why two nodes are apart, and what changed from
one model to another.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from graphwright.fusion.decisions import Decision, Verdict
from graphwright.support.source_names import sources_text
from graphwright.support.units import bytes_text
from graphwright.tools.console import paragraph, say, table
from graphwright.tools.reports.explanation import Explanation, changes
from graphwright.tools.reports.model_tables import traffic_line

GAINS: Final = 4
MISSES: Final = 5
MOST_CHANGES: Final = 50
_NAME: Final = 36
"""The most characters of the name of a node in a table."""


def show_fusion(explained: Explanation) -> None:
    """Prints the bytes that kernels move, the largest gains by rule, and the largest misses by code."""
    say(paragraph(traffic_line(explained.nodes, explained.module), 4))
    rows = [
        ["saved", *_line(explained, head, found)] for head, found in explained.groups(Verdict.TAKEN)[:GAINS]
    ]
    rows += [
        ["missed", *_line(explained, head, found)]
        for head, found in explained.groups(Verdict.REFUSED)[:MISSES]
    ]
    if rows:
        table(rows, ["", "bytes", "edits", "rule or code", "the largest"])


def _line(explained: Explanation, head: str, found: Sequence[Decision]) -> list[str]:
    """A line with the bytes, the rule or code, the number of decisions, and the largest of them."""
    largest = found[0]
    total = bytes_text(sum(map(explained.bytes_of, found)))
    gain = "" if largest.predicted is None else f", predicted {math.exp(largest.predicted):.2f} of the time"
    why = f": {largest.why}" if largest.verdict is Verdict.REFUSED else ""
    return [
        total,
        str(len(found)),
        head,
        f"{_nodes(largest, _NAME)}, {bytes_text(explained.bytes_of(largest))}{gain}{why}",
    ]


def _nodes(decision: Decision, limit: int = 1000) -> str:
    """Its nodes; parts of one node, such as a softmax, have one name."""
    names = [sources_text(node, limit) for node in decision.edit.nodes]
    return " -> ".join(names) if len(names) == 1 or len(set(names)) > 1 else f"inside {names[0]}"


def show_why_not(explained: Explanation, first: str, second: str) -> None:
    """Prints the first reason why one kernel does not compute the nodes ``first`` and ``second``."""
    explained.require_names((first, second))
    together = explained.kernel_of(first, second)
    if together is not None:
        say(f"one kernel computes both: {together.name}")
        return
    found = explained.first_refusal(first, second)
    if found is None:
        say("no value passes from one to the other: only adjacent nodes are merged")
        return
    say(f"{_nodes(found)}: {found.why} [{found.code.value}]")
    if found.code.means != found.why:
        say(f"  {found.code.means}")
    if found.bytes_saved is not None:
        say(f"  a merge would save {bytes_text(explained.bytes_of(found))} in a run")
    if found.predicted is not None:
        say(f"  predicted, it would take {math.exp(found.predicted):.2f} of the time")
    if found.measured is not None:
        say(f"  measured, it would take {math.exp(found.measured):.2f} of the time")
    if found.code.remedy:
        say(f"  what to do: {found.code.remedy}")


def show_changes(old: Explanation, new: Explanation) -> None:
    """Prints the decisions of ``new`` that differ from those of ``old``."""
    found = changes(old, new)
    say(f"kernels: {len(old.nodes)}, now {len(new.nodes)}")
    before, after = (explained.total[0].total for explained in (old, new))
    say(f"bytes read and written: {bytes_text(before)}, now {bytes_text(after)}")
    say(f"decisions that differ: {len(found)}")
    for was, is_now in found[:MOST_CHANGES]:
        known = is_now or was
        assert known is not None
        say(f"  {_nodes(known)}: {_state(was)}, now {_state(is_now)}")
    if len(found) > MOST_CHANGES:
        say(f"  and {len(found) - MOST_CHANGES} more")


def _state(decision: Decision | None) -> str:
    if decision is None:
        return "no candidate"
    return f"{decision.verdict.value} [{decision.code.value}]"
