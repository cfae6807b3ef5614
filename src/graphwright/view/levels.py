"""A level: the inside of one group, with its nodes and groups as boxes, and ports where values enter and
leave.
"""

from __future__ import annotations

import enum

from graphwright.records import dataclass, field
from graphwright.view.nesting import Nesting, members_of
from graphwright.view.picture import GraphPicture


class Kind(enum.IntEnum):
    """The kind of an item of a level."""

    NODE = 0
    GROUP = 1
    IN = 2
    """A value from outside of the group."""
    OUT = 3
    """A value that is read outside of the group."""


@dataclass(frozen=True)
class Item:
    """An item of a level. ``number`` is that of a node or group; for a port, that of the node that makes the
    value.
    """

    kind: Kind
    number: int
    text: str = ""
    """For a port, the type of its value."""


@dataclass(frozen=True)
class Level:
    """The items of one group, and the edges between their positions; ``texts`` has a type for each edge."""

    items: list[Item] = field(default_factory=list)
    edges: dict[tuple[int, int], str] = field(default_factory=dict)

    def connect(self, tail: int, head: int, text: str) -> None:
        """Adds an edge. Several values between two items are one edge."""
        known = self.edges.get((tail, head))
        if known is None:
            self.edges[tail, head] = text
        elif text not in known.split("\n") and len(known) < MOST_TEXT:
            self.edges[tail, head] = f"{known}\n{text}"


MOST_TEXT = 400
"""The most characters of the types on an edge."""


def levels_of(picture: GraphPicture) -> list[Level]:
    """The level of each group."""
    builder = _LevelBuilder(picture)
    for edge in picture.edges:
        builder.connect(edge.producer, edge.consumer, edge.value, edge.text)
    return builder.levels


class _LevelBuilder:
    def __init__(self, picture: GraphPicture) -> None:
        self._nesting = Nesting(picture.groups)
        self._group_of = [node.group for node in picture.nodes]
        self.levels = [Level() for _ in picture.groups]
        self._positions: list[dict[tuple[Kind, int, int], int]] = [{} for _ in picture.groups]
        """The position of each item in its level, by kind, number and output of the node."""
        for group, members in enumerate(members_of(picture)):
            for member in members:
                kind = Kind.NODE if member >= 0 else Kind.GROUP
                self._place(group, kind, member if member >= 0 else ~member)

    def connect(self, producer: int, consumer: int, value: int, text: str) -> None:
        """Connects two nodes through the ports of all groups between them."""
        start, end = self._group_of[producer], self._group_of[consumer]
        common, parents = self._nesting.common(start, end), self._nesting.parents
        tail = self._place(start, Kind.NODE, producer)
        while start != common:
            self.levels[start].connect(tail, self._place(start, Kind.OUT, producer, value, text), text)
            start, tail = parents[start], self._place(parents[start], Kind.GROUP, start)
        head = self._place(end, Kind.NODE, consumer)
        while end != common:
            self.levels[end].connect(self._place(end, Kind.IN, producer, value, text), head, text)
            end, head = parents[end], self._place(parents[end], Kind.GROUP, end)
        if tail != head:
            self.levels[common].connect(tail, head, text)

    def _place(self, group: int, kind: Kind, number: int, value: int = 0, text: str = "") -> int:
        level, positions = self.levels[group], self._positions[group]
        key = kind, number, value
        if key not in positions:
            positions[key] = len(level.items)
            level.items.append(Item(kind, number, text))
        return positions[key]
