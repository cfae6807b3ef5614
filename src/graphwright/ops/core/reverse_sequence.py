"""ReverseSequence."""

from __future__ import annotations

import numpy as np

from graphwright.ir.op import Array, Fact, Importer, Inference, InferError, Op, Sample, arg, op
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.symbols import symbol
from graphwright.ir.types import F32, I64, TensorType


@op("ReverseSequence")
class ReverseSequence(Op):
    """Reverses the first ``lengths[k]`` elements along ``time_axis`` of each batch entry ``k``.

    The axes must be 0 and 1. A length that is negative or larger than the axis is an error at run time.
    """

    batch_axis: int = 1
    time_axis: int = 0

    def verify(self) -> None:
        if {self.batch_axis, self.time_axis} != {0, 1}:
            raise InferError(
                f"batch axis {self.batch_axis} and time axis {self.time_axis}: one must be 0, the other 1"
            )

    def infer(self, at: Inference, x: Fact, lengths: Fact) -> TensorType:
        if x.rank < 2:
            raise at.fail(f"the input is {x.type}; it needs a batch and a time axis")
        if lengths.rank != 1:
            raise at.fail(f"the lengths are {lengths.type}; they must be a vector")
        at.equal(x.shape[self.batch_axis], lengths.shape[0], "batch entries and lengths")
        return x.type

    def reference(self, x: Array, lengths: Array) -> Array:
        steps = np.arange(x.shape[self.time_axis])
        if lengths.size and not 0 <= int(lengths.min()) <= int(lengths.max()) <= len(steps):
            raise ValueError(f"the lengths are {lengths.tolist()}; they must be in [0, {len(steps)}]")
        order = np.where(steps < lengths[:, None], lengths[:, None] - 1 - steps, steps)  # batch, time
        if self.batch_axis == 1:
            return x[order.T, np.arange(x.shape[1])]
        return x[np.arange(x.shape[0])[:, None], order]


def _import(i: Importer) -> object:
    op = ReverseSequence(i.attr("batch_axis", 1), i.attr("time_axis", 0))
    return i.emit(op, i.input(0), i.input(1))


ReverseSequence.onnx = {("ReverseSequence", 10): _import}
ReverseSequence.to_onnx = as_onnx("ReverseSequence", batch_axis="batch_axis", time_axis="time_axis")
ReverseSequence.samples = (
    Sample(ReverseSequence(), (arg(F32, 4, 3, symbol("N")), arg(I64, 3, values=(4, 2, 0)))),
    Sample(ReverseSequence(0, 1), (arg(F32, 2, 5), arg(I64, 2, values=(1, 5)))),
    Sample(ReverseSequence(0, 0), (arg(F32, 2, 5), arg(I64, 2, fill="index")), "one must be 0, the other 1"),
    Sample(ReverseSequence(), (arg(F32, 4, 3), arg(I64, 2, fill="index")), "3 and 2 differ"),
    Sample(ReverseSequence(), (arg(F32, 4), arg(I64, 2, fill="index")), "a batch and a time axis"),
)
