"""The order of steps: as the graph has it, but for moves that lower the most memory that is live at once.

Steps run one at a time, so their order costs no time; near to the graph's it also keeps what was just written
in the caches. Moves are local: a step that makes what is read late waits for its reader, a step that ends
what others hold comes as soon as it can.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate

from graphwright.records import dataclass, field

Sizes = Mapping[int, int]
"""Bytes by memory."""

MOVES = 200
"""Moves that are tried, at most."""
MOST_MOVES = 5000
"""Moves that are tried where the least memory is wanted."""
GAIN = 64
"""A new order is worth having if it saves one part in so many."""


@dataclass
class Item:
    """One step: the memories that it touches, bytes that it needs for itself alone, and which items it must
    come after."""

    touched: frozenset[int]
    own: int = 0
    after: set[int] = field(default_factory=set)


def order_for_memory(items: Sequence[Item], sizes: Sizes) -> list[int]:
    """An order of ``items``, which stand in one that is allowed: theirs, or one with a lower peak.

    Hill climbing on the peak, and on the sum over time where the peak is the same. Deterministic.
    """
    own_order = list(range(len(items)))
    before = _Schedule(items, sizes, own_order).cost[0]
    best = _climbed(items, sizes, own_order, MOVES)
    return best.order if best.cost[0] < before - before // GAIN else own_order


def least_memory_order(items: Sequence[Item], sizes: Sizes) -> list[int]:
    """As :func:`order_for_memory`, however small the gain is and however far the order is from that of
    ``items``: the best of what moves make of that one and of two greedy ones.
    """
    last = len(items) - 1
    backward = [last - number for number in reversed(_greedy(_reversed(items), sizes))]
    starts = [list(range(len(items))), _greedy(items, sizes), backward]
    orders = [_climbed(items, sizes, start, MOST_MOVES).order for start in starts]
    return min((starts[0], *orders), key=lambda order: peak(items, sizes, order))


def _climbed(items: Sequence[Item], sizes: Sizes, start: Sequence[int], most: int) -> _Schedule:
    """What ``most`` moves at most make of the order ``start``."""
    bound = max((item.own + sum(sizes[m] for m in item.touched) for item in items), default=0)
    best = _Schedule(items, sizes, start)
    tried = 0
    moved = True
    while moved and best.cost[0] > bound:
        moved = False
        for now, to in _moves(items, best):
            tried += 1
            if best.cost_of(now, to) < best.cost:
                best, moved = _Schedule(items, sizes, best.moved(now, to)), True
                break
            if tried >= most:
                break
        moved = moved and tried < most
    return best


def _greedy(items: Sequence[Item], sizes: Sizes) -> list[int]:
    """List scheduling: of what may come next, what leaves the least alive, and what needs the least
    meanwhile.
    """
    left = Counter(memory for item in items for memory in item.touched)
    followers = _followers(items)
    waits = [len(item.after) for item in items]
    ready = {number for number, count in enumerate(waits) if not count}
    live: set[int] = set()
    order: list[int] = []

    def cost(number: int) -> tuple[int, int, int]:
        item = items[number]
        begun = sum(sizes[memory] for memory in item.touched - live)
        ended = sum(sizes[memory] for memory in item.touched if left[memory] == 1)
        return begun - ended, begun + item.own, number

    while ready:
        number = min(ready, key=cost)
        ready.remove(number)
        order.append(number)
        left.subtract(items[number].touched)
        live = {memory for memory in live | items[number].touched if left[memory]}
        for follower in followers[number]:
            waits[follower] -= 1
            if not waits[follower]:
                ready.add(follower)
    return order


def _reversed(items: Sequence[Item]) -> list[Item]:
    """``items`` as they stand from the end on: what comes before comes after."""
    followers, last = _followers(items), len(items) - 1
    return [
        Item(items[number].touched, items[number].own, {last - each for each in followers[number]})
        for number in range(last, -1, -1)
    ]


def _followers(items: Sequence[Item]) -> dict[int, list[int]]:
    """By item, those that must come after it."""
    found: dict[int, list[int]] = defaultdict(list)
    for number, item in enumerate(items):
        for earlier in item.after:
            found[earlier].append(number)
    return found


def peak(items: Sequence[Item], sizes: Sizes, order: Sequence[int]) -> int:
    """The most bytes that are live at once."""
    return _Schedule(items, sizes, order).cost[0]


def live_bytes_at(items: Sequence[Item], sizes: Sizes) -> list[int]:
    """The bytes that are live at each of ``items``, as they stand."""
    return _Schedule(items, sizes, list(range(len(items)))).live


class _Schedule:
    """An order, and what is live at each of its places: a memory is from its first to its last user."""

    def __init__(self, items: Sequence[Item], sizes: Sizes, order: Sequence[int]) -> None:
        self.order, self._items, self._sizes = list(order), items, sizes
        self._spans = _spans([items[index].touched for index in self.order])
        change = [0] * (len(self.order) + 1)
        for memory, (first, last) in self._spans.items():
            change[first] += sizes[memory]
            change[last + 1] -= sizes[memory]
        self._shared = list(accumulate(change))[:-1]
        self.live = [n + items[index].own for n, index in zip(self._shared, self.order, strict=True)]
        self._most_until = [0, *accumulate(self.live, max)]
        self._most_from = [*accumulate([0, *reversed(self.live)], max)][::-1]
        self.cost = self._most_until[-1], sum(self.live)
        """The peak, and the sum of what is live over all places."""

    def moved(self, now: int, to: int) -> list[int]:
        """The order in which what stands at place ``now`` stands at ``to``."""
        rest = self.order[:now] + self.order[now + 1 :]
        return [*rest[:to], self.order[now], *rest[to:]]

    def cost_of(self, now: int, to: int) -> tuple[int, int]:
        """The cost of :meth:`moved`: only what lies between the two places changes."""
        low, high = min(now, to), max(now, to)
        window = self.order[low : high + 1]
        window.insert(to - low, window.pop(now - low))
        change = [0] * (len(window) + 1)
        for memory, (first, last) in _spans([self._items[index].touched for index in window]).items():
            size, (begin, end) = self._sizes[memory], self._spans[memory]
            change[max(begin - low, 0)] -= size
            change[min(end, high) - low + 1] += size
            change[0 if begin < low else first] += size
            change[len(window) if end > high else last + 1] -= size
        shared = map(int.__add__, self._shared[low : high + 1], accumulate(change))
        live = [n + self._items[index].own for n, index in zip(shared, window, strict=True)]
        most = max(self._most_until[low], self._most_from[high + 1], *live)
        return most, self.cost[1] + sum(live) - sum(self.live[low : high + 1])


def _spans(touched: Iterable[Iterable[int]]) -> dict[int, tuple[int, int]]:
    """The first and the last place of each memory that is touched."""
    spans: dict[int, tuple[int, int]] = {}
    for place, memories in enumerate(touched):
        for memory in memories:
            spans[memory] = spans.get(memory, (place, place))[0], place
    return spans


def _moves(items: Sequence[Item], schedule: _Schedule) -> Iterator[tuple[int, int]]:
    """Places from and to which steps may move: those before the peak wait for their reader, those behind it
    come as soon as they can; next to the peak first."""
    live, order = schedule.live, schedule.order
    top = live.index(max(live))
    place = {index: position for position, index in enumerate(order)}
    readers = _followers(items)
    for now in range(top, -1, -1):
        to = min((place[r] for r in readers[order[now]]), default=now + 1) - 1
        if to > now:
            yield now, to
    for now in range(top + 1, len(order)):
        to = max((place[e] for e in items[order[now]].after), default=-1) + 1
        if to < now:
            yield now, to
