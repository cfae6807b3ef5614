"""Compress."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.interfaces.bounded_form import BoundedForm
from graphwright.ir.op import Array, Fact, Importer, Inference, Op, Sample, arg, op
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.symbols import Dim, product, symbol
from graphwright.ir.types import BF16, BOOL, F32, I64, STRING, TensorType
from graphwright.ops.core.bind_size import bind_size
from graphwright.ops.core.checks import need_dtype, rank_of
from graphwright.ops.core.gather import Gather
from graphwright.ops.core.non_zero import bounded_non_zero
from graphwright.ops.core.reshape import reshaped
from graphwright.ops.core.size_inference import known_ints


@op("Compress")
class Compress(BoundedForm, Op):
    """The slices along ``axis`` for which the condition is true; without ``axis``, the elements of the
    flattened input.

    The condition is a bool vector. It may be shorter than the axis; the remaining slices are dropped.
    """

    axis: int | None = None

    def infer(self, at: Inference, x: Fact, condition: Fact) -> TensorType:
        need_dtype(at, condition, frozenset({BOOL}), "the condition")
        if x.rank == 0 or condition.rank != 1:
            raise at.fail(
                f"the input is {x.type} and the condition {condition.type}: the input must have an axis,"
                " and the condition must be a vector"
            )
        dim = product(x.shape) if self.axis is None else x.shape[at.axis(self.axis, x.rank)]
        (length,) = condition.shape
        at.at_most(length, dim, "elements of the condition and of the axis")
        count = _count(condition)
        kept: Dim = at.symbols.fresh("compress") if count is None else count
        if self.axis is None:
            return TensorType(x.dtype, (kept,))
        axis = self.axis % x.rank
        return TensorType(x.dtype, (*x.shape[:axis], kept, *x.shape[axis + 1 :]))

    def reference(self, x: Array, condition: Array) -> Array:
        return np.asarray(np.compress(condition, x, self.axis))

    def decompose(self, b: Builder, x: Value, condition: Value) -> Value | None:
        """If the condition is constant: Gather with constant indices."""
        fact = b.fact(condition)
        if fact is None or fact.data is None:
            return None
        return self._gathered(b, x, b.const(np.flatnonzero(fact.data).astype(np.int64)))

    def bounded_form(
        self, b: Builder, gives: Sequence[TensorType], defined: Set[str], *inputs: Value
    ) -> Value | None:
        """Finds the indices where the condition is true, and gathers the slices there."""
        x, condition = inputs
        found = bounded_non_zero(b, condition)
        if found is None or x.type.shape is None or not x.type.dtype.bits:
            return None
        padded_indices, count = found
        size = gives[0].dims[0 if self.axis is None else self.axis]
        return self._gathered(b, x, bind_size(b, size, count, (padded_indices, (-1,))))

    def _gathered(self, b: Builder, x: Value, indices: Value) -> Value:
        if self.axis is None and rank_of(x) > 1:
            x = reshaped(b, x, (product(x.type.dims),))
        slices: Value = b(Gather(0 if self.axis is None else self.axis), x, indices)
        return slices


def _count(condition: Fact) -> int | None:
    """The number of true elements, if it is known."""
    if condition.data is not None:
        return int(np.count_nonzero(condition.data))
    known = known_ints(condition)
    return None if known is None else sum(known)


def _import(i: Importer) -> Any:
    axis = i.attr("axis")
    return i.emit(Compress(None if axis is None else int(axis)), i.input(0), i.input(1))


Compress.onnx = {("Compress", 9): _import}
Compress.to_onnx = as_onnx("Compress", axis="axis")
_MASK = arg(BOOL, 3, values=(True, False, True))
Compress.samples = (
    *(Sample(Compress(axis), (arg(F32, 3, 4), _MASK)) for axis in (None, 0, 1, -1)),
    Sample(Compress(1), (arg(F32, 3, symbol("N")), arg(BOOL, symbol("N")))),
    Sample(Compress(), (arg(I64, symbol("N")), arg(BOOL, 2))),
    Sample(Compress(0), (arg(BF16, 3, 0), arg(BOOL, 3))),
    Sample(Compress(), (arg(STRING, 2, 3), _MASK)),
    Sample(Compress(), (arg(F32, 4), arg(BOOL, 0))),
    Sample(
        Compress(0), (arg(F32, 2, 4), _MASK), "elements of the condition and of the axis: 3 is more than 2"
    ),
    Sample(Compress(2), (arg(F32, 2, 4), _MASK), "axis 2 is out of range"),
    Sample(Compress(), (arg(F32), _MASK), "condition must be a vector"),
    Sample(Compress(0), (arg(F32, 4), arg(I64, 3)), "the condition is i64"),
)
