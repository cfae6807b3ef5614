"""The minimum cut of a network: the cheapest way to give every vertex one of two labels."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Hashable, Mapping, Sequence
from itertools import pairwise
from typing import Final

SOURCE: Final = "source"
SINK: Final = "sink"
INFINITE: Final = float("inf")


class Network:
    """Vertices (anything hashable, :data:`SOURCE` and :data:`SINK` among them) and directed capacities.

    An edge from ``a`` to ``b`` costs its capacity where ``a`` is on the source's side and ``b`` on the
    sink's. A path from source to sink must not be infinite all along.
    """

    def __init__(self) -> None:
        self._room: dict[Hashable, dict[Hashable, float]] = defaultdict(dict)

    def edge(self, a: Hashable, b: Hashable, capacity: float) -> None:
        """Add ``capacity`` >= 0 from ``a`` to ``b``."""
        self._room[a][b] = self._room[a].get(b, 0) + capacity
        self._room[b].setdefault(a, 0)

    def source_side(self) -> set[Hashable]:
        """The smallest source's side of a minimum cut. Uses the network up.

        Blocking flows along shortest paths (Dinic, 1970); what the source still reaches is its side (Ford and
        Fulkerson, 1956).
        """
        while True:
            levels = self._levels()
            if SINK not in levels:
                return set(levels)
            self._block(levels)

    def _levels(self) -> dict[Hashable, int]:
        """The distance from the source of each vertex within its reach."""
        levels: dict[Hashable, int] = {SOURCE: 0}
        waiting: deque[Hashable] = deque([SOURCE])
        while waiting:
            a = waiting.popleft()
            for b, room in self._room[a].items():
                if room > 0 and b not in levels:
                    levels[b] = levels[a] + 1
                    waiting.append(b)
        return levels

    def _block(self, levels: Mapping[Hashable, int]) -> None:
        """Send flow until each path that goes one level further with every edge has a full one."""
        left = {vertex: list(self._room[vertex]) for vertex in levels}  # edges that may still lead on
        path: list[Hashable] = [SOURCE]
        while path:
            a = path[-1]
            if a == SINK:
                path = path[: self._send(path) + 1]
                continue
            room, edges = self._room[a], left[a]
            while edges and not (room[edges[-1]] > 0 and levels.get(edges[-1]) == levels[a] + 1):
                edges.pop()
            if edges:
                path.append(edges[-1])
                continue
            path.pop()  # a dead end
            if path:
                left[path[-1]].pop()

    def _send(self, path: Sequence[Hashable]) -> int:
        """Send what ``path`` has room for; the position of its first vertex behind which it is full."""
        edges = list(pairwise(path))
        flow = min(self._room[a][b] for a, b in edges)
        if flow == INFINITE:
            raise ValueError("no cut is finite")
        full = len(path)
        for position, (a, b) in enumerate(edges):
            self._room[a][b] -= flow
            self._room[b][a] += flow
            if self._room[a][b] == 0:
                full = min(full, position)
        return full
