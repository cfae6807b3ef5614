"""TransData: the same values in another layout."""

from __future__ import annotations

from graphwright.ir.op import Fact, Inference, Op, op
from graphwright.ir.types import Layout, TensorType


@op("TransData")
class TransData(Op):
    """Its input in ``layout``. Shape and elements stay; where they lie in memory changes."""

    layout: Layout

    def infer(self, at: Inference, x: Fact) -> TensorType:
        if sorted(self.layout.order) != list(range(x.rank)):
            raise at.fail(f"{self.layout} does not order the {x.rank} axes of its input")
        return x.type
