"""Unique."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.interfaces.bounded_form import BoundedForm
from graphwright.ir.op import Array, AtenImporter, Fact, Inference, OnnxImporter, Op, Sample, arg, op
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.symbols import Dim, product, symbol
from graphwright.ir.types import BF16, BOOL, C64, F32, I64, STRING, DType, TensorType
from graphwright.ops.core.binary import And, Max, Or, Sub
from graphwright.ops.core.bind_size import bind_size
from graphwright.ops.core.cast import Cast
from graphwright.ops.core.constant_of_shape import ConstantOfShape
from graphwright.ops.core.cumulative import CumSum
from graphwright.ops.core.equal import Equal
from graphwright.ops.core.gather import Gather
from graphwright.ops.core.non_zero import bounded_non_zero
from graphwright.ops.core.range import Range
from graphwright.ops.core.references import widened
from graphwright.ops.core.reshape import reshaped
from graphwright.ops.core.scatter_elements import ScatterElements
from graphwright.ops.core.top_k import TopK
from graphwright.ops.core.unary import IsNaN, Not

MAX_SORTED = 2**16
"""Inference sorts constants of at most this many elements to compute the size of the result."""


@op("Unique")
class Unique(BoundedForm, Op):
    """The distinct elements of the flattened ``x``, or its distinct slices along ``axis``.

    They are in ascending order if ``sorted``, else in the order of their first occurrence. Outputs 1 to 3,
    i64, as in ONNX: the index in ``x`` of the first occurrence of each; for each element of ``x``, its index
    in output 0; the number of occurrences of each. All NaN are equal.
    """

    axis: int | None = None
    sorted: bool = True
    outputs = 4

    def infer(self, at: Inference, x: Fact) -> tuple[TensorType, ...]:
        if self.axis is not None and x.rank == 0:
            raise at.fail("a scalar has no axis to take slices along")
        axis = None if self.axis is None else at.axis(self.axis, x.rank)
        if x.data is not None and x.data.size <= MAX_SORTED:
            count: Dim = len(self.reference(x.data)[1])
        else:
            count = at.symbols.fresh("unique")
        found = TensorType(I64, (count,))
        if axis is None:
            return TensorType(x.dtype, (count,)), found, TensorType(I64, (product(x.shape),)), found
        shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
        return TensorType(x.dtype, shape), found, TensorType(I64, (x.shape[axis],)), found

    def bounded_form(
        self, b: Builder, gives: Sequence[TensorType], defined: Set[str], *inputs: Value
    ) -> tuple[Value, ...] | None:
        """Sorts the elements; an element that differs from its predecessor is the first of its group. None
        for slices of several elements.
        """
        (x,) = inputs
        shape, dtype = x.type.shape, x.type.dtype
        if shape is None or (self.axis is not None and len(shape) != 1) or not _is_sortable(dtype):
            return None
        length = product(shape)
        if len(shape) != 1:
            x = reshaped(b, x, (length,))
        ordered, order = b(TopK(0, largest=False, k=length), x)
        is_first = _first_of_equals(b, ordered, length)
        found = bounded_non_zero(b, is_first)
        if found is None:
            return None
        padded_indices, count = found
        size = gives[1].dims[0]
        first = b(Gather(0), order, bind_size(b, size, count, (padded_indices, (-1,))))
        group = b(Sub(), b(CumSum(0), b(Cast(I64), is_first)), b.const(1, I64))
        inverse = b(ScatterElements(0), _zeros(b, length), order, group)
        if not self.sorted:
            first, groups = b(TopK(0, largest=False, k=size), first)
            new_positions = b(ScatterElements(0), _zeros(b, size), groups, b(Range((0, size, 1))))
            inverse = b(Gather(0), new_positions, inverse)
        ones = b(ConstantOfShape(1, I64, (length,)))
        counts = b(ScatterElements(0, "add"), _zeros(b, size), inverse, ones)
        return b(Gather(0), x, first), first, inverse, counts

    def reference(self, x: Array) -> tuple[Array, Array, Array, Array]:
        flat, axis = (x.reshape(-1), 0) if self.axis is None else (x, self.axis)
        ranks = np.moveaxis(_ranks(flat), axis, 0)
        rows = ranks.reshape(len(ranks), int(np.prod(ranks.shape[1:])))
        _, first, inverse, counts = np.unique(
            rows, return_index=True, return_inverse=True, return_counts=True, axis=0
        )
        inverse = inverse.reshape(-1)
        if not self.sorted:
            order = np.argsort(first)
            first, counts, inverse = first[order], counts[order], np.argsort(order)[inverse]
        y = np.take(flat, first, axis)
        return y, first.astype(np.int64), inverse.astype(np.int64), counts.astype(np.int64)


def _is_sortable(dtype: DType) -> bool:
    """Whether a kernel can sort elements of ``dtype``."""
    if dtype.is_float:
        return dtype.bits >= 16
    return dtype.kind == "bool" or (dtype.is_integer and dtype.bits >= 8)


def _first_of_equals(b: Builder, ordered: Value, length: Dim) -> Value:
    """For each of the sorted elements: whether it differs from its predecessor, or has none."""
    positions = b(Range((0, length, 1)))
    previous = b(Gather(0), ordered, b(Max(), b(Sub(), positions, b.const(1, I64)), b.const(0, I64)))
    same = b(Equal(), ordered, previous)
    if ordered.type.dtype.is_float:
        same = b(Or(), same, b(And(), b(IsNaN(), ordered), b(IsNaN(), previous)))
    is_first: Value = b(Or(), b(Equal(), positions, b.const(0, I64)), b(Not(), same))
    return is_first


def _zeros(b: Builder, length: Dim) -> Value:
    zeros: Value = b(ConstantOfShape(0, I64, (length,)))
    return zeros


def _ranks(x: Array) -> Array:
    """The rank of each element among the distinct elements in ascending order."""
    return np.unique(widened(x).reshape(-1), return_inverse=True)[1].reshape(x.shape)


def _import(i: OnnxImporter) -> Any:
    axis = i.attr("axis")
    results = i.emit(Unique(None if axis is None else int(axis), bool(i.attr("sorted", 1))), i.input(0))
    return results[: i.output_count]


def _aten(i: AtenImporter) -> Any:
    """PyTorch sorts the distinct slices on CPUs in any case."""
    i.ignore("sorted", "return_inverse", "return_counts")
    values, _, inverse, counts = i.emit(Unique(i.attr("dim")), i.input(0))
    return values, inverse, counts


Unique.aten = {"unique_dim": _aten}
Unique.onnx = {("Unique", 11): _import}
Unique.to_onnx = as_onnx("Unique", axis="axis", sorted="sorted")
Unique.samples = (
    *(
        Sample(Unique(axis, ordered), (arg(F32, 4, symbol("N"), fill="index"),))
        for axis in (None, 0, -1)
        for ordered in (True, False)
    ),
    *(Sample(Unique(), (arg(t, 7, fill="index"),)) for t in (BF16, BOOL, C64, I64)),
    Sample(Unique(0, sorted=False), (arg(STRING, 6),)),
    Sample(Unique(), (arg(F32, 4, values=(float("nan"), -0.0, 0.0, float("nan"))),)),
    Sample(Unique(), (arg(F32),)),
    Sample(Unique(), (arg(F32, 0, 3),)),
    Sample(Unique(0), (arg(F32, 3, 0),)),
    Sample(Unique(1), (arg(F32, 3),), "axis 1 is out of range"),
    Sample(Unique(0), (arg(F32),), "a scalar has no axis"),
)
