"""A few random graphs under random partitions; ``make fuzz`` tries ten thousand partitions."""

from __future__ import annotations

from pathlib import Path

import pytest

from .partitions import tried


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kernels")


FOUND = (8,)  # a result that a kernel was to hand on from its operands, behind conversions that cancelled
"""Seeds that failed once."""


@pytest.mark.parametrize("seed", [*FOUND, *range(3000, 3009)])
def test_any_legal_partition_gives_the_same(seed: int, cache: Path) -> None:
    assert tried(seed, 4, cache).faults == ()


def test_several_partitions_are_tried(cache: Path) -> None:
    assert tried(FOUND[0], 4, cache).partitions > 1
