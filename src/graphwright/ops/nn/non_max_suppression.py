"""NonMaxSuppression."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.interfaces.bounded_form import BoundedForm
from graphwright.ir.op import Array, Fact, Importer, Inference, Op, Sample, arg, op
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.symbols import Dim, minimum, product, symbol
from graphwright.ir.types import F32, I64, TensorType
from graphwright.ops.core.bind_size import bind_size
from graphwright.ops.core.checks import need_dtype, need_scalar
from graphwright.ops.core.imports import without_trailing_none
from graphwright.ops.core.references import quiet
from graphwright.ops.core.size_inference import number

BLOCK = 256
"""The number of boxes whose intersections are computed at a time."""
MAX_LIMIT = 2**31
"""A larger maximum number of boxes per class means no maximum."""


@op("NonMaxSuppression")
class NonMaxSuppression(BoundedForm, Op):
    """Greedy non-maximum suppression: the selected boxes as rows (batch, class, box), i64[selected, 3].

    Operands are boxes[B, S, 4] and scores[B, K, S]. A box is two opposite corners (y, x, y, x), with
    ``centered`` its center and size (x, y, width, height). In the order of their scores, boxes of a class are
    selected unless a box that was selected before overlaps: the intersection over union is larger than the
    threshold. The optional operands 2 to 4 are the maximum number of boxes per class (0 if absent), the
    overlap threshold (0 if absent), and a score that boxes must exceed. The number of rows is data-dependent.
    """

    centered: bool = False
    optional_inputs = frozenset({2, 3, 4})

    def infer(
        self,
        at: Inference,
        boxes: Fact,
        scores: Fact,
        max_boxes: Fact | None = None,
        overlap: Fact | None = None,
        min_score: Fact | None = None,
    ) -> TensorType:
        need_dtype(at, boxes, {F32}, "the box tensor")
        need_dtype(at, scores, {F32}, "the score tensor")
        for fact, dtype, what in (
            (max_boxes, I64, "the number of boxes"),
            (overlap, F32, "the overlap threshold"),
            (min_score, F32, "the score threshold"),
        ):
            if fact is not None:
                need_dtype(at, fact, {dtype}, what)
            if fact is not None and fact.type.shape is not None:
                need_scalar(at, fact, what)
        selected = TensorType(I64, (at.symbols.fresh("selected"), 3))
        if boxes.type.shape is None or scores.type.shape is None:
            return selected
        if boxes.rank != 3 or scores.rank != 3:
            raise at.fail(f"boxes of {boxes.type} and scores of {scores.type}: both must have 3 axes")
        at.equal(boxes.shape[2], 4, "elements of a box")
        at.equal(boxes.shape[0], scores.shape[0], "the batch")
        at.equal(boxes.shape[1], scores.shape[2], "boxes and scores")
        return selected

    @quiet
    def reference(
        self,
        boxes: Array,
        scores: Array,
        max_boxes: Array | None = None,
        overlap: Array | None = None,
        min_score: Array | None = None,
    ) -> Array:
        limit = 0 if max_boxes is None else int(max_boxes.reshape(()))
        threshold = np.float32(0) if overlap is None else overlap.reshape(())
        rows = [
            (batch, label, box)
            for batch, class_scores in enumerate(scores)
            for label, box_scores in enumerate(class_scores)
            for box in _select(self._corners(boxes[batch]), box_scores, limit, threshold, min_score)
        ]
        return np.array(rows, np.int64).reshape(-1, 3)

    def bounded_form(
        self, b: Builder, gives: Sequence[TensorType], defined: Set[str], *inputs: Value | None
    ) -> Any:
        boxes, _scores, *scalars = inputs
        if boxes is None or boxes.type.rank != 3:
            return None
        limit, max_boxes = boxes.type.dims[1], b.fact(scalars[0] if scalars else None)
        known = (
            0 if max_boxes is None else None if max_boxes.data is None else int(max_boxes.data.reshape(()))
        )
        if known is not None and known < MAX_LIMIT:
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
    """NonMaxSuppression into a buffer of static size. ``limit`` is the largest number of boxes of a class, at
    most S.

    Results: i64[B * K * limit, 3], whose first rows are the selected boxes, and the number of these rows.
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
        at.at_most(self.limit, boxes.shape[1], "the limit and the number of boxes")
        return TensorType(I64, (product(scores.shape[:2]) * self.limit, 3)), TensorType(I64, ())

    def reference(
        self, boxes: Array, scores: Array, max_boxes: Array | None = None, *thresholds: Array | None
    ) -> tuple[Array, Array]:
        limit = number(self.limit)
        bounded = None if max_boxes is None else np.minimum(max_boxes, limit)
        rows = NonMaxSuppression(self.centered).reference(boxes, scores, bounded, *thresholds)
        buffer = np.zeros((scores.shape[0] * scores.shape[1] * limit, 3), np.int64)
        buffer[: len(rows)] = rows
        return buffer, np.array(len(rows))


