"""NonMaxSuppression."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

import numpy as np

from graphwright.ir.bounded_form import BoundedForm
from graphwright.ir.build import Builder
from graphwright.ir.exporter import as_onnx
from graphwright.ir.graph import Value
from graphwright.ir.op import Array, Fact, Importer, Inference, Op, Sample, arg, op
from graphwright.ir.symbols import Dim, minimum, product, symbol
from graphwright.ir.types import F32, I64, TensorType
from graphwright.ops.control.bind_size import bind_size
from graphwright.ops.core.common import need_dtype, need_scalar, quiet
from graphwright.ops.core.shaping import number

BLOCK = 256
"""Boxes that are compared with each other at a time."""
MOST_NUMBERED = 2**31
"""More boxes of a class than this are taken to be all of them."""


@op("NonMaxSuppression")
class NonMaxSuppression(BoundedForm, Op):
    """Rows (batch, class, box) of the boxes that no better one of the same class hides; best ones first.

    boxes[B, S, 4] are two opposite corners (y, x, y, x), or with ``centered`` centre and size
    (x, y, width, height); scores[B, K, S]. A box hides another if the area of their intersection over that of
    their union is above the threshold, operand 3 (0 if absent). Operand 2 is how many boxes a class may have
    (0 if absent), operand 4 the score that a box must exceed.
    """

    centered: bool = False
    optional_inputs = frozenset({2, 3, 4})

    def infer(
        self,
        at: Inference,
        boxes: Fact,
        scores: Fact,
        most: Fact | None = None,
        overlap: Fact | None = None,
        least: Fact | None = None,
    ) -> TensorType:
        need_dtype(at, boxes, {F32}, "the box tensor")
        need_dtype(at, scores, {F32}, "the score tensor")
        for fact, dtype, what in (
            (most, I64, "the number of boxes"),
            (overlap, F32, "the overlap threshold"),
            (least, F32, "the score threshold"),
        ):
            if fact is not None:
                need_dtype(at, fact, {dtype}, what)
                need_scalar(at, fact, what)
        if boxes.rank != 3 or scores.rank != 3:
            raise at.fail(f"boxes of {boxes.type} and scores of {scores.type}: both must have 3 axes")
        at.equal(boxes.shape[2], 4, "numbers of a box")
        at.equal(boxes.shape[0], scores.shape[0], "the batch")
        at.equal(boxes.shape[1], scores.shape[2], "boxes and scores")
        return TensorType(I64, (at.symbols.fresh("selected"), 3))

    @quiet
    def reference(
        self,
        boxes: Array,
        scores: Array,
        most: Array | None = None,
        overlap: Array | None = None,
        least: Array | None = None,
    ) -> Array:
        limit = 0 if most is None else int(most.reshape(()))
        threshold = np.float32(0) if overlap is None else overlap.reshape(())
        rows = [
            (batch, label, box)
            for batch, of_batch in enumerate(scores)
            for label, ranks in enumerate(of_batch)
            for box in _chosen(self._corners(boxes[batch]), ranks, limit, threshold, least)
        ]
        return np.array(rows, np.int64).reshape(-1, 3)

    def bounded_form(
        self, b: Builder, gives: Sequence[TensorType], made: Set[str], *inputs: Value | None
    ) -> Any:
        boxes, _scores, *scalars = inputs
        if boxes is None or boxes.type.rank != 3:
            return None
        limit, most = boxes.type.dims[1], b.fact(scalars[0] if scalars else None)
        known = 0 if most is None else None if most.data is None else int(most.data.reshape(()))
        if known is not None and known < MOST_NUMBERED:
            limit = minimum(limit, max(known, 0))
        rows, count = b(BoundedNonMaxSuppression(limit, self.centered), *inputs)
        return bind_size(b, gives[0].dims[0], count, (rows, (-1, 3)))

    def _corners(self, boxes: Array) -> Array:
        """The lower and the upper corner of each box: [2, S, 2]."""
        if self.centered:
            half = boxes[:, 2:] / boxes.dtype.type(2)
            return np.stack([boxes[:, :2] - half, boxes[:, :2] + half])
        return np.stack([np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])])


@op("BoundedNonMaxSuppression")
class BoundedNonMaxSuppression(Op):
    """NonMaxSuppression of at most ``limit`` boxes of a class, which are not more than there are.

    Gives as many rows as that can be, of which the first are filled, and how many these are.
    """

    limit: Dim
    centered: bool = False
    outputs = 2
    optional_inputs = frozenset({2, 3, 4})

    def infer(
        self, at: Inference, boxes: Fact, scores: Fact, *scalars: Fact | None
    ) -> tuple[TensorType, TensorType]:
        NonMaxSuppression().infer(at, boxes, scores, *scalars)
        at.at_least(self.limit, 0, "the limit")
        at.at_least(boxes.shape[1] - self.limit, 0, f"{boxes.shape[1]} boxes less a limit of {self.limit}")
        return TensorType(I64, (product(scores.shape[:2]) * self.limit, 3)), TensorType(I64, ())

    def reference(
        self, boxes: Array, scores: Array, most: Array | None = None, *thresholds: Array | None
    ) -> tuple[Array, Array]:
        limit = number(self.limit)
        fewest = None if most is None else np.minimum(most, limit)
        rows = NonMaxSuppression(self.centered).reference(boxes, scores, fewest, *thresholds)
        room = np.zeros((scores.shape[0] * scores.shape[1] * limit, 3), np.int64)
        room[: len(rows)] = rows
        return room, np.array(len(rows))


def _chosen(corners: Array, ranks: Array, limit: int, threshold: Any, least: Array | None) -> list[int]:
    """The boxes of one class that stay, best first; of equal scores the first.

    Block by block of the best that are left: what those that stay hide goes, then each that none before hides
    stays.
    """
    left = np.argsort(-ranks, kind="stable")
    if least is not None:
        left = left[ranks[left] > least.reshape(())]
    areas = np.prod(corners[1] - corners[0], axis=1)
    chosen: list[int] = []
    for start in range(0, len(left), BLOCK):
        if len(chosen) >= limit:
            break
        block = left[start : start + BLOCK]
        block = block[~_hidden(corners, areas, np.array(chosen, np.intp), block, threshold).any(axis=0)]
        chosen += block[
            _first(_hidden(corners, areas, block, block, threshold), limit - len(chosen))
        ].tolist()
    return chosen


def _hidden(corners: Array, areas: Array, by: Array, boxes: Array, threshold: Any) -> Array:
    """Whether each box of ``by`` (rows) hides each of ``boxes`` (columns): they share more than they may."""
    (lower_by, upper_by), (lower, upper) = corners[:, by, None], corners[:, boxes]
    sides = [
        np.minimum(upper_by[..., k], upper[:, k]) - np.maximum(lower_by[..., k], lower[:, k]) for k in (0, 1)
    ]
    common = np.maximum(sides[0], 0) * np.maximum(sides[1], 0)
    areas_by, areas = areas[by, None], areas[boxes]
    found: Array = common / (areas_by + areas - common) > threshold
    found &= (areas_by > 0) & (areas > 0) & (common > 0)
    return found


def _first(hides: Array, limit: int) -> list[int]:
    """Up to ``limit`` boxes in order of which none hides a later one; rows of bits are whole numbers."""
    rows = [int.from_bytes(row.tobytes(), "little") for row in np.packbits(hides, axis=1, bitorder="little")]
    kept: list[int] = []
    gone = 0
    for box, row in enumerate(rows):
        if len(kept) == limit:
            break
        if not gone >> box & 1:
            kept.append(box)
            gone |= row
    return kept


def _import(i: Importer) -> Any:
    operands = [i.input(0), i.input(1), *(i.optional(k) for k in range(2, 5))]
    while operands[-1] is None:
        operands.pop()
    return i.emit(NonMaxSuppression(bool(i.attr("center_point_box", 0))), *operands)


NonMaxSuppression.onnx = {("NonMaxSuppression", 10): _import, ("NonMaxSuppression", 11): _import}
NonMaxSuppression.to_onnx = as_onnx("NonMaxSuppression", center_point_box="centered")
_BOXES, _SCORES = arg(F32, 2, 6, 4), arg(F32, 2, 3, 6)
_MOST, _OVERLAP, _LEAST = arg(I64, 1, values=(3,)), arg(F32, 1, values=(0.2,)), arg(F32, values=(-0.5,))
NonMaxSuppression.samples = (
    Sample(NonMaxSuppression(), (_BOXES, _SCORES, _MOST, _OVERLAP, _LEAST)),
    Sample(NonMaxSuppression(True), (arg(F32, 2, 6, 4, fill="positive"), _SCORES, _MOST, _OVERLAP)),
    Sample(NonMaxSuppression(), (_BOXES, _SCORES, _MOST, None, _LEAST)),
    Sample(NonMaxSuppression(), (_BOXES, _SCORES)),
    Sample(NonMaxSuppression(), (arg(F32, 1, symbol("S"), 4), arg(F32, 1, 2, symbol("S")), _MOST)),
    Sample(NonMaxSuppression(), (arg(F32, 1, 0, 4), arg(F32, 1, 2, 0), _MOST)),
    Sample(NonMaxSuppression(), (_BOXES, arg(F32, 2, 3, 5)), "boxes and scores: 6 and 5 differ"),
    Sample(NonMaxSuppression(), (_BOXES, arg(F32, 1, 3, 6)), "the batch: 2 and 1 differ"),
    Sample(NonMaxSuppression(), (arg(F32, 2, 6, 5), _SCORES), "numbers of a box: 5 and 4 differ"),
    Sample(NonMaxSuppression(), (arg(F32, 6, 4), _SCORES), "both must have 3 axes"),
    Sample(NonMaxSuppression(), (_BOXES, _SCORES, arg(I64, 2)), "must be a scalar"),
    Sample(NonMaxSuppression(), (_BOXES, _SCORES, arg(F32, 1)), "the number of boxes is f32"),
)
_APART = arg(F32, 1, 2, 4, values=(0, 0, 1, 1, 2, 2, 3, 3))
BoundedNonMaxSuppression.samples = (
    Sample(BoundedNonMaxSuppression(2), (_APART, arg(F32, 1, 3, 2), arg(I64, values=(2,)))),
    Sample(BoundedNonMaxSuppression(1), (_BOXES, _SCORES, _MOST)),
    Sample(BoundedNonMaxSuppression(3, True), (_BOXES, _SCORES, _MOST, arg(F32, values=(1.0,)))),
    Sample(BoundedNonMaxSuppression(7), (_BOXES, _SCORES), "less a limit of 7"),
    Sample(BoundedNonMaxSuppression(-1), (_BOXES, _SCORES), "the limit"),
)
