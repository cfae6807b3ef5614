"""Minimum cuts against trying every labeling."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphwright.layout.min_cut import INFINITE, SINK, SOURCE, Network

INNER = ("a", "b", "c", "d")
VERTICES = (SOURCE, *INNER, SINK)
Edges = dict[tuple[str, str], int]


def cost(edges: Edges, side: set[str]) -> int:
    return sum(capacity for (a, b), capacity in edges.items() if a in side and b not in side)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.tuples(st.sampled_from(VERTICES), st.sampled_from(VERTICES)), st.integers(0, 9)))
def test_no_other_labeling_is_cheaper(edges: Edges) -> None:
    network = Network()
    for (a, b), capacity in edges.items():
        network.edge(a, b, capacity)
    side = {str(vertex) for vertex in network.source_side()}
    cheapest = min(
        cost(edges, {SOURCE, *chosen})
        for count in range(len(INNER) + 1)
        for chosen in itertools.combinations(INNER, count)
    )
    assert SINK not in side
    assert cost(edges, side) == cheapest


def test_edges_of_infinite_cost_are_not_cut() -> None:
    network = Network()
    network.edge(SOURCE, "a", 5)
    network.edge("a", "b", INFINITE)
    network.edge("b", SINK, 3)
    assert network.source_side() == {SOURCE, "a", "b"}


def test_an_infinite_path_has_no_cut() -> None:
    network = Network()
    network.edge(SOURCE, "a", INFINITE)
    network.edge("a", SINK, INFINITE)
    with pytest.raises(ValueError, match="the network has no finite cut"):
        network.source_side()
