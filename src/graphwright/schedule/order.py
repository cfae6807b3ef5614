"""Orders steps to lower the peak of live memory, by local moves from the order of the graph.

Steps run one at a time, so their order has no direct cost. An order close to that of the graph also keeps
recent results in the caches. Two kinds of moves are tried. A step whose result is read late moves back to its
reader. A step that ends lifetimes moves forward as far as its dependencies allow.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate

from graphwright.records import dataclass, field

Sizes = Mapping[int, int]
"""The size in bytes of each memory block."""

MOVES = 200
"""The most moves that are tried."""
MOST_MOVES = 5000
"""The most moves that are tried when memory is to be minimal."""
GAIN = 64
"""A new order is used only if it lowers the peak by more than one part in ``GAIN``."""


@dataclass
class Item:
    """One step: the memory blocks that it accesses, the bytes of its own scratch, and the items that must
    precede it.
    """

    touched: frozenset[int]
    own: int = 0
    after: set[int] = field(default_factory=set)


def order_for_memory(items: Sequence[Item], sizes: Sizes) -> list[int]:
    """An order of ``items`` with a lower peak, or their own order, which must be valid.

    Deterministic hill climbing on the peak, then on the sum of live bytes over time.
    """
    own_order = list(range(len(items)))
    before = _Schedule(items, sizes, own_order).cost[0]
    best = _climbed(items, sizes, own_order, MOVES)
    return best.order if best.cost[0] < before - before // GAIN else own_order


def least_memory_order(items: Sequence[Item], sizes: Sizes) -> list[int]:
    """As :func:`order_for_memory`, for any gain: the best result of hill climbing from the order of ``items``
    and from two greedy orders.
    """
    last = len(items) - 1
    backward = [last - number for number in reversed(_greedy(_reversed(items), sizes))]
    starts = [list(range(len(items))), _greedy(items, sizes), backward]
    orders = [_climbed(items, sizes, start, MOST_MOVES).order for start in starts]
    return min((starts[0], *orders), key=lambda order: peak(items, sizes, order))


def _climbed(items: Sequence[Item], sizes: Sizes, start: Sequence[int], most: int) -> _Schedule:
    """The result of hill climbing from the order ``start`` with at most ``most`` moves tried."""
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
    """List scheduling: among the ready items, takes the one after which the fewest bytes are live, then the
    one that needs the fewest bytes itself.
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
    """``items`` in reverse order, with reversed dependencies."""
    followers, last = _followers(items), len(items) - 1
    return [
        Item(items[number].touched, items[number].own, {last - each for each in followers[number]})
        for number in range(last, -1, -1)
    ]


def _followers(items: Sequence[Item]) -> dict[int, list[int]]:
    """For each item, the items that must come after it."""
    found: dict[int, list[int]] = defaultdict(list)
    for number, item in enumerate(items):
        for earlier in item.after:
            found[earlier].append(number)
    return found


def peak(items: Sequence[Item], sizes: Sizes, order: Sequence[int]) -> int:
    """The most bytes that are live at once."""
    return _Schedule(items, sizes, order).cost[0]


def live_bytes_at(items: Sequence[Item], sizes: Sizes) -> list[int]:
    """The bytes that are live at each of ``items``, in their own order."""
    return _Schedule(items, sizes, list(range(len(items)))).live


class _Schedule:
    """An order, and the live bytes at each position: a memory block is live from its first to its
    last user.
    """

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
        """The peak, and the sum of live bytes over all positions."""

    def moved(self, now: int, to: int) -> list[int]:
        """The order with the item at position ``now`` moved to position ``to``."""
        rest = self.order[:now] + self.order[now + 1 :]
        return [*rest[:to], self.order[now], *rest[to:]]

    def cost_of(self, now: int, to: int) -> tuple[int, int]:
        """The cost of :meth:`moved`, computed only from the positions between ``now`` and ``to``."""
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
    """The first and last position at which each memory block is accessed."""
    spans: dict[int, tuple[int, int]] = {}
    for position, memories in enumerate(touched):
        for memory in memories:
            spans[memory] = spans.get(memory, (position, position))[0], position
    return spans


def _moves(items: Sequence[Item], schedule: _Schedule) -> Iterator[tuple[int, int]]:
    """Candidate moves as (from, to), those next to the peak first. An item before the peak moves back to its
    first reader, an item after it moves forward to its last dependency.
    """
    live, order = schedule.live, schedule.order
    top = live.index(max(live))
    position_of = {index: position for position, index in enumerate(order)}
    readers = _followers(items)
    for now in range(top, -1, -1):
        to = min((position_of[r] for r in readers[order[now]]), default=now + 1) - 1
        if to > now:
            yield now, to
    for now in range(top + 1, len(order)):
        to = max((position_of[e] for e in items[order[now]].after), default=-1) + 1
        if to < now:
            yield now, to