def _select(corners: Array, scores: Array, limit: int, threshold: Any, min_score: Array | None) -> list[int]:
    """The selected boxes of one class, in descending order of their scores; of equal scores, the first box
    first.

    Boxes are processed in blocks. Boxes that overlap a selected box of an earlier block are removed first;
    then the boxes of the block are compared with each other.
    """
    candidates = np.argsort(-scores, kind="stable")
    if min_score is not None:
        candidates = candidates[scores[candidates] > min_score.reshape(())]
    areas = np.prod(corners[1] - corners[0], axis=1)
    selected: list[int] = []
    for start in range(0, len(candidates), BLOCK):
        if len(selected) >= limit:
            break
        block = candidates[start : start + BLOCK]
        block = block[~_overlaps(corners, areas, np.array(selected, np.intp), block, threshold).any(axis=0)]
        kept = _select_in_block(_overlaps(corners, areas, block, block, threshold), limit - len(selected))
        selected += block[kept].tolist()
    return selected


def _overlaps(corners: Array, areas: Array, by: Array, boxes: Array, threshold: Any) -> Array:
    """Whether the intersection over union of each box of ``by`` (rows) and each of ``boxes`` (columns) is
    larger than the threshold.
    """
    (lower_by, upper_by), (lower, upper) = corners[:, by, None], corners[:, boxes]
    sides = [
        np.minimum(upper_by[..., k], upper[:, k]) - np.maximum(lower_by[..., k], lower[:, k]) for k in (0, 1)
    ]
    common = np.maximum(sides[0], 0) * np.maximum(sides[1], 0)
    areas_by, areas = areas[by, None], areas[boxes]
    overlaps: Array = common / (areas_by + areas - common) > threshold
    overlaps &= (areas_by > 0) & (areas > 0) & (common > 0)
    return overlaps


def _select_in_block(overlaps: Array, limit: int) -> list[int]:
    """Up to ``limit`` boxes in order, without those that overlap an earlier one. A row of ``overlaps`` is
    handled as an integer, a bit per box.
    """
    packed = np.packbits(overlaps, axis=1, bitorder="little")
    rows = [int.from_bytes(row.tobytes(), "little") for row in packed]
    kept: list[int] = []
    suppressed = 0
    for box, row in enumerate(rows):
        if len(kept) == limit:
            break
        if not suppressed >> box & 1:
            kept.append(box)
            suppressed |= row
    return kept


def _import(i: Importer) -> Any:
    operands = without_trailing_none([i.input(0), i.input(1), *(i.optional(k) for k in range(2, 5))])
    return i.emit(NonMaxSuppression(bool(i.attr("center_point_box", 0))), *operands)


NonMaxSuppression.onnx = {("NonMaxSuppression", 10): _import, ("NonMaxSuppression", 11): _import}
NonMaxSuppression.to_onnx = as_onnx("NonMaxSuppression", center_point_box="centered")
_BOXES, _SCORES = arg(F32, 2, 6, 4), arg(F32, 2, 3, 6)
_MOST, _OVERLAP, _LEAST = arg(I64, 1, values=(3,)), arg(F32, 1, values=(0.2,)), arg(F32, values=(-0.5,))
NonMaxSuppression.samples = (
    Sample(NonMaxSuppression(), (_BOXES, _SCORES, _MOST, _OVERLAP, _LEAST)),
    Sample(NonMaxSuppression(centered=True), (arg(F32, 2, 6, 4, fill="positive"), _SCORES, _MOST, _OVERLAP)),
    Sample(NonMaxSuppression(), (_BOXES, _SCORES, _MOST, None, _LEAST)),
    Sample(NonMaxSuppression(), (_BOXES, _SCORES)),
    Sample(NonMaxSuppression(), (arg(F32, 1, symbol("S"), 4), arg(F32, 1, 2, symbol("S")), _MOST)),
    Sample(NonMaxSuppression(), (arg(F32, 1, 0, 4), arg(F32, 1, 2, 0), _MOST)),
    Sample(NonMaxSuppression(), (_BOXES, arg(F32, 2, 3, 5)), "boxes and scores: 6 and 5 differ"),
    Sample(NonMaxSuppression(), (_BOXES, arg(F32, 1, 3, 6)), "the batch: 2 and 1 differ"),
    Sample(NonMaxSuppression(), (arg(F32, 2, 6, 5), _SCORES), "elements of a box: 5 and 4 differ"),
    Sample(NonMaxSuppression(), (arg(F32, 6, 4), _SCORES), "both must have 3 axes"),
    Sample(NonMaxSuppression(), (_BOXES, _SCORES, arg(I64, 2)), "must be a scalar"),
    Sample(NonMaxSuppression(), (_BOXES, _SCORES, arg(F32, 1)), "the number of boxes is f32"),
)
_APART = arg(F32, 1, 2, 4, values=(0, 0, 1, 1, 2, 2, 3, 3))
BoundedNonMaxSuppression.samples = (
    Sample(BoundedNonMaxSuppression(2), (_APART, arg(F32, 1, 3, 2), arg(I64, values=(2,)))),
    Sample(BoundedNonMaxSuppression(1), (_BOXES, _SCORES, _MOST)),
    Sample(BoundedNonMaxSuppression(3, centered=True), (_BOXES, _SCORES, _MOST, arg(F32, values=(1.0,)))),
    Sample(
        BoundedNonMaxSuppression(7), (_BOXES, _SCORES), "the limit and the number of boxes: 7 is more than 6"
    ),
    Sample(BoundedNonMaxSuppression(-1), (_BOXES, _SCORES), "the limit"),
)
