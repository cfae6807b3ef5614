"""Suppression of boxes bit for bit as NumPy does it, in guarded memory, under any chunking."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from graphwright.kernels.search import non_max_suppression
from graphwright.kernels.search.non_max_suppression import TOO_MANY_BOXES, Choose, Join
from graphwright.targets.cpu.isa import Isa
from tests.kernels.library.cases import AnyArray, chunkings, each_isa, guard
from tests.kernels.library.harness import call, load


def chosen(
    boxes: AnyArray, scores: AnyArray, limit: int, overlap: float, least: float | None, centered: bool
) -> list[int]:
    """One class by its definition: box after box, best first, each compared with all that were kept."""
    with np.errstate(all="ignore"):
        if centered:
            low, high = boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2
        else:
            low, high = np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])
        areas = (high - low)[:, 0] * (high - low)[:, 1]
        kept: list[int] = []
        for box in sorted(range(len(scores)), key=lambda k: (np.isnan(scores[k]), -scores[k])):
            if len(kept) >= limit:
                break
            if least is not None and not scores[box] > np.float32(least):
                continue
            sides = np.minimum(high[kept], high[box]) - np.maximum(low[kept], low[box])
            common = np.maximum(sides[:, 0], 0) * np.maximum(sides[:, 1], 0)
            ratio = common / (areas[kept] + areas[box] - common)
            hidden = (ratio > np.float32(overlap)) & (areas[kept] > 0) & (areas[box] > 0) & (common > 0)
            if not hidden.any():
                kept.append(box)
    return kept


def check(
    isa: Isa, boxes: AnyArray, scores: AnyArray, most: int | None, room: int, overlap: float | None,
    least: float | None, centered: bool,
) -> int:  # fmt: skip
    """Compare rows for any chunking; how many there were."""
    batches, classes, count = scores.shape
    limit = min(room, 0 if most is None else most)
    rows = [
        (b, k, box)
        for b in range(batches)
        for k in range(classes)
        for box in chosen(boxes[b], scores[b, k], limit, overlap or 0.0, least, centered)
    ]
    units = batches * classes
    choose, join = Choose(centered, batches, classes, count, room), Join(units, room)
    library = load(non_max_suppression, isa)
    scalars = [
        None if value is None else guard(np.array(value, dtype))
        for value, dtype in ((most, np.int64), (overlap, np.float32), (least, np.float32))
    ]
    for at_end in (True, False):
        inputs = [guard(boxes, at_end=at_end), guard(scores, at_end=at_end), *scalars]
        for chunks in chunkings(units):
            made = guard(np.full((units * room, 3), -7, np.int64), at_end=at_end)
            filled, total = guard(np.full(units, -7, np.int64)), guard(np.zeros((), np.int64))
            operands = [*inputs, made, filled]
            costs = choose.args, choose.grid, choose.scratch_bytes(isa)
            assert call(library.gw_nms_choose, operands, *costs, chunks=chunks) == 0
            assert call(library.gw_nms_join, [filled, made, total], join.args, 1, 0) == 0
            assert total == len(rows)
            np.testing.assert_array_equal(made[: len(rows)], np.array(rows, np.int64).reshape(-1, 3))
    return len(rows)


@each_isa
@given(
    shape=st.tuples(st.integers(0, 2), st.integers(0, 3), st.sampled_from([0, 1, 7, 15, 16, 17, 33, 70])),
    most=st.sampled_from([None, -1, 0, 1, 5, 10**12]),
    overlap=st.sampled_from([None, 0.0, 0.3, 0.5, 1.0, np.nan]),
    least=st.sampled_from([None, -np.inf, 0.0, 0.5, np.inf, np.nan]),
    centered=st.booleans(),
    seed=st.integers(0, 99),
)
@settings(deadline=None, max_examples=80)
def test_rows_are_those_of_the_definition(
    isa: Isa, shape: tuple[int, int, int], most: int | None, overlap: float | None, least: float | None,
    centered: bool, seed: int,
) -> None:  # fmt: skip
    """Coordinates and scores have few distinct values, so boxes touch and tie; some are NaN, infinite, -0 or
    tiny.
    """
    rng = np.random.default_rng(seed)
    batches, _, count = shape
    specials = np.array([np.nan, np.inf, -np.inf, -0.0, 1e-40, -1e30], np.float32)
    share = rng.choice([0.0, 0.05])
    boxes = rng.choice([rng.integers(-3, 6, (batches, count, 4)), rng.random((batches, count, 4))])
    boxes = np.where(rng.random(boxes.shape) < share, rng.choice(specials, boxes.shape), boxes)
    scores = np.round(rng.standard_normal(shape), rng.integers(0, 5))
    scores = np.where(rng.random(shape) < share, rng.choice(specials, shape), scores)
    room = min(count, max(most or 0, 0)) if rng.random() < 0.5 else count
    check(isa, boxes.astype(np.float32), scores.astype(np.float32), most, room, overlap, least, centered)


@each_isa
def test_many_boxes_are_sorted_as_few_are(isa: Isa) -> None:
    """There are more boxes than are sorted at once: the first batch is enough or not enough; some scores are
    equal.
    """
    rng = np.random.default_rng(0)
    count = 3000
    corner = rng.random((1, count, 2), np.float32)
    boxes = np.concatenate([corner, corner + rng.random((1, count, 2), np.float32) / 4], 2)
    scores = rng.random((1, 4, count), np.float32)
    scores[0, 1] = np.round(scores[0, 1], 1)
    scores[0, 2] = 0.5
    scores[0, 3] = 10 ** -(20 * scores[0, 3])
    assert check(isa, boxes, scores, 20, 20, 0.5, None, centered=False) == 80
    assert check(isa, boxes, scores, 400, 400, 0.3, 0.01, centered=False) > 400


@each_isa
def test_more_boxes_than_32_bits_can_number_are_rejected(isa: Isa) -> None:
    made = Choose(centered=False, batches=1, classes=1, count=2**32, limit=0)
    operands = [np.zeros(1), np.zeros(1), None, None, None, np.zeros(1), np.zeros(1)]
    kernel = load(non_max_suppression, isa).gw_nms_choose
    assert call(kernel, operands, made.args, 1, 64, bare=False) == TOO_MANY_BOXES
