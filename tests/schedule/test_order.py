"""The order of steps: it respects dependencies and lowers the peak, by an independent count of live bytes."""

from __future__ import annotations

from itertools import permutations
from random import Random

import numpy as np

import graphwright as gw
from graphwright.config import Options
from graphwright.memory.checker.check import check_plan
from graphwright.ops.core.matmul import MatMul
from graphwright.runtime.devices.cpu import Cpu
from graphwright.schedule.order import Item, least_memory_order, live_bytes_at, order_for_memory


def peak_of(items: list[Item], sizes: dict[int, int], order: list[int]) -> int:
    """The peak of live bytes, summed up memory block by memory block."""
    worst = 0
    for now, index in enumerate(order):
        live = items[index].own
        for memory, size in sizes.items():
            used = [place for place, i in enumerate(order) if memory in items[i].touched]
            live += size if used and used[0] <= now <= used[-1] else 0
        worst = max(worst, live)
    return worst


def is_allowed(items: list[Item], order: list[int]) -> bool:
    place = {index: position for position, index in enumerate(order)}
    return sorted(order) == list(range(len(items))) and all(
        place[earlier] < place[index] for index, item in enumerate(items) for earlier in item.after
    )


def random_items(random: Random, count: int) -> tuple[list[Item], dict[int, int]]:
    """Each item makes a memory and reads some of earlier ones."""
    items = []
    for index in range(count):
        read = {random.randrange(index) for _ in range(random.randrange(3))} if index else set()
        items.append(Item(frozenset({index, *read}), random.choice((0, 0, 100)), set(read)))
    return items, {index: random.choice((1, 10, 1000)) for index in range(count)}


def test_any_order_is_allowed_and_no_worse() -> None:
    for seed in range(100):
        items, sizes = random_items(Random(seed), 1 + seed % 25)
        order, own = order_for_memory(items, sizes), list(range(len(items)))
        assert is_allowed(items, order), seed
        assert order == own or peak_of(items, sizes, order) < peak_of(items, sizes, own), seed
        assert order == order_for_memory(items, sizes)


def test_the_least_memory_is_allowed_and_no_more_than_that_of_a_short_search() -> None:
    for seed in range(60):
        items, sizes = random_items(Random(seed), 1 + seed % 25)
        order = least_memory_order(items, sizes)
        assert is_allowed(items, order), seed
        short = order_for_memory(items, sizes)
        assert peak_of(items, sizes, order) <= peak_of(items, sizes, short), seed
        assert order == least_memory_order(items, sizes)
        moved = [Item(items[k].touched, items[k].own) for k in order]
        assert max(live_bytes_at(moved, sizes)) == peak_of(items, sizes, order)


def test_most_small_graphs_get_the_least_memory() -> None:
    exact = near = 0
    for seed in range(40):
        items, sizes = random_items(Random(seed), 6)
        orders = (list(order) for order in permutations(range(6)))
        least = min(peak_of(items, sizes, order) for order in orders if is_allowed(items, order))
        exact += peak_of(items, sizes, least_memory_order(items, sizes)) == least
        near += peak_of(items, sizes, order_for_memory(items, sizes)) <= least + least // 32
    assert exact >= 38 and near >= 34


def test_the_order_stays_if_no_other_needs_less_memory() -> None:
    chain = [Item(frozenset({k, k + 1}), after={k - 1} if k else set()) for k in range(9)]
    assert order_for_memory(chain, dict.fromkeys(range(10), 8)) == list(range(9))
    assert order_for_memory([], {}) == []


def test_values_that_are_read_late_are_computed_late() -> None:
    """A chain reads eight products of one input one by one: three of them at a time are enough."""
    builder = gw.GraphBuilder()
    random = np.random.default_rng(0)
    x = builder.input("x", "f32", (64, 64))
    weights = [random.standard_normal((64, 64), np.float32) / 8 for _ in range(8)]
    factors = [builder(MatMul(), x, builder.constant(w)) for w in weights]
    total = factors[0]
    for factor in factors[1:]:
        total = builder(MatMul(), total, factor)
    builder.output("y", total)
    model = builder.compile(Options(verify=True, threads=1))
    assert isinstance(model.executor, Cpu)
    program = model.executor.task_graph
    plan = model.executor.plan([(64, 64)], 1)
    assert check_plan(program, plan, 1) == []
    scratch = max(plan["sizes"][task.scratch] for task in program.tasks if task.scratch >= 0)
    assert plan["arena"] <= scratch + 3 * 64 * 64 * 4
    feed = random.standard_normal((64, 64), np.float32) / 8
    expected = np.linalg.multi_dot([feed.astype(np.float64) @ w.astype(np.float64) for w in weights])
    np.testing.assert_allclose(model(feed)[0], expected, rtol=1e-4, atol=1e-5)
