"""Roll, an op of graphwright; ONNX has no counterpart."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.graph import Node, Value
from graphwright.ir.interfaces.moved_axes import AxisSlice, MovesAxes
from graphwright.ir.interfaces.padding import Padded, PaddingRule
from graphwright.ir.op import Array, Fact, Inference, Op, Sample, Trait, arg, op
from graphwright.ir.op.exporter import Exporter
from graphwright.ir.symbols import symbol
from graphwright.ir.types import F32, TensorType
from graphwright.ops.core.slice import TO_THE_END


@op("Roll")
class Roll(MovesAxes, PaddingRule, Op):
    """Rotates ``axis``: element ``i`` is element ``(i + start) % size`` of the input, as ``torch.roll`` by
    ``-start``.

    ``start`` must be in [0, size].
    """

    axis: int
    start: int
    traits = Trait.COPY

    def infer(self, at: Inference, x: Fact) -> TensorType:
        if x.rank == 0:
            raise at.fail("a scalar has no axis to roll")
        size = x.shape[at.axis(self.axis, x.rank)]
        if self.start < 0 or (isinstance(size, int) and self.start > size):
            raise at.fail(f"start {self.start} is outside [0, {size}], the size of axis {self.axis}")
        at.at_least(size, self.start, f"size of the rolled axis {self.axis}")
        return x.type

    def padding_leak(self, node: Node, padded: Padded) -> str:
        return "it moves the end of a padded axis" if padded.among(node.operand(0), [self.axis]) else ""

    def moved_axes(self, node: Node) -> tuple[AxisSlice, ...] | str:
        rank = len(node.output.type.dims)
        rolled = AxisSlice(self.axis % rank, self.start, wraps=True)
        return tuple(rolled if k == rolled.axis else AxisSlice(k) for k in range(rank))

    def reference(self, x: Array) -> Array:
        return np.roll(x, -self.start, self.axis)


def _export(e: Exporter, op: Roll, x: Value) -> Any:
    """Exports as the concatenation of the slices ``[start:]`` and ``[:start]``."""
    if op.start == 0:
        return e.emit("Identity", x)
    bounds = ((op.start, TO_THE_END), (0, op.start))
    parts = (e.emit("Slice", x, *(e.sizes((n,)) for n in (*pair, op.axis)), since=10) for pair in bounds)
    return e.emit("Concat", *parts, axis=op.axis, since=4)


Roll.to_onnx = _export
Roll.samples = (
    Sample(Roll(1, 1), (arg(F32, 2, 3),)),
    Sample(Roll(-2, 2), (arg(F32, 5, symbol("N")),)),
    Sample(Roll(0, 0), (arg(F32, 0, 2),)),
    Sample(Roll(0, 1), (arg(F32, symbol("N"), 2),)),
    Sample(Roll(0, 4), (arg(F32, 3),), "start 4 is outside [0, 3]"),
    Sample(Roll(0, 0), (arg(F32),), "a scalar has no axis"),
    Sample(Roll(2, 0), (arg(F32, 3),), "axis 2 is out of range"),
)
