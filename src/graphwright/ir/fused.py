"""A closed region that becomes one kernel."""

from __future__ import annotations

from collections.abc import Sequence

from graphwright.ir.op import Array, Fact, Inference, Op, op


@op("Fused")
class Fused(Op):
    """Computes its one region in one kernel; region inputs are the node's inputs in order. Inlining it unfuses."""

    results: int = 1

    def output_count(self) -> int:
        return self.results

    def region_inputs(self, region: int, inputs: Sequence[Fact | None]) -> Sequence[Fact | None]:
        return inputs

    def taken_region(self, inputs: Sequence[Array | None]) -> tuple[int, Sequence[Array | None]]:
        return 0, inputs

    def infer_regions(self, at: Inference, outputs: Sequence[Sequence[Fact]]) -> tuple[Fact, ...]:
        return tuple(outputs[0])
