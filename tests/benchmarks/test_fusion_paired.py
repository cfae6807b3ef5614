"""The paired estimator: confidence intervals on known noise, decisions, and the samples that it drops."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from benchmarks.fusion.paired import HALF_WIDTH, TIE, Blocks, Estimate, estimate, interval


def noisy(log_ratio: float, seed: int, spread: float = 0.01, outliers: float = 0.1) -> Callable[[], float]:
    """Samples around ``log_ratio``; some of them are far off, on both sides."""
    rng = random.Random(seed)

    def sample() -> float:
        far = rng.choice((-0.5, 0.5)) if rng.random() < outliers else 0.0
        return log_ratio + rng.gauss(0.0, spread) + far

    return sample


def test_the_interval_is_of_order_statistics() -> None:
    """The interval of 9 samples is the smallest and the largest: the median is outside in 2 / 2**9 of all
    cases.
    """
    samples = [0.5, 0.1, 0.9, 0.3, 0.7, 0.2, 0.8, 0.4, 0.6]
    assert interval(samples) == (0.1, 0.9)
    assert interval(samples[:5]) == (-math.inf, math.inf)
    assert interval([float(k) for k in range(100)]) == (37.0, 62.0)  # P(B <= 37) = 0.006


@pytest.mark.parametrize("log_ratio", [0.0, 0.02, -0.2])
@pytest.mark.parametrize("spread", [0.005, 0.02])
def test_intervals_hold_the_ratio_though_they_are_looked_at_again(log_ratio: float, spread: float) -> None:
    made = [estimate(noisy(log_ratio, seed, spread)) for seed in range(400)]
    held = sum(each.low <= log_ratio <= each.high for each in made)
    assert held >= 0.95 * len(made)


def test_controls_are_ties_under_heavy_noise() -> None:
    made = [estimate(noisy(0.0, seed, 0.02, outliers=0.3)) for seed in range(300)]
    assert sum(abs(each.median) <= TIE for each in made) >= 0.98 * len(made)
    assert not any(each.verdict in ("faster", "slower") for each in made)


@pytest.mark.parametrize(("log_ratio", "verdict"), [(-0.2, "faster"), (0.2, "slower"), (0.0, "tie")])
def test_the_verdict_follows_from_the_ratio(log_ratio: float, verdict: str) -> None:
    made = estimate(noisy(log_ratio, 1))
    assert made.verdict == verdict
    assert abs(made.median - log_ratio) < HALF_WIDTH


def test_a_comparison_with_too_much_noise_is_undecided() -> None:
    made = estimate(noisy(0.02, 3, spread=1.0))
    assert made.verdict == "undecided"
    assert made.blocks == 140


def test_a_wide_interval_decides_if_it_excludes_ties() -> None:
    assert Estimate(-0.3, -0.9, -0.04, 42).verdict == "faster"
    assert Estimate(0.3, 0.02, 0.9, 42).verdict == "undecided"
    assert Estimate(0.04, 0.028, 0.05, 42).verdict == "slower"


def test_dropped_blocks_are_counted() -> None:
    given = iter([None, 0.0] * 100)
    made = estimate(lambda: next(given))
    assert (made.blocks, made.dropped, made.verdict) == (9, 9, "tie")


def test_sampling_ends_if_all_blocks_are_dropped() -> None:
    assert estimate(lambda: None).verdict == "undecided"


def test_blocks_time_both_sides_equally_often() -> None:
    runs = {"before": 0, "after": 0}

    def side(name: str) -> Callable[[int], None]:
        def run(count: int) -> None:
            runs[name] += count
            sum(range(2000 * count))

        return run

    blocks = Blocks({"before": side("before"), "after": side("after")})
    taken = [blocks() for _ in range(5)]
    assert runs["before"] == runs["after"] > 15
    assert all(each is None or abs(each) < 1 for each in taken)
    assert 0 < blocks.least_ns["before"] < 1e9
