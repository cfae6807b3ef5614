"""TopK."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Node, Value
from graphwright.ir.interfaces.bounded_form import BoundedForm
from graphwright.ir.interfaces.padding import Padded, PaddingRule
from graphwright.ir.op import Array, AtenImporter, Fact, Importer, Inference, Op, Sample, arg, op
from graphwright.ir.op.exporter import Exporter
from graphwright.ir.symbols import Dim, symbol
from graphwright.ir.types import F32, I32, I64, TensorType
from graphwright.ops.core.bind_size import bind_symbol
from graphwright.ops.core.checks import rank_of
from graphwright.ops.core.references import widened
from graphwright.ops.core.size_inference import known_dims, number


@op("TopK")
class TopK(BoundedForm, PaddingRule, Op):
    """The ``k`` (operand 1 if None) largest or smallest elements along ``axis``, and their indices (i64).

    Of equal elements, the one with the lower index comes first. NaN is larger than all numbers. Without
    ``ordered``, results may be in any order.
    """

    axis: int = -1
    largest: bool = True
    ordered: bool = True
    k: Dim | None = None
    outputs = 2

    def fold_operands(self, x: Fact, k: Fact | None = None) -> tuple[Op, tuple[int, ...]] | None:
        known = known_dims(k)
        if self.k is not None or known is None or len(known) != 1:
            return None
        return TopK(self.axis, self.largest, self.ordered, known[0]), (0,)

    def infer(self, at: Inference, x: Fact, k: Fact | None = None) -> tuple[TensorType, TensorType]:
        if x.rank == 0:
            raise at.fail("a scalar has no axis to sort along")
        axis = at.axis(self.axis, x.rank)
        kept = at.symbols.fresh("top") if self.k is None else self.k
        if self.k is not None:
            at.at_least(self.k, 0, "k")
            at.at_most(self.k, x.shape[axis], "k and the number of elements")
        shape = (*x.shape[:axis], kept, *x.shape[axis + 1 :])
        return TensorType(x.dtype, shape), TensorType(I64, shape)

    def bounded_form(
        self, b: Builder, gives: Sequence[TensorType], defined: Set[str], *inputs: Value
    ) -> tuple[Value, ...] | None:
        """Binds the size of the results to operand 1."""
        if len(inputs) != 2 or gives[0].shape is None:
            return None
        size = gives[0].dims[self.axis]
        if str(size) not in defined:
            return None
        bind_symbol(b, size, inputs[1])
        values, indices = b(TopK(self.axis, self.largest, self.ordered, size), inputs[0])
        return values, indices

    def padding_leak(self, node: Node, padded: Padded) -> str:
        count = node.inputs[1] if len(node.inputs) > 1 else None
        if padded.among(node.operand(0), [self.axis]) or padded.axes(count):
            return "it sorts along a padded axis"
        return "k depends on a padded size" if padded.decides(self) else ""

    def reference(self, x: Array) -> tuple[Array, Array]:
        keys = widened(x)  # NumPy's sort does not order NaN of bf16
        # reversed twice: a stable sort in descending order keeps the order of equal elements
        if self.largest:
            order = np.flip(
                x.shape[self.axis] - 1 - np.argsort(np.flip(keys, self.axis), self.axis, kind="stable"),
                self.axis,
            )
        else:
            order = np.argsort(keys, self.axis, kind="stable")
        index = np.take(order, range(number(self.k)), self.axis).astype(np.int64)
        return np.take_along_axis(x, index, self.axis), index


def _import(i: Importer) -> object:
    op = TopK(i.attr("axis", -1), bool(i.attr("largest", 1)), bool(i.attr("sorted", 1)))
    return i.emit(op, i.input(0), i.input(1))


def _from_attribute(i: Importer) -> object:
    return i.emit(TopK(i.attr("axis", -1), k=i.required_attr("k")), i.input(0))


def _export(e: Exporter, op: TopK, x: Value, *k: Value) -> Any:
    given: Any = k if op.k is None else (e.sizes((op.k,)),)
    return e.emit("TopK", x, *given, outputs=2, axis=op.axis, largest=op.largest, sorted=op.ordered)


TopK.to_onnx = _export
TopK.onnx = {("TopK", 1): _from_attribute, ("TopK", 10): _import}
TopK.samples = (
    Sample(TopK(k=3), (arg(F32, symbol("N"), 5),)),
    Sample(TopK(0, largest=False, k=2), (arg(F32, 4, 3),)),
    Sample(TopK(k=4), (arg(I32, 6, values=(1, 3, 3, 0, 3, 1)),)),
    Sample(TopK(0, k=0), (arg(F32, 4),)),
    Sample(TopK(), (arg(F32, 2, 5), arg(I64, 1, values=(2,)))),
    Sample(TopK(k=6), (arg(F32, 2, 5),), "k and the number of elements: 6 is more than 5"),
    Sample(TopK(2, k=1), (arg(F32, 2, 5),), "axis 2 is out of range"),
    Sample(TopK(0, k=1), (arg(F32),), "a scalar has no axis"),
)


def _aten_topk(i: AtenImporter) -> Any:
    x, axis, k = i.input(0), i.attr("dim"), i.attr("k")
    op = TopK(axis, i.attr("largest"), i.attr("sorted"), k)
    if rank_of(x):
        return i.emit(op, x)
    if k != 1:
        raise i.fail(f"k is {k}, but a scalar has one element")
    return _scalar_and_index(i, x)


def _scalar_and_index(i: AtenImporter, x: Value) -> tuple[Value, Value]:
    """A scalar and its index, 0: PyTorch sorts scalars as vectors of one element."""
    return x, i.const(np.zeros((), np.int64))


def _aten_sort(i: AtenImporter) -> Any:
    """``stable`` has no effect: TopK is stable."""
    i.ignore("stable")
    x, axis, descending = i.input(0), i.attr("dim"), bool(i.attr("descending"))
    if not rank_of(x):
        return _scalar_and_index(i, x)
    return i.emit(TopK(axis, descending, ordered=True, k=x.type.dims[axis]), x)


TopK.aten = {"topk": _aten_topk, "sort": _aten_sort, "sort.stable": _aten_sort}
