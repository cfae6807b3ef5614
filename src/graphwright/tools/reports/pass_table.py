"""``explain --passes``: the changes of each pass, and the reasons for which it declined."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Any, Final

from graphwright.compiler.remark_text import decode_remarks
from graphwright.compiler.remarks import Declined, NodeCount, PassRemark
from graphwright.package.package import Package
from graphwright.support.escaping import terminal
from graphwright.support.message_text import counted
from graphwright.support.source_names import sources_text
from graphwright.tools.console import line_width, paragraph, say

MOST_PASSES: Final = 9
"""The most passes that are shown with their changes, which are those with the most changes."""
MOST_REASONS: Final = 1
"""The most reasons that are shown for a pass, which are those for the most nodes."""
MOST_STOPPED: Final = 5
"""The most passes without changes that are shown with reasons."""
_NAME: Final = 40


def pass_facts(package: Package) -> list[dict[str, Any]]:
    """All values as JSON, in the order of the passes. Raises PackageError."""
    return [
        {
            "stage": each.stage,
            "pass": each.name,
            "runs": each.runs,
            "changes": dict(each.changes),
            "removed": _nodes_facts(each.removed),
            "added": _nodes_facts(each.added),
            "declined": [
                {"code": d.code or None, "rule": d.rule or None, "why": d.why, **_nodes_facts(d.nodes)}
                for d in each.declined
            ],
        }
        for each in decode_remarks(package.main.remarks).passes
    ]


def _nodes_facts(nodes: NodeCount) -> dict[str, Any]:
    return {"nodes": nodes.count, "first": list(nodes.first)}


def show_passes(package: Package) -> None:
    """Shows the passes with the most changes, then those that declined, and the names of the others."""
    passes = decode_remarks(package.main.remarks).passes
    changed = sorted((p for p in passes if any(p.size)), key=lambda p: p.size, reverse=True)
    idle = [each for each in passes if not any(each.size)]
    stopped = sorted((p for p in idle if p.declined), key=lambda p: -p.declined[0].nodes.count)
    for each in changed[:MOST_PASSES]:
        say("\n".join(_changed_lines(each)))
    for each in stopped[:MOST_STOPPED]:
        say(paragraph(f"{_title(each)}: nothing; {_reason(each.declined[0])}"))
    shown = {id(each) for each in (*changed[:MOST_PASSES], *stopped[:MOST_STOPPED])}
    _show_names("also changed the graph: ", [each for each in changed if id(each) not in shown])
    working = {each.name for each in changed}
    _show_names(
        "nothing to do: ", [each for each in idle if id(each) not in shown and each.name not in working]
    )


def _changed_lines(each: PassRemark) -> Iterator[str]:
    done = ", ".join(f"{terminal(kind, _NAME)} ({count})" for kind, count in each.changes.items())
    yield _clipped(f"{_title(each)}: {done or 'changed'}")
    for word, nodes in (("removed", each.removed), ("added", each.added)):
        if nodes.count:
            yield _clipped(f"    {word} {counted(nodes.count, 'node')}: {_names(nodes)}")
    for declined in each.declined[:MOST_REASONS]:
        yield paragraph(f"    {_reason(declined)}")
    if len(each.declined) > MOST_REASONS:
        yield f"    and {counted(len(each.declined) - MOST_REASONS, 'other reason')}"


def _title(each: PassRemark) -> str:
    stage = "" if each.stage in ("", each.name) else f" in {terminal(each.stage, _NAME)}"
    return f"{terminal(each.name, _NAME)}{stage}"


def _reason(declined: Declined) -> str:
    code = f"[{declined.code}] " if declined.code else f"{terminal(declined.rule, _NAME)}: "
    count = f"declined {counted(declined.nodes.count, 'node')}"
    return f"{count}: {code}{terminal(declined.why)}: {_names(declined.nodes)}"


def _names(nodes: NodeCount) -> str:
    more = ", ..." if nodes.count > len(nodes.first) else ""
    return ", ".join(sources_text(name, _NAME) for name in nodes.first) + more


def _show_names(head: str, passes: Sequence[PassRemark]) -> None:
    """Shows the names of ``passes``, each once."""
    names = ", ".join(dict.fromkeys(terminal(each.name, _NAME) for each in passes))
    if names:
        say("\n".join(textwrap.wrap(head + names, line_width(), subsequent_indent="    ")))


def _clipped(line: str) -> str:
    return terminal(line, line_width())
