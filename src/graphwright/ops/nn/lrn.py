"""LRN, local response normalization."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Node, Value
from graphwright.ir.interfaces.blocked_form import Blocked, BlockedForm, can_be_blocked
from graphwright.ir.op import Array, Fact, Importer, Inference, InferError, Op, Sample, arg, op
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.symbols import Dim, symbol
from graphwright.ir.types import F16, F32, F64, I32, TensorType
from graphwright.ops.core.binary import Add, Mul
from graphwright.ops.core.cast import as_dtype, in_f32
from graphwright.ops.core.checks import rank_of
from graphwright.ops.core.div import Div
from graphwright.ops.core.pad import Pad
from graphwright.ops.core.pow import Pow
from graphwright.ops.core.references import like, quiet, widened
from graphwright.ops.core.slice import Slice
from graphwright.ops.nn.normalization import need_channels


@op("LRN")
class LRN(BlockedForm, Op):
    """Local response normalization of x[N, C, D...]: ``x / (bias + alpha / size * sum(x * x)) ** beta``
    (Krizhevsky et al. 2012).

    The sum is over a window of ``size`` channels, which begins ``(size - 1) // 2`` channels before each
    channel. Channels that do not exist count as 0.
    """

    size: int
    alpha: float = 1e-4
    beta: float = 0.75
    bias: float = 1.0

    def verify(self) -> None:
        if self.size < 1:
            raise InferError(f"the size is {self.size}; a window must have at least 1 channel")

    def infer(self, at: Inference, x: Fact) -> TensorType:
        need_channels(at, x)
        return x.type

    def _margins(self, channels: Dim) -> tuple[int, int]:
        """The number of channels of a window before and after its own channel, of those that exist."""
        most = max(channels - 1, 0) if isinstance(channels, int) else self.size
        return min((self.size - 1) // 2, most), min(self.size // 2, most)

    def blocked_form(self, node: Node, operands: Sequence[Value | None], lanes: int) -> Blocked | str:
        """The only library kernel of this op is for channel blocks."""
        if not can_be_blocked(node.output):
            return f"{node.output.type} has no channel-blocked layout"
        channels = node.output.type.dims[1]
        if isinstance(channels, int) and self.size > 2 * channels:
            return "its window is wider than the channels"  # the kernel would add the zeros after them
        return Blocked(only=True)

    @quiet
    def reference(self, x: Array) -> Array:
        wide = widened(x)
        margins = [(0, 0)] * x.ndim
        before, after = margins[1] = self._margins(x.shape[1])
        squares = np.pad(wide * wide, margins)
        total = sum(squares[:, k : k + x.shape[1]] for k in range(before + after + 1))
        number = wide.dtype.type
        return like(
            wide / (number(self.bias) + number(self.alpha / self.size) * total) ** number(self.beta), x
        )

    def decompose(self, b: Builder, x: Value) -> Value:
        wide, rank, count = in_f32(b, x), rank_of(x), x.type.dims[1]
        dtype = wide.type.dtype
        before, after = self._margins(count)
        rest = (0,) * (rank - 2)
        squares = b(Pad((0, before, *rest, 0, after, *rest)), b(Mul(), wide, wide))
        total = b(Slice((0,), (count,), (1,), (1,)), squares)
        for k in range(1, before + after + 1):
            total = b(Add(), total, b(Slice((k,), (count + k,), (1,), (1,)), squares))
        scaled = b(Mul(), total, b.const(self.alpha / self.size, dtype))
        base = b(Add(), scaled, b.const(self.bias, dtype))
        return as_dtype(b, b(Div(), wide, b(Pow(), base, b.const(self.beta, dtype))), x.type.dtype)


def _import(i: Importer) -> Any:
    size = int(i.required_attr("size"))
    alpha, beta = float(i.attr("alpha", 1e-4)), float(i.attr("beta", 0.75))
    return i.emit(LRN(size, alpha, beta, float(i.attr("bias", 1.0))), i.input(0))


LRN.onnx = {("LRN", 1): _import}
LRN.to_onnx = as_onnx("LRN", size="size", alpha="alpha", beta="beta", bias="bias")
LRN.samples = (
    *(Sample(LRN(3, 0.5), (arg(t, 2, 7, 3, 4),)) for t in (F32, F64, F16)),
    Sample(LRN(4, 0.5, 0.5, 2.0), (arg(F32, 2, 5, 3),)),
    Sample(LRN(5), (arg(F32, symbol("N"), 3, symbol("H"), 2),)),
    Sample(LRN(0), (arg(F32, 2, 3),), "at least 1 channel"),
    Sample(LRN(3), (arg(F32, 3),), "needs a batch axis"),
    Sample(LRN(3), (arg(I32, 2, 3),), "the input is i32"),
)
