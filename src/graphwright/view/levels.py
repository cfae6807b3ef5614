"""What is seen inside of one group: its nodes and groups as boxes, and ports where values enter and leave."""

from __future__ import annotations

import enum

from graphwright.records import dataclass, field
from graphwright.view.nesting import Nesting, members_of
from graphwright.view.picture import GraphPicture


class Kind(enum.IntEnum):
    """What an item of a level stands for."""

    NODE = 0
    GROUP = 1
    IN = 2
    """A value that comes from outside."""
    OUT = 3
    """A value that is read outside."""


@dataclass(frozen=True)
class Item:
    """``number`` is that of a node or group; of a port, the node outside or inside that makes the value."""

    kind: Kind
    number: int
    text: str = ""
    """Of a port: the type of its value."""


@dataclass(frozen=True)
class Level:
    """The items of one group, and edges between them, by position: ``texts`` has a type for each edge."""

    items: list[Item] = field(default_factory=list)
    edges: dict[tuple[int, int], str] = field(default_factory=dict)

    def connect(self, tail: int, head: int, text: str) -> None:
        """An edge; several values between two items are one."""
        known = self.edges.get((tail, head))
        if known is None:
            self.edges[tail, head] = text
        elif text not in known.split("\n") and len(known) < MOST_TEXT:
            self.edges[tail, head] = f"{known}\n{text}"


MOST_TEXT = 400
"""Characters of an edge's types."""


def levels_of(picture: GraphPicture) -> list[Level]:
    """The level of each group."""
    maker = _Maker(picture)
    for edge in picture.edges:
        maker.connect(edge.producer, edge.consumer, edge.value, edge.text)
    return maker.levels


class _Maker:
    def __init__(self, picture: GraphPicture) -> None:
        self._nesting = Nesting(picture.groups)
        self._group_of = [node.group for node in picture.nodes]
        self.levels = [Level() for _ in picture.groups]
        self._places: list[dict[tuple[Kind, int, int], int]] = [{} for _ in picture.groups]
        """Where each item stands in its level: by kind, number, and which value of a node it is."""
        for group, members in enumerate(members_of(picture)):
            for member in members:
                kind = Kind.NODE if member >= 0 else Kind.GROUP
                self._place(group, kind, member if member >= 0 else ~member)

    def connect(self, producer: int, consumer: int, value: int, text: str) -> None:
        """Lead a value through the borders of the groups between two nodes."""
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
        level, places = self.levels[group], self._places[group]
        key = kind, number, value
        if key not in places:
            places[key] = len(level.items)
            level.items.append(Item(kind, number, text))
        return places[key]
