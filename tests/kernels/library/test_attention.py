"""Attention against NumPy in f64: layouts, masks, grouped heads, blocks of keys, NaN, and any chunking."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphwright.kernels.attention.attention import Guard
from graphwright.targets.cpu.isa import Isa
from tests.kernels.library.attention_calls import ORDERS, Array, attend
from tests.kernels.library.cases import each_isa


def check(found: Array, wanted: Array) -> None:
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=5e-6)


@each_isa
@given(
    batch=st.integers(0, 2),
    heads=st.sampled_from([(1, 1), (3, 3), (4, 2), (6, 1)]),
    queries=st.sampled_from([0, 1, 2, 13, 50]),
    keys=st.sampled_from([0, 1, 7, 33, 300]),
    depth=st.sampled_from([0, 1, 15, 64]),
    width=st.sampled_from([0, 1, 16, 37]),
    order=st.sampled_from(sorted(ORDERS)),
    side=st.sampled_from(["start", "end"]),
    causal=st.booleans(),
)
@settings(deadline=None, max_examples=60)
def test_any_sizes_match_float64(
    isa: Isa, batch: int, heads: tuple[int, int], queries: int, keys: int, depth: int, width: int, order: str,
    side: str, causal: bool,
) -> None:  # fmt: skip
    sizes = (batch, *heads, queries, keys, depth, width)
    offset = max(keys - queries, 0)
    check(*attend(isa, sizes, order=order, side=side, causal=causal, offset=offset))


@each_isa
@pytest.mark.parametrize(
    "shape", [(2, 1, 1, 70), (1, 4, 33, 70), (1, 1, 33, 1), (2, 4, 1, 1), (2, 4, 33, 70)]
)
@pytest.mark.parametrize("softcap", [0.0, 2.5])
def test_masks_broadcast(isa: Isa, shape: tuple[int, int, int, int], softcap: float) -> None:
    mask = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    mask[mask > 1] = -np.inf if shape[-1] > 1 else -1
    check(*attend(isa, (2, 4, 2, 33, 70, 20, 24), mask=mask, softcap=softcap, order="heads inside"))


@each_isa
@pytest.mark.parametrize("shape", [(1, 1, 33, 70), (2, 4, 1, 70), (2, 1, 33, 1)])
def test_masks_replace_scores(isa: Isa, shape: tuple[int, int, int, int]) -> None:
    """NaN and infinity in masked keys, as in uninitialized memory, do not change the result."""
    rng = np.random.default_rng(2)
    mask = np.where(rng.random(shape) < 0.5, 0, np.float32(-1e4)).astype(np.float32)
    mask[..., :3] = -np.inf if shape[-1] > 1 else 0
    q, k, v = (rng.standard_normal((2, 4, n, 20)).astype(np.float32) for n in (33, 70, 70))
    if shape[-1] > 1:
        k[:, :, 0], k[:, :, 1], k[:, :, 2] = np.nan, np.inf, 3e38
    check(*attend(isa, (2, 4, 4, 33, 70, 20, 20), mask=mask, operands=(q, k, v), fill=True))


@each_isa
def test_more_features_than_a_block(isa: Isa) -> None:
    check(*attend(isa, (1, 2, 1, 9, 40, 300, 530)))
    check(*attend(isa, (1, 1, 1, 1, 20, 257, 257)))


@each_isa
def test_largest_scores_in_any_block_of_keys(isa: Isa) -> None:
    """Sums are rescaled when the maximum grows, whether the largest score is in the first, a middle or the
    last block.
    """
    mask = np.zeros((1, 3, 1, 700), np.float32)
    for head, place in enumerate((3, 400, 699)):
        mask[0, head, 0, place] = 60
    check(*attend(isa, (1, 3, 3, 14, 700, 16, 16), mask=mask))


@each_isa
@given(
    keys=st.sampled_from([1, 31, 64, 300, 701]),
    seen=st.lists(st.integers(0, 701), min_size=14, max_size=14),
    per_head=st.booleans(),
    causal=st.booleans(),
)
@settings(deadline=None, max_examples=40)
def test_keys_that_a_mask_hides_at_the_end_are_not_read(
    isa: Isa, keys: int, seen: list[int], per_head: bool, causal: bool
) -> None:
    sizes, limits = (1, 2, 1, 7, keys, 8, 8), np.minimum(seen, keys).reshape(2, 7)
    limits = limits if per_head else limits[:1]
    mask = np.where(np.arange(keys) < limits[None, ..., None], np.float32(0.5), np.float32(-np.inf))
    options: dict[str, Any] = {"mask": mask, "causal": causal, "offset": keys - 7, "guard": Guard.EMPTY}
    rng = np.random.default_rng(4)
    q, k, v = (
        rng.standard_normal((1, h, n, 8)).astype(np.float32) for h, n in ((2, 7), (1, keys), (1, keys))
    )
    found, wanted = attend(isa, sizes, operands=(q, k, v), **options)
    check(found, wanted)
    if limits.min() == 0:  # a row that sees nothing is 0 times each value
        return
    for x in (k, v):
        x[..., int(limits.max()) + 64 :, :] = np.nan
    poisoned, _ = attend(isa, sizes, operands=(q, k, v), **options)
    np.testing.assert_array_equal(poisoned.view(np.int32), found.view(np.int32))


@each_isa
@pytest.mark.parametrize("guard", list(Guard))
def test_rows_that_see_nothing(isa: Isa, guard: Guard) -> None:
    mask = np.zeros((1, 1, 5, 300), np.float32)
    mask[..., 1, :] = -np.inf
    mask[..., 2, 1:] = -np.inf
    mask[..., 3, :299] = -np.inf
    found, wanted = attend(isa, (1, 2, 2, 5, 300, 8, 8), mask=mask, guard=guard)
    assert bool(np.isnan(found[:, :, 1]).all()) == (guard is Guard.NONE)
    check(found, wanted)


@each_isa
@pytest.mark.parametrize("guard", list(Guard))
def test_finite_masks_that_hide_all_give_means(isa: Isa, guard: Guard) -> None:
    mask = np.full((1, 1, 1, 40), np.finfo(np.float32).min)
    found, wanted = attend(isa, (1, 1, 1, 3, 40, 8, 8), mask=mask, guard=guard)
    check(found, wanted)
    assert np.ptp(found, axis=2).max() == 0


@each_isa
@pytest.mark.parametrize("guard", list(Guard))
@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("operand", [0, 1, 2])
def test_nan_and_infinity_give_what_numpy_gives(isa: Isa, guard: Guard, special: float, operand: int) -> None:
    rng = np.random.default_rng(3)
    q, k, v = (np.abs(rng.standard_normal((1, 1, 20, 8))).astype(np.float32) for _ in range(3))
    (q, k, v)[operand][0, 0, 17, 3] = special
    found, wanted = attend(isa, (1, 1, 1, 20, 20, 8, 8), operands=(q, k, v), guard=guard)
    check(found, wanted)


@each_isa
def test_causal_rows_without_keys(isa: Isa) -> None:
    found, wanted = attend(isa, (1, 1, 1, 5, 3, 8, 8), causal=True, offset=-2, guard=Guard.EMPTY)
    check(found, wanted)
    assert not found[0, 0, :2].any()
