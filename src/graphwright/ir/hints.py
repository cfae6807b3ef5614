"""What users ask of fusion, node by node: kept in :attr:`Module.hints` by the names of source nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

KEY: Final = "graphwright.fuse"
"""The key of a node's metadata in an ONNX model; its value is a group, or NEVER."""
NEVER: Final = "never"
"""The node is not in one kernel with others."""


def hints_of(sources: Iterable[str], hints: Mapping[str, str]) -> dict[str, str]:
    """Those of ``sources`` that have a hint, and the first source with each: more than one contradict."""
    found: dict[str, str] = {}
    for source in sources:
        if source in hints:
            found.setdefault(hints[source], source)
    return found


def conflict(sources: Iterable[str], hints: Mapping[str, str]) -> str | None:
    """Why the nodes called ``sources`` may not become one; None where no hint is in the way."""
    names = list(dict.fromkeys(sources))
    found = hints_of(names, hints)
    if not found:
        return None
    if NEVER in found:
        return f"{found[NEVER]} is hinted {NEVER}"
    other = next((name for name in names if hints.get(name) != hints[next(iter(found.values()))]), None)
    (group, source), *_ = found.items()
    return None if other is None else f"{source} is in the group {group!r}, and {other} is not"
