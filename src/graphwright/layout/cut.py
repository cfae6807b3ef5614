"""Minimum cut of a flow network: the cheapest assignment of one of two labels to every vertex."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Hashable, Mapping, Sequence
from itertools import pairwise
from typing import Final

SOURCE: Final = "source"
SINK: Final = "sink"
INFINITE: Final = float("inf")


class Network:
    """Vertices (any hashable values, including :data:`SOURCE` and :data:`SINK`) and directed edges with
    capacities.

    An edge from ``a`` to ``b`` is cut if ``a`` is on the source side and ``b`` on the sink side. Every path
    from source to sink must contain a finite edge.
    """

    def __init__(self) -> None:
        self._room: dict[Hashable, dict[Hashable, float]] = defaultdict(dict)

    def edge(self, a: Hashable, b: Hashable, capacity: float) -> None:
        """Add ``capacity`` >= 0 to the edge from ``a`` to ``b``."""
        self._room[a][b] = self._room[a].get(b, 0) + capacity
        self._room[b].setdefault(a, 0)

    def source_side(self) -> set[Hashable]:
        """The smallest source side of a minimum cut. Consumes the network.

        Blocking flows along shortest paths (Dinic, 1970); the vertices that the source still reaches are its
        side (Ford and Fulkerson, 1956).
        """
        while True:
            levels = self._levels()
            if SINK not in levels:
                return set(levels)
            self._block(levels)

    def _levels(self) -> dict[Hashable, int]:
        """The distance of each reachable vertex from the source."""
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
        """Send a blocking flow through the level graph."""
        left = {vertex: list(self._room[vertex]) for vertex in levels}  # edges that are not dead ends so far
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
        """Send as much flow as ``path`` allows. Returns the position of its first saturated edge."""
        edges = list(pairwise(path))
        flow = min(self._room[a][b] for a, b in edges)
        if flow == INFINITE:
            raise ValueError("the network has no finite cut")
        full = len(path)
        for position, (a, b) in enumerate(edges):
            self._room[a][b] -= flow
            self._room[b][a] += flow
            if self._room[a][b] == 0:
                full = min(full, position)
        return full
