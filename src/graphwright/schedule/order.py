"""The order of steps: as the graph has it, but for moves that lower the most memory that is live at once.

Steps run one at a time, so their order costs no time; near to the graph's it also keeps what was just written
in the caches. Moves are local: a step that makes what is read late waits for its reader, a step that ends
what others hold comes as soon as it can.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from graphwright.records import dataclass, field

Sizes = Mapping[int, int]
"""Bytes by memory."""

MOVES = 200
"""Moves that are tried, at most."""
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
    bound = max((item.own + sum(sizes[m] for m in item.touched) for item in items), default=0)
    order, best = own_order, _cost(items, sizes, own_order)
    first_peak, tried = best[0], 0
    moved = True
    while moved and best[0] > bound:
        moved = False
        for trial in _moves(items, sizes, order):
            tried += 1
            cost = _cost(items, sizes, trial)
            if cost < best:
                order, best, moved = trial, cost, True
                break
            if tried >= MOVES:
                break
        moved = moved and tried < MOVES
    return order if best[0] < first_peak - first_peak // GAIN else own_order


def peak(items: Sequence[Item], sizes: Sizes, order: Sequence[int]) -> int:
    """The most bytes that are live at once."""
    return _cost(items, sizes, order)[0]


def _cost(items: Sequence[Item], sizes: Sizes, order: Sequence[int]) -> tuple[int, int]:
    """The peak, and the sum of what is live over all steps."""
    live = _live(items, sizes, order)
    return max(live, default=0), sum(live)


def _live(items: Sequence[Item], sizes: Sizes, order: Sequence[int]) -> list[int]:
    """Bytes live at each place of ``order``: a memory is from its first to its last user."""
    change = [0] * (len(order) + 1)
    for memory, (first, last) in _spans(items, order).items():
        change[first] += sizes[memory]
        change[last + 1] -= sizes[memory]
    live, total = [], 0
    for place, index in enumerate(order):
        total += change[place]
        live.append(total + items[index].own)
    return live


def _spans(items: Sequence[Item], order: Sequence[int]) -> dict[int, tuple[int, int]]:
    spans: dict[int, tuple[int, int]] = {}
    for place, index in enumerate(order):
        for memory in items[index].touched:
            spans[memory] = spans.get(memory, (place, place))[0], place
    return spans


def _moves(items: Sequence[Item], sizes: Sizes, order: list[int]) -> Iterable[list[int]]:
    """Orders in which a step before the peak waits for its reader, or one behind it comes as soon as it can;
    those next to the peak first."""
    live = _live(items, sizes, order)
    top = live.index(max(live))
    place = {index: position for position, index in enumerate(order)}
    readers: dict[int, list[int]] = defaultdict(list)
    for index, item in enumerate(items):
        for earlier in item.after:
            readers[earlier].append(index)
    for now in range(top, -1, -1):
        to = min((place[r] for r in readers[order[now]]), default=now + 1) - 1
        if to > now:
            yield [*order[:now], *order[now + 1 : to + 1], order[now], *order[to + 1 :]]
    for now in range(top + 1, len(order)):
        to = max((place[e] for e in items[order[now]].after), default=-1) + 1
        if to < now:
            yield [*order[:to], order[now], *order[to:now], *order[now + 1 :]]
