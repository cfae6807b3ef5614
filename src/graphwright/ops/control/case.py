"""Case, a branch with an integer selector. An op of graphwright, without ONNX counterpart."""

from __future__ import annotations

from collections.abc import Sequence

from graphwright.ir.op import Fact, Inference, InferError, Op, op
from graphwright.ir.types import I32, I64
from graphwright.ops.control.branches import BranchOp, joined, selector
from graphwright.records import replace


@op("Case")
class Case(BranchOp):
    """Runs the region whose index is operand 0, an i32 or i64 scalar; an index out of range runs the last
    region.

    The region receives the other operands, and its outputs are the results. The op has no ``reference``:
    executors run the region.
    """

    branches: int
    results: int

    def verify(self) -> None:
        if self.branches < 1:
            raise InferError("it must have at least one branch")

    def output_count(self) -> int:
        return self.results

    def with_results(self, kept: Sequence[int]) -> Op:
        return replace(self, results=len(kept))

    def region_inputs(self, region: int, inputs: Sequence[Fact | None]) -> Sequence[Fact | None]:
        index = inputs[0]
        if index is None or index.dtype not in (I32, I64) or index.type.shape not in ((), None):
            raise InferError(f"the index is {index and index.type}; it must be an i32 or i64 scalar")
        return super().region_inputs(region, inputs)

    def selected_region(self, index: Fact, *operands: Fact | None) -> int | None:
        """The region of a constant index."""
        region = selector(index)
        if region is None:
            return None
        return region if 0 <= region < self.branches else self.branches - 1

    def infer_regions(self, at: Inference, outputs: Sequence[Sequence[Fact]]) -> tuple[Fact, ...]:
        """The facts that hold for the outputs of all regions (:func:`joined`)."""
        if len(outputs) != self.branches:
            raise at.fail(f"{len(outputs)} regions for {self.branches} branches: the numbers must be equal")
        return joined(at, outputs, self.results)
