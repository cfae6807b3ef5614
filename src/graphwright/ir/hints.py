"""Fusion hints of users: :attr:`Module.hints` maps source nodes to groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

KEY: Final = "graphwright.fuse"
"""Metadata key of a node in an ONNX model; its value is the name of a group, or NEVER."""
NEVER: Final = "never"
"""The node must not share a kernel with others."""


def hints_of(sources: Iterable[str], hints: Mapping[str, str]) -> dict[str, str]:
    """The different hints of ``sources``, each with the first source that has it; more than
    one contradict.
    """
    found: dict[str, str] = {}
    for source in sources:
        if source in hints:
            found.setdefault(hints[source], source)
    return found


def conflict(sources: Iterable[str], hints: Mapping[str, str]) -> str | None:
    """Why hints forbid that the nodes ``sources`` become one; None if they allow it."""
    names = list(dict.fromkeys(sources))
    found = hints_of(names, hints)
    if not found:
        return None
    if NEVER in found:
        return f"{found[NEVER]} has the hint {NEVER}"
    other = next((name for name in names if hints.get(name) != hints[next(iter(found.values()))]), None)
    (group, source), *_ = found.items()
    return None if other is None else f"{source} is in the hinted group {group!r}, and {other} is not"
