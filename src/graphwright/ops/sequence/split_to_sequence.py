"""SplitToSequence."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op import Array, Fact, Importer, Inference, Op, Sample, arg, op
from graphwright.ir.op.exporter import Exporter
from graphwright.ir.symbols import Dim, symbol
from graphwright.ir.types import F32, I32, I64, STRING, TensorType
from graphwright.ops.core.checks import need_dtype
from graphwright.ops.core.size_inference import known_ints
from graphwright.ops.sequence.containers import Types, sequence_fact

MAX_TRACKED = 1024
"""The largest number of pieces whose types inference tracks."""


@op("SplitToSequence")
class SplitToSequence(Op):
    """Splits a tensor along ``axis`` into a sequence.

    The optional operand 1 is a vector of sizes, or a scalar: the size of all pieces, of which the last may be
    smaller. Without it, pieces have size 1, and with ``drop`` they do not have this axis (ONNX: ``keepdims``
    0).
    """

    axis: int = 0
    drop: bool = False

    def infer(self, at: Inference, x: Fact, split: Fact | None = None) -> Fact:
        if split is not None:
            need_dtype(at, split, {I32, I64}, "the split")
            if split.type.rank not in (None, 0, 1):
                raise at.fail(f"the split is {split.type}; it must be a scalar or a vector")
        if x.type.shape is None:
            return sequence_fact(x.dtype, None)
        if x.rank == 0:
            raise at.fail("a scalar cannot be split")
        return sequence_fact(x.dtype, self.pieces(at, x, split))

    def pieces(self, at: Inference, x: Fact, split: Fact | None) -> Types:
        """The types of the pieces; None if their number or a size is unknown."""
        axis = at.axis(self.axis, x.rank)
        sizes = self._sizes(at, x.shape[axis], split)
        if sizes is None:
            return None
        before, after = x.shape[:axis], x.shape[axis + 1 :]
        if self.drop and split is None:
            return (TensorType(x.dtype, (*before, *after)),) * len(sizes)
        return tuple(TensorType(x.dtype, (*before, size, *after)) for size in sizes)

    def _sizes(self, at: Inference, dim: Dim, split: Fact | None) -> tuple[int, ...] | None:
        known = (1,) if split is None else known_ints(split)
        if known is None:
            return None
        is_vector = split is not None and split.type.rank == 1
        if any(size < (0 if is_vector else 1) for size in known):
            raise at.fail(f"the split is {list(known)}; sizes must be positive")
        if is_vector:
            at.equal(dim, sum(known), "the sum of the split")
            return known
        if not isinstance(dim, int) or dim > MAX_TRACKED * known[0]:
            return None
        return _equal_sizes(dim, known[0])

    def reference(self, x: Array, split: Array | None = None) -> list[Any]:
        size = x.shape[self.axis]
        if split is not None and split.ndim:
            if np.any(split < 0) or split.sum() != size:
                raise ValueError(f"the split {split.tolist()} does not add up to the axis of {size} elements")
            sizes = tuple(int(part) for part in split)
        else:
            piece_size = 1 if split is None else int(split)
            if piece_size < 1:
                raise ValueError(f"the split is {piece_size}; it must be positive")
            sizes = _equal_sizes(size, piece_size)
        pieces = np.split(x, list(accumulate(sizes))[:-1], self.axis) if sizes else []
        return [np.squeeze(p, self.axis) for p in pieces] if self.drop and split is None else pieces


def _equal_sizes(dim: int, size: int) -> tuple[int, ...]:
    """The sizes of pieces of ``size``; the last one is the remainder, if there is one."""
    return (size,) * (dim // size) + ((dim % size,) if dim % size else ())


def _import(i: Importer) -> Any:
    op = SplitToSequence(int(i.attr("axis", 0)), not i.attr("keepdims", 1))
    split = i.optional(1)
    return i.emit(op, i.input(0), *([] if split is None else [split]))


def _export(e: Exporter, op: SplitToSequence, x: Value, *sizes: Value) -> Any:
    return e.emit("SplitToSequence", x, *sizes, axis=op.axis, keepdims=not op.drop)


SplitToSequence.to_onnx = _export
SplitToSequence.onnx = {("SplitToSequence", 11): _import, ("SplitToSequence", 24): _import}
_X, _N = arg(F32, 4, 6), symbol("N")
SplitToSequence.samples = (
    *(Sample(SplitToSequence(axis, drop), (_X,)) for axis in (0, 1, -1) for drop in (False, True)),
    *(Sample(SplitToSequence(1), (_X, arg(I64, values=(size,)))) for size in (1, 2, 4, 6, 7)),
    Sample(SplitToSequence(1), (_X, arg(I32, 3, values=(1, 3, 2)))),
    Sample(SplitToSequence(0, drop=True), (_X, arg(I64, 2, values=(4, 0)))),
    Sample(SplitToSequence(1), (arg(STRING, 2, 3),)),
    Sample(SplitToSequence(), (arg(F32, _N, 2),)),
    Sample(SplitToSequence(), (arg(F32, 0, 2),)),
    Sample(SplitToSequence(), (_X, arg(I64, values=(0,))), "sizes must be positive"),
    Sample(SplitToSequence(), (_X, arg(I64, 2, values=(1, 2))), "the sum of the split: 4 and 3 differ"),
    Sample(SplitToSequence(2), (_X,), "axis 2 is out of range"),
    Sample(SplitToSequence(), (arg(F32),), "a scalar cannot be split"),
    Sample(SplitToSequence(), (_X, arg(F32)), "the split is f32"),
)
