"""Case."""

from __future__ import annotations

from collections.abc import Sequence

from graphwright.ir.op import Fact, Inference, InferError, op
from graphwright.ir.types import I32, I64
from graphwright.ops.control.branches import BranchOp, chosen_by, joined


@op("Case")
class Case(BranchOp):
    """The outputs of the region that the scalar of operand 0, an i32 or i64, counts from 0.

    An index that counts none runs the last region. All regions receive the other operands. There is no
    ``reference``: an executor runs the region taken.
    """

    branches: int
    results: int

    def verify(self) -> None:
        if self.branches < 1:
            raise InferError("it needs one branch at least")

    def output_count(self) -> int:
        return self.results

    def region_inputs(self, region: int, inputs: Sequence[Fact | None]) -> Sequence[Fact | None]:
        index = inputs[0]
        if index is None or index.dtype not in (I32, I64) or index.type.shape not in ((), None):
            raise InferError(f"its index is {index and index.type}, not an i32 or i64 scalar")
        return super().region_inputs(region, inputs)

    def selected_region(self, index: Fact, *operands: Fact | None) -> int | None:
        """The region of a constant index."""
        number = chosen_by(index)
        if number is None:
            return None
        return number if 0 <= number < self.branches else self.branches - 1

    def infer_regions(self, at: Inference, outputs: Sequence[Sequence[Fact]]) -> tuple[Fact, ...]:
        """What is known of the outputs whichever region gives them (:func:`joined`)."""
        if len(outputs) != self.branches:
            raise at.fail(f"{len(outputs)} regions for {self.branches} branches")
        return joined(at, outputs, self.results)
