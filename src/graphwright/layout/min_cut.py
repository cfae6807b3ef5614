"""Minimum cuts of flow networks. A cut assigns one of two labels to every vertex, at the least total cost."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Hashable, Mapping, Sequence
from itertools import pairwise
from typing import Final

SOURCE: Final = "source"
SINK: Final = "sink"
INFINITE: Final = float("inf")


class Network:
    """A flow network: directed edges with capacities between vertices, which can be any hashable values.

    An edge from ``a`` to ``b`` is cut if ``a`` is on the source side and ``b`` on the sink side. Every path
    from source to sink must contain a finite edge.
    """

    def __init__(self) -> None:
        self._residual: dict[Hashable, dict[Hashable, float]] = defaultdict(dict)

    def edge(self, a: Hashable, b: Hashable, capacity: float) -> None:
        """Adds ``capacity`` >= 0 to the edge from ``a`` to ``b``."""
        self._residual[a][b] = self._residual[a].get(b, 0) + capacity
        self._residual[b].setdefault(a, 0)

    def source_side(self) -> set[Hashable]:
        """The vertices on the source side of a minimum cut, as few as possible. Uses up the capacities.

        The algorithm sends blocking flows along shortest paths (Dinic, 1970). The source side is then the set
        of vertices that the source still reaches (Ford and Fulkerson, 1956).
        """
        while True:
            levels = self._levels()
            if SINK not in levels:
                return set(levels)
            self._send_blocking_flow(levels)

    def _levels(self) -> dict[Hashable, int]:
        """The distance of each reachable vertex from the source."""
        levels: dict[Hashable, int] = {SOURCE: 0}
        queue: deque[Hashable] = deque([SOURCE])
        while queue:
            a = queue.popleft()
            for b, capacity in self._residual[a].items():
                if capacity > 0 and b not in levels:
                    levels[b] = levels[a] + 1
                    queue.append(b)
        return levels

    def _send_blocking_flow(self, levels: Mapping[Hashable, int]) -> None:
        """Sends a blocking flow through the level graph."""
        unexplored = {
            vertex: list(self._residual[vertex]) for vertex in levels
        }  # edges not known as dead ends
        path: list[Hashable] = [SOURCE]
        while path:
            a = path[-1]
            if a == SINK:
                path = path[: self._send_along(path) + 1]
                continue
            residual, edges = self._residual[a], unexplored[a]
            while edges and not (residual[edges[-1]] > 0 and levels.get(edges[-1]) == levels[a] + 1):
                edges.pop()
            if edges:
                path.append(edges[-1])
                continue
            path.pop()  # a dead end
            if path:
                unexplored[path[-1]].pop()

    def _send_along(self, path: Sequence[Hashable]) -> int:
        """Sends as much flow along ``path`` as it allows. Returns the position of its first saturated
        edge.
        """
        edges = list(pairwise(path))
        flow = min(self._residual[a][b] for a, b in edges)
        if flow == INFINITE:
            raise ValueError("the network has no finite cut")
        full = len(path)
        for position, (a, b) in enumerate(edges):
            self._residual[a][b] -= flow
            self._residual[b][a] += flow
            if self._residual[a][b] == 0:
                full = min(full, position)
        return full
