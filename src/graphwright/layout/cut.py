"""The minimum cut of a network: the cheapest way to give every vertex one of two labels."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Hashable
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

        Shortest augmenting paths (Edmonds and Karp, 1972); what the source still reaches is its side (Ford
        and Fulkerson, 1956).
        """
        while True:
            came_from = self._reach()
            if SINK not in came_from:
                return set(came_from)
            path: list[tuple[Hashable, Hashable]] = []
            vertex: Hashable = SINK
            while vertex != SOURCE:
                path.append((came_from[vertex], vertex))
                vertex = came_from[vertex]
            flow = min(self._room[a][b] for a, b in path)
            if flow == INFINITE:
                raise ValueError("no cut is finite")
            for a, b in path:
                self._room[a][b] -= flow
                self._room[b][a] += flow

    def _reach(self) -> dict[Hashable, Hashable]:
        """Where each vertex within reach of the source was come to from."""
        came_from: dict[Hashable, Hashable] = {SOURCE: SOURCE}
        waiting: deque[Hashable] = deque([SOURCE])
        while waiting:
            a = waiting.popleft()
            for b, room in self._room[a].items():
                if room > 0 and b not in came_from:
                    came_from[b] = a
                    if b == SINK:
                        return came_from
                    waiting.append(b)
        return came_from
