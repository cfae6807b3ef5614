"""The names of source nodes in the labels of tasks."""

from __future__ import annotations

from graphwright.support.escaping import terminal

_SHORT_NAME = 8
"""The fewest characters of a longer name that are worth showing."""


def sources_text(label: str, limit: int) -> str:
    """The label of a task, shortened to ``limit`` characters: its first source node and the number of others.

    A label is the names of source nodes, separated by `` + `` and ``, ``.
    """
    shown = terminal(label, limit)
    sources = list(dict.fromkeys(source for part in label.split(", ") for source in part.split(" + ")))
    if len(label) <= limit or len(sources) == 1:
        return shown
    others = f" and {len(sources) - 1} other{'s' if len(sources) > 2 else ''}"
    room = limit - len(others)
    return terminal(sources[0], room) + others if room >= min(len(sources[0]), _SHORT_NAME) else shown
