"""The TransData op: conversion between memory layouts."""

from __future__ import annotations

from graphwright.ir.op import Array, Fact, Inference, Op, op
from graphwright.ir.types import Layout, TensorType


@op("TransData")
class TransData(Op):
    """Converts its input to ``layout`` (None: row-major). Shape and elements stay the same."""

    layout: Layout | None = None

    def infer(self, at: Inference, x: Fact) -> TensorType:
        if self.layout is not None and sorted(self.layout.order) != list(range(x.rank)):
            raise at.fail(f"{self.layout} does not order the {x.rank} axes of the input")
        return x.type

    def forwarded_operand(self, gives: TensorType, x: Fact) -> int:
        return 0

    def reference(self, x: Array) -> Array:
        return x
