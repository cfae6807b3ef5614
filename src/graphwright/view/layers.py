"""Layered drawing of directed graphs by the method of Sugiyama, Tagawa and Toda (1981): ranks, orders,
positions.

The result depends only on the arguments. The work is bounded by the number of items and edges: once
:data:`BENDS` is used up, edges that pass many ranks are not routed around boxes, and only their two ends are
drawn.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from graphwright.records import dataclass

Edge = tuple[int, int]
GAP, ROW_GAP = 18, 34
"""The distances between boxes of a row, and between rows."""
BENDS = 4
"""The most bends of edges, as an average per item."""
SWEEPS = 4
"""The number of passes down and up that improve the order of items in rows, and then their positions."""
MOST_COUNTED = 4000
"""Crossings are counted up to this number of items and bends."""
_STRAIGHT = 8.0
"""The weight of a straight long edge, relative to that of a box close to its neighbors."""


@dataclass(frozen=True)
class Size:
    """The size of a box."""

    width: int
    height: int


@dataclass(frozen=True)
class Box:
    """The position of a box: its row, and the horizontal center."""

    row: int
    x: int


@dataclass(frozen=True)
class Route:
    """The route of an edge: through ``bends``, one for each row between its ends. Of an edge that is not
    ``drawn``, only the ends are shown: it would pass too many rows, or go up, against the order of the rows.
    """

    tail: int
    head: int
    bends: tuple[int, ...] = ()
    drawn: bool = True


@dataclass(frozen=True)
class Drawing:
    """Boxes in the order of the items, rows as top and height, and routes in the order of the edges."""

    boxes: tuple[Box, ...]
    rows: tuple[tuple[int, int], ...]
    routes: tuple[Route, ...]
    width: int
    height: int


def draw(
    sizes: Sequence[Size], edges: Sequence[Edge], first: Sequence[int] = (), last: Sequence[int] = ()
) -> Drawing:
    """Places boxes of ``sizes``. The top row has only the items ``first``, the bottom row only ``last``.
    Edges go down, except for some edges of each cycle.
    """
    if not sizes:
        return Drawing((), (), (), 0, 0)
    upward = feedback(len(sizes), edges)
    forward = [edge for k, edge in enumerate(edges) if k not in upward]
    rows = ranks(len(sizes), forward, first, last)
    chains = _Chains(rows, edges, upward)
    order = ordered(chains.rows, chains.links)
    widths = [size.width for size in sizes] + [0] * (len(chains.rows) - len(sizes))
    xs = positions(order, chains.links, widths, len(sizes))
    return _drawing(sizes, edges, rows, chains, xs)


def feedback(count: int, edges: Sequence[Edge]) -> set[int]:
    """The numbers of edges whose removal leaves no cycle: the back edges of a depth-first search that starts
    at the first items.
    """
    leaving: list[list[tuple[int, int]]] = [[] for _ in range(count)]
    for number, (tail, head) in enumerate(edges):
        leaving[tail].append((head, number))
    found: set[int] = set()
    state = bytearray(count)  # 1: on the path, 2: done
    for start in range(count):
        if state[start]:
            continue
        state[start] = 1
        pending = [(start, iter(leaving[start]))]
        while pending:
            item, rest = pending[-1]
            head, number = next(rest, (-1, -1))
            if head < 0:
                state[item] = 2
                pending.pop()
            elif state[head] == 1:
                found.add(number)
            elif not state[head]:
                state[head] = 1
                pending.append((head, iter(leaving[head])))
    return found


def ranks(count: int, edges: Sequence[Edge], first: Sequence[int], last: Sequence[int]) -> list[int]:
    """The row of each item: the length of the longest path to it. An item without predecessors is in the row
    above its first reader.
    """
    leaving: list[list[int]] = [[] for _ in range(count)]
    missing = [0] * count
    for tail, head in edges:
        leaving[tail].append(head)
        missing[head] += 1
    entering = list(missing)
    fixed = bytearray(count)
    for item in (*first, *last):
        fixed[item] = 1
    row = [0 if fixed[item] or not first else 1 for item in range(count)]
    order = [item for item in range(count) if not missing[item]]
    for item in order:
        for head in leaving[item]:
            row[head] = max(row[head], row[item] + 1)
            missing[head] -= 1
            if not missing[head]:
                order.append(head)
    for item in reversed(order):
        if not entering[item] and leaving[item] and not fixed[item]:
            row[item] = max(row[item], min(row[head] for head in leaving[item]) - 1)
    ends = set(last)
    bottom = max((row[item] for item in range(count) if item not in ends), default=-1) + 1
    for item in last:
        row[item] = bottom
    return _dense(row)


def _dense(row: list[int]) -> list[int]:
    """The rows, renumbered so that none is empty."""
    number = {old: new for new, old in enumerate(sorted(set(row)))}
    return [number[each] for each in row]


class _Chains:
    """Edges as links between adjacent rows: a long edge has a bend (an item without width) in each row that
    it passes.
    """

    def __init__(self, rows: Sequence[int], edges: Sequence[Edge], upward: set[int]) -> None:
        self.rows = list(rows)
        self.links: list[Edge] = []
        self.bends: list[range | None] = [None] * len(edges)
        """The bends of each edge; None for an edge that is not routed through rows."""
        left = BENDS * len(rows) + 64
        spans = [(rows[head] - rows[tail], k) for k, (tail, head) in enumerate(edges) if k not in upward]
        for span, number in sorted(spans):
            if span > 1:
                left -= span - 1
            if left < 0:
                break
            self._lead(number, *edges[number], span)

    def _lead(self, number: int, tail: int, head: int, span: int) -> None:
        bends = range(len(self.rows), len(self.rows) + span - 1)
        self.rows += range(self.rows[tail] + 1, self.rows[head])
        self.bends[number] = bends
        stops = [tail, *bends, head]
        self.links += pairwise(stops)


def ordered(rows: Sequence[int], links: Sequence[Edge]) -> list[list[int]]:
    """The items of each row from left to right, in an order with few crossings: passes down and up sort each
    row by the mean positions of its neighbors.
    """
    above, below = _neighbors(len(rows), links)
    order: list[list[int]] = [[] for _ in range(max(rows) + 1)]
    for item in _depth_first(rows, below):
        order[rows[item]].append(item)
    if all(len(row) == 1 for row in order):
        return order
    counted = len(rows) <= MOST_COUNTED
    best, least = [list(row) for row in order], crossings(order, below) if counted else 0
    for sweep in range(SWEEPS if counted else 1):
        down = sweep % 2 == 0
        position = [0.0] * len(rows)
        for row in order:
            _number(row, position)
        for row in order[1:] if down else order[-2::-1]:
            near = above if down else below
            row.sort(key=lambda item: _mean(position, near[item], position[item]))
            _number(row, position)
        if not counted:
            return order
        found = crossings(order, below)
        if found < least:
            best, least = [list(row) for row in order], found
    return best


def _number(row: Sequence[int], position: list[float]) -> None:
    """Numbers the items of a row relative to its center, so that rows of different lengths are comparable."""
    middle = (len(row) - 1) / 2
    for k, item in enumerate(row):
        position[item] = k - middle


def _mean(position: Sequence[float], items: Sequence[int], otherwise: float) -> float:
    return sum(position[item] for item in items) / len(items) if items else otherwise


def _neighbors(count: int, links: Iterable[Edge]) -> tuple[list[list[int]], list[list[int]]]:
    above: list[list[int]] = [[] for _ in range(count)]
    below: list[list[int]] = [[] for _ in range(count)]
    for tail, head in links:
        above[head].append(tail)
        below[tail].append(head)
    return above, below


def _depth_first(rows: Sequence[int], below: Sequence[Sequence[int]]) -> Iterator[int]:
    """All items in depth-first order, which is the initial order of the rows."""
    seen = bytearray(len(rows))
    for start in sorted(range(len(rows)), key=lambda item: (rows[item], item)):
        pending = [start]
        while pending:
            item = pending.pop()
            if not seen[item]:
                seen[item] = 1
                yield item
                pending += reversed(below[item])


def crossings(order: Sequence[Sequence[int]], below: Sequence[Sequence[int]]) -> int:
    """The number of crossings of links."""
    total = 0
    for upper, lower in pairwise(order):
        position = {item: k for k, item in enumerate(lower)}
        ends: list[int] = []
        for item in upper:
            heads = sorted(position[head] for head in below[item])
            total += sum(len(ends) - _up_to(ends, head) for head in heads)
            for head in heads:
                insort(ends, head)
    return total


def _up_to(ends: Sequence[int], head: int) -> int:
    return bisect_left(ends, head + 1)


def positions(
    order: Sequence[Sequence[int]], links: Sequence[Edge], widths: Sequence[int], boxes: int
) -> list[float]:
    """The center of each item: close to its neighbors, in the order of its row, without overlaps."""
    above, below = _neighbors(len(widths), links)
    x = [0.0] * len(widths)
    for row in order:
        _spread(row, [0.0] * len(row), [1.0] * len(row), widths, x)
    if all(len(row) == 1 for row in order):
        return [0.0] * len(widths)
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for row in order[1:] if down else order[-2::-1]:
            near = above if down else below
            wanted = [_mean(x, near[item], x[item]) for item in row]
            weights = [_weight(item, near[item], boxes) for item in row]
            _spread(row, wanted, weights, widths, x)
    return x


def _weight(item: int, near: Sequence[int], boxes: int) -> float:
    if not near:
        return 0.1
    return _STRAIGHT if item >= boxes and all(other >= boxes for other in near) else 1.0


def _spread(
    row: Sequence[int],
    wanted: Sequence[float],
    weights: Sequence[float],
    widths: Sequence[int],
    x: list[float],
) -> None:
    """Sets ``x`` of the items of ``row`` as close as possible to ``wanted``, by weighted least squares,
    without overlaps. After subtracting the widths to the left of each item, this is isotonic regression,
    solved by pooling adjacent violators (Ayer et al., 1955).
    """
    offsets, offset = [], 0.0
    for k, item in enumerate(row):
        if k:
            offset += (widths[row[k - 1]] + widths[item]) / 2 + GAP
        offsets.append(offset)
    pools: list[tuple[float, float, int]] = []  # mean, weight, count
    for want, weight, offset in zip(wanted, weights, offsets, strict=True):
        mean, count = want - offset, 1
        while pools and pools[-1][0] >= mean:
            other, heavy, more = pools.pop()
            mean = (mean * weight + other * heavy) / (weight + heavy)
            weight, count = weight + heavy, count + more
        pools.append((mean, weight, count))
    means = (mean for mean, _, count in pools for _ in range(count))
    for item, mean, offset in zip(row, means, offsets, strict=True):
        x[item] = mean + offset


def _drawing(
    sizes: Sequence[Size],
    edges: Sequence[Edge],
    rows: Sequence[int],
    chains: _Chains,
    xs: Sequence[float],
) -> Drawing:
    left = min(x - size.width / 2 for x, size in zip(xs, sizes, strict=False))
    left = min(left, *xs)
    right = max(x + size.width / 2 for x, size in zip(xs, sizes, strict=False))
    right = max(right, *xs)
    heights = [0] * (max(rows) + 1)
    for row, size in zip(rows, sizes, strict=True):
        heights[row] = max(heights[row], size.height)
    tops, top = [], 0
    for height in heights:
        tops.append(top)
        top += height + ROW_GAP
    boxes = tuple(Box(row, round(x - left)) for row, x in zip(rows, xs, strict=False))
    routes = []
    for (tail, head), bends in zip(edges, chains.bends, strict=True):
        through = () if bends is None else tuple(round(xs[k] - left) for k in bends)
        routes.append(Route(tail, head, through, drawn=bends is not None))
    lengths = tuple(zip(tops, heights, strict=True))
    return Drawing(boxes, lengths, tuple(routes), round(right - left), top - ROW_GAP)
