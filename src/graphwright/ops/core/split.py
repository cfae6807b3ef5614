"""Split."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from graphwright.ir.graph import Node, Value
from graphwright.ir.interfaces.blocked_form import CHANNELS, Blocked, BlockedForm, can_be_blocked
from graphwright.ir.interfaces.padding import Padded, PaddingRule
from graphwright.ir.op import (
    Array,
    AtenImporter,
    Fact,
    Inference,
    InferError,
    OnnxImporter,
    Op,
    Sample,
    arg,
    op,
)
from graphwright.ir.op.exporter import Exporter
from graphwright.ir.symbols import Dim, ceildiv, floordiv, symbol
from graphwright.ir.types import F32, I64, TensorType
from graphwright.ops.core.size_inference import known_dims, new_sizes, number, with_moved_elements

MAX_PARTS = 1 << 20
"""A larger number of outputs is rejected, before it exhausts the memory."""


@op("Split")
class Split(BlockedForm, PaddingRule, Op):
    """Splits the input along ``axis`` into ``parts`` outputs of ``sizes`` (operand 1 if ``from_operand``).

    Without sizes, the outputs have equal sizes; with ``uneven``, the last one may be smaller.
    """

    parts: int
    axis: int = 0
    sizes: tuple[Dim, ...] | None = None
    uneven: bool = False
    from_operand: bool = False

    def verify(self) -> None:
        if not 1 <= self.parts <= MAX_PARTS:
            raise InferError(f"{self.parts} parts: the number must be in [1, {MAX_PARTS}]")

    def output_count(self) -> int:
        return self.parts

    def fold_operands(self, x: Fact, sizes: Fact | None = None) -> tuple[Op, tuple[int, ...]] | None:
        known = known_dims(sizes)
        if not self.from_operand:
            if self.sizes is not None or x.type.shape is None or not -x.rank <= self.axis < x.rank:
                return None
            return self._with(self._equal_sizes(x.shape[self.axis])), (0,)
        return None if known is None else (self._with(known), (0,))

    def _with(self, sizes: tuple[Dim, ...]) -> Split:
        return Split(self.parts, self.axis, sizes)

    def _equal_sizes(self, dim: Dim) -> tuple[Dim, ...]:
        if not self.uneven:
            return (floordiv(dim, self.parts),) * self.parts
        size = ceildiv(dim, self.parts)
        return (*[size] * (self.parts - 1), dim - size * (self.parts - 1))

    def infer(self, at: Inference, x: Fact, sizes: Fact | None = None) -> tuple[TensorType | Fact, ...]:
        if x.type.shape == ():
            raise at.fail("a scalar cannot be split")
        if self.sizes is None and not self.from_operand:
            at.axis(self.axis, x.rank)
        axis = at.axis(self.axis, x.rank)
        if self.sizes is None:
            pieces = new_sizes(at, self.parts, "piece")
            return tuple(TensorType(x.dtype, (*x.shape[:axis], p, *x.shape[axis + 1 :])) for p in pieces)
        if len(self.sizes) != self.parts:
            raise at.fail(f"{len(self.sizes)} sizes for {self.parts} outputs: the numbers must be equal")
        if any(isinstance(size, int) and size < 0 for size in self.sizes):
            raise at.fail(f"a size of {list(self.sizes)} is negative")
        at.equal(sum(self.sizes), x.shape[axis], f"sum of the sizes {list(self.sizes)} and axis {axis}")
        shapes = [(*x.shape[:axis], size, *x.shape[axis + 1 :]) for size in self.sizes]
        types = [TensorType(x.dtype, shape) for shape in shapes]
        return tuple(
            with_moved_elements(self, type, x, move=lambda data, k=k: self.reference(data)[k])
            for k, type in enumerate(types)
        )

    def padding_leak(self, node: Node, padded: Padded) -> str:
        return "it splits a padded axis" if padded.among(node.operand(0), [self.axis]) else ""

    def blocked_form(self, node: Node, operands: Sequence[Value | None], lanes: int) -> Blocked | str:
        """A split along channels copies whole blocks if every result consists of whole blocks."""
        x = node.operand(0)
        if not can_be_blocked(x) or not all(map(can_be_blocked, node.outputs)):
            return f"{x.type} or a result has no channel-blocked layout"
        if self.sizes is None or self.axis % len(x.type.dims) != CHANNELS:
            return "the split is along another axis, or at computed positions"
        return Blocked(results=frozenset(range(len(node.outputs))))

    def reference(self, x: Array) -> tuple[Array, ...]:
        if self.sizes is None:
            raise ValueError(f"an operand of shape {list(x.shape)} has no axis {self.axis} to split")
        ends = list(accumulate(number(size) for size in self.sizes))
        return tuple(np.split(x, ends[:-1], self.axis))


def _import_1(i: OnnxImporter) -> Any:
    sizes = i.attr("split")
    parts, axis = i.output_count, i.attr("axis", 0)
    return i.emit(Split(parts, axis, None if sizes is None else tuple(sizes)), i.input(0))


def _import_13(i: OnnxImporter) -> Any:
    sizes, axis = i.optional(1), i.attr("axis", 0)
    if sizes is not None:
        return i.emit(Split(i.output_count, axis, from_operand=True), i.input(0), sizes)
    parts = i.attr("num_outputs", i.output_count)
    return i.emit(Split(parts, axis, uneven=i.version >= 18), i.input(0))


def _export(e: Exporter, op: Split, x: Value, *sizes: Value) -> Any:
    given: Any = sizes if op.sizes is None else (e.sizes(op.sizes),)
    count = None if given else op.parts
    return e.emit("Split", x, *given, outputs=op.parts, axis=op.axis, num_outputs=count)


Split.to_onnx = _export
Split.onnx = {("Split", 2): _import_1, ("Split", 13): _import_13}
Split.samples = (
    Sample(Split(2, 1), (arg(F32, 3, 4),)),
    Sample(Split(3, 0, (1, 0, 3)), (arg(F32, 4, 2),)),
    Sample(Split(2, -1, (1, 2)), (arg(F32, symbol("N"), 3),)),
    Sample(Split(3, 0, uneven=True), (arg(F32, 8),)),
    Sample(Split(2, 0, from_operand=True), (arg(I64, 3, values=(7, 8, 9)), arg(I64, 2, values=(1, 2)))),
    Sample(Split(2, 0, (1, 2)), (arg(F32, 4),), "3 and 4 differ"),
    Sample(Split(2, 0), (arg(F32, 5),), "4 and 5 differ"),
    Sample(Split(3, 0, (2, 2)), (arg(F32, 4),), "2 sizes for 3 outputs"),
    Sample(Split(2, 2), (arg(F32, 4),), "axis 2 is out of range"),
    *(Sample(Split(parts), (arg(F32, 4),), f"{parts} parts") for parts in (0, 2**62)),
)


def _aten_split_with_sizes(i: AtenImporter) -> Any:
    sizes = i.attr("split_sizes")
    parts = i.emit(Split(len(sizes), i.attr("dim", 0), sizes), i.input(0))
    return parts if isinstance(parts, tuple) else (parts,)


Split.aten = {"split_with_sizes": _aten_split_with_sizes}
