"""Layered drawings: no boxes overlap, edges go down, and small graphs look as one would draw them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphwright.view.layers import BENDS, GAP, Drawing, Edge, Size, crossings, draw, feedback, ordered

SIZE = Size(80, 38)


def check(drawing: Drawing, sizes: Sequence[Size], edges: Sequence[Edge]) -> None:
    """Boxes of a row keep their distance, rows follow each other, and edges that are drawn go down."""
    rows: dict[int, list[tuple[float, float]]] = {}
    for box, size in zip(drawing.boxes, sizes, strict=True):
        rows.setdefault(box.row, []).append((box.x - size.width / 2, box.x + size.width / 2))
        assert drawing.rows[box.row][1] >= size.height
        assert box.x - size.width / 2 >= -0.5 and box.x + size.width / 2 <= drawing.width + 1
    assert sorted(rows) == list(range(len(drawing.rows)))
    for spans in rows.values():
        spans.sort()
        for (_, right), (left, _) in pairwise(spans):
            assert left - right >= GAP - 1  # places are whole numbers
    for (top, height), (below, _) in pairwise(drawing.rows):
        assert top + height < below
    assert [(route.tail, route.head) for route in drawing.routes] == list(edges)
    for route in drawing.routes:
        if route.drawn:
            passed = drawing.boxes[route.head].row - drawing.boxes[route.tail].row - 1
            assert passed >= 0 and len(route.bends) == passed


def random_graph(seed: int, count: int, density: float, circles: bool) -> tuple[list[Size], list[Edge]]:
    """Boxes of several widths, and at most ``density`` times ``count`` edges."""
    chance = random.Random(seed)
    sizes = [Size(chance.randint(12, 210), chance.choice((12, 38))) for _ in range(count)]
    pairs = {(chance.randrange(count), chance.randrange(count)) for _ in range(round(density * count))}
    return sizes, sorted((a, b) for a, b in pairs if a < b or (circles and a != b))


SEEDS, COUNTS, DENSITIES = st.integers(0, 2**32), st.integers(1, 30), st.sampled_from((0.5, 1.0, 1.5, 4.0))


@settings(deadline=None)
@given(SEEDS, COUNTS, DENSITIES)
def test_producers_of_acyclic_graphs_are_above_their_readers(seed: int, count: int, density: float) -> None:
    sizes, edges = random_graph(seed, count, density, circles=False)
    made = draw(sizes, edges)
    check(made, sizes, edges)
    assert made == draw(sizes, edges)
    assert all(made.boxes[tail].row < made.boxes[head].row for tail, head in edges)


@settings(deadline=None)
@given(SEEDS, COUNTS, DENSITIES)
def test_cycles_have_edges_that_go_up(seed: int, count: int, density: float) -> None:
    sizes, edges = random_graph(seed, count, density, circles=True)
    made = draw(sizes, edges)
    check(made, sizes, edges)
    rows = [box.row for box in made.boxes]
    upward = {k for k, (tail, head) in enumerate(edges) if rows[tail] >= rows[head]}
    assert upward <= feedback(count, edges)
    assert not any(made.routes[k].drawn for k in upward)


def test_nothing_and_one_box() -> None:
    assert draw([], []) == Drawing((), (), (), 0, 0)
    made = draw([SIZE], [])
    assert (made.width, made.height, made.boxes[0].x) == (80, 38, 40)


def test_a_chain_is_straight_and_a_diamond_symmetric() -> None:
    chain = draw([SIZE] * 5, [(k, k + 1) for k in range(4)])
    assert {box.x for box in chain.boxes} == {40} and [box.row for box in chain.boxes] == list(range(5))
    diamond = draw([SIZE] * 4, [(0, 1), (0, 2), (1, 3), (2, 3)])
    top, left, right, bottom = (box.x for box in diamond.boxes)
    assert top == bottom == (left + right) / 2 and right - left == 80 + GAP


def test_a_long_edge_avoids_the_boxes_between() -> None:
    made = draw([SIZE] * 4, [(0, 1), (1, 2), (2, 3), (0, 3)])
    (_, _, _, long) = made.routes
    for k, x in enumerate(long.bends):
        assert abs(x - made.boxes[1 + k].x) >= 40 + GAP - 1


def test_ports_are_alone_in_the_first_and_last_row() -> None:
    """No node inside reads item 2, but it is still above the row of output ports."""
    edges = [(0, 1), (1, 3), (4, 2)]
    made = draw([SIZE] * 5, edges, (0, 4), (3,))
    assert [box.row for box in made.boxes] == [0, 1, 1, 2, 0]


def test_a_node_without_operands_is_drawn_above_its_first_reader() -> None:
    made = draw([SIZE] * 5, [(0, 1), (1, 2), (2, 3), (4, 3)])
    assert made.boxes[4].row == made.boxes[3].row - 1


def crossing_pairs(order: Sequence[Sequence[int]], links: Sequence[Edge]) -> int:
    """The crossings by definition: pairs of links whose ends are in different orders."""
    place = {item: (row, k) for row, items in enumerate(order) for k, item in enumerate(items)}
    ends = [(place[tail][0], place[tail][1], place[head][1]) for tail, head in links]
    return sum(
        row == other and (a - c) * (b - d) < 0
        for n, (row, a, b) in enumerate(ends)
        for other, c, d in ends[:n]
    )


@settings(deadline=None)
@given(st.integers(0, 10_000))
def test_sweeps_find_orders_with_few_crossings(seed: int) -> None:
    chance = random.Random(seed)
    rows = [row for row in range(3) for _ in range(5)]
    links = [(a, b) for a in range(15) for b in range(15) if rows[b] == rows[a] + 1 and chance.random() < 0.3]
    below = [[head for tail, head in links if tail == item] for item in range(15)]
    order = ordered(rows, links)
    assert sorted(map(len, order)) == [5, 5, 5]
    assert crossings(order, below) == crossing_pairs(order, links)
    shuffled = [chance.sample(row, len(row)) for row in order]
    assert crossings(shuffled, below) == crossing_pairs(shuffled, links)


def test_ten_parallel_links_do_not_cross() -> None:
    links = [(k, 10 + (k * 7) % 10) for k in range(10)]
    order = ordered([0] * 10 + [1] * 10, links)
    assert crossing_pairs(order, links) == 0


@pytest.mark.parametrize("kind", ["chain", "wide", "random", "long edges"])
def test_ten_thousand_boxes_take_a_bounded_number_of_bends(kind: str) -> None:
    count = 10_000
    chance = random.Random(1)
    edges = {
        "chain": [(k, k + 1) for k in range(count - 1)],
        "wide": [(0, k) for k in range(1, count)],
        "random": sorted({tuple(sorted(chance.sample(range(count), 2))) for _ in range(3 * count // 2)}),
        "long edges": [
            *((k, k + 1) for k in range(count - 1)),
            *((k, count - 1) for k in range(0, count - 2, 7)),
        ],
    }[kind]
    pairs = [(a, b) for a, b in edges]
    made = draw([SIZE] * count, pairs)
    check(made, [SIZE] * count, pairs)
    assert sum(len(route.bends) for route in made.routes) <= BENDS * count + 64
