"""A fixed part of the campaign of ``tests.fuzz.autofusion``."""

from __future__ import annotations

from tests.fuzz.autofusion import RIGHT, WRONG, run


def test_fused_graphs_compute_what_their_sources_do() -> None:
    counts = run(range(300_000, 300_040))
    assert counts[WRONG] == 0 and counts[RIGHT] >= 20, counts
