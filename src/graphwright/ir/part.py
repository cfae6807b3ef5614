"""A closed region that is compiled as a program of its own."""

from __future__ import annotations

from collections.abc import Sequence

from graphwright.ir.op import Fact, Inference, Op, op


@op("Part")
class Part(Op):
    """Computes its one region in one program: what lies between nodes that run on the host.

    Region inputs are the node's inputs in order. Part ``number`` is that of the package. Inlining it gives
    the graph before the cut.
    """

    results: int
    number: int = 0

    def output_count(self) -> int:
        return self.results

    def region_inputs(self, region: int, inputs: Sequence[Fact | None]) -> Sequence[Fact | None]:
        return inputs

    def captures(self, inputs: int) -> int:
        return inputs

    def taken(self, *facts: Fact | None) -> int | None:
        return 0

    def infer_regions(self, at: Inference, outputs: Sequence[Sequence[Fact]]) -> tuple[Fact, ...]:
        return tuple(outputs[0])
