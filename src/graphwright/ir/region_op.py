"""Ops that compute one closed region on their operands."""

from __future__ import annotations

from collections.abc import Sequence

from graphwright.ir.op import Fact, Inference, Op, family


@family
class RegionOp(Op):
    """Computes its one region, once; region inputs are the node's inputs in order. Inlining it is right."""

    results: int

    def output_count(self) -> int:
        return self.results

    def region_inputs(self, region: int, inputs: Sequence[Fact | None]) -> Sequence[Fact | None]:
        return inputs

    def captured_operands(self, inputs: int) -> int:
        return inputs

    def selected_region(self, *facts: Fact | None) -> int | None:
        return 0

    def infer_regions(self, at: Inference, outputs: Sequence[Sequence[Fact]]) -> tuple[Fact, ...]:
        if len(outputs) != 1 or len(outputs[0]) != self.results:
            raise at.fail(f"one region with {self.results} outputs is needed")
        return tuple(outputs[0])
