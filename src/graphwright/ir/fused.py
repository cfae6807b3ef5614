"""A closed region that becomes one kernel."""

from __future__ import annotations

from collections.abc import Sequence

from graphwright.ir.graph import Graph, Node
from graphwright.ir.op import Fact, Inference, Op, op


@op("Fused")
class Fused(Op):
    """Computes its one region in one kernel; region inputs are the node's inputs in order. Inlining it
    unfuses.
    """

    results: int = 1

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


def region_of(node: Node) -> Graph:
    """The only region of a Fused node."""
    (region,) = node.regions
    return region
