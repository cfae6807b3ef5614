"""ConvWeightGradient."""

from __future__ import annotations

import numpy as np

from graphwright.ir.graph import Node
from graphwright.ir.interfaces.arithmetic import Arithmetic
from graphwright.ir.op import Array, Fact, Inference, InferError, Op, Sample, arg, op
from graphwright.ir.symbols import Dim, product, symbol
from graphwright.ir.types import BF16, F16, F32, F64, I32, TensorType
from graphwright.ops.core.checks import FLOATS, need_dtype, same_dtype
from graphwright.ops.nn.spatial import Windows, accumulator, tap, windows


@op("ConvWeightGradient")
class ConvWeightGradient(Arithmetic, Op):
    """Gradient of Conv with respect to its weights: dw[M, C/group, K...] of the input x[N, C, D...] and the
    gradient dy[N, M, D'...] of the result. ``kernel`` are the sizes K; the other attributes are those of
    Conv.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...] = ()
    pads: tuple[Dim, ...] = ()
    dilations: tuple[int, ...] = ()
    group: int = 1

    def verify(self) -> None:
        if self.group < 1:
            raise InferError(f"{self.group} groups: there must be at least 1")

    @property
    def windows(self) -> Windows:
        return windows(self.kernel, self.strides, self.dilations, self.pads)

    def infer(self, at: Inference, x: Fact, dy: Fact) -> TensorType:
        need_dtype(at, x, FLOATS)
        same_dtype(at, x, dy)
        rank = len(self.kernel) + 2
        if (x.rank, dy.rank) != (rank, rank):
            raise at.fail(f"the input is {x.type} and the gradient {dy.type}: both must have rank {rank}")
        at.equal(x.shape[0], dy.shape[0], "the batch")
        for axis, (size, given) in enumerate(
            zip(self.windows.infer(at, x.shape[2:]), dy.shape[2:], strict=True)
        ):
            at.equal(size, given, f"windows and gradient along spatial axis {axis}")
        at.divide(x.shape[1], self.group, "channels of the input")
        at.divide(dy.shape[1], self.group, "channels of the gradient")
        return TensorType(x.dtype, (dy.shape[1], x.shape[1] // self.group, *self.kernel))

    def operations(self, node: Node) -> Dim:
        return 2 * product(node.operand(1).type.dims) * product(node.output.type.dims[1:])

    def reference(self, x: Array, dy: Array) -> Array:
        shape, groups, wide = self.windows, self.group, accumulator(x)
        counts = dy.shape[2:]
        length = int(np.prod(counts))
        padded = shape.padded(x.astype(wide, copy=False), counts, 0)
        gradient = dy.astype(wide, copy=False).reshape(len(x), groups, dy.shape[1] // groups, length)
        out = np.zeros((dy.shape[1], x.shape[1] // groups, *self.kernel), wide)
        for position in shape.positions():
            patch = padded[shape.elements_of_tap(position, counts)]
            patch = patch.reshape(len(x), groups, x.shape[1] // groups, length)
            sums = np.einsum("ngmp,ngcp->gmc", gradient, patch, optimize=True)
            out[tap(position)] = sums.reshape(out.shape[:2])
        return out.astype(x.dtype, copy=False)


_N, _H = symbol("N"), symbol("H")
_X, _DY = arg(F32, 2, 4, 7, 5), arg(F32, 2, 6, 5, 3)
ConvWeightGradient.samples = (
    Sample(ConvWeightGradient((3, 3)), (_X, _DY)),
    Sample(ConvWeightGradient((3, 3), pads=(1, 1, 1, 1)), (arg(F32, _N, 4, _H, 5), arg(F32, _N, 6, _H, 5))),
    Sample(ConvWeightGradient((3, 3), (2, 1), (0, 1, 2, 0), (2, 1)), (_X, arg(F32, 2, 6, 3, 4))),
    Sample(ConvWeightGradient((3, 3), group=2), (_X, _DY)),
    Sample(ConvWeightGradient((3, 3), pads=(1, 1, 1, 1), group=4), (_X, arg(F32, 2, 8, 7, 5))),
    Sample(ConvWeightGradient((4,), (2,)), (arg(F64, 2, 3, 9), arg(F64, 2, 4, 3))),
    Sample(ConvWeightGradient((2, 2, 2)), (arg(F32, 1, 2, 3, 4, 5), arg(F32, 1, 3, 2, 3, 4))),
    Sample(ConvWeightGradient((3, 3)), (arg(F16, 1, 2, 4, 4), arg(F16, 1, 3, 2, 2))),
    Sample(ConvWeightGradient((3, 3)), (arg(BF16, 0, 2, 4, 4), arg(BF16, 0, 3, 2, 2))),
    Sample(ConvWeightGradient((3, 3)), (_X, arg(F32, 2, 6, 5, 4)), "spatial axis 1: 3 and 4 differ"),
    Sample(ConvWeightGradient((3,)), (_X, _DY), "both must have rank 3"),
    Sample(ConvWeightGradient((3, 3)), (_X, arg(F32, 3, 6, 5, 3)), "the batch: 2 and 3 differ"),
    Sample(ConvWeightGradient((3, 3), group=4), (_X, _DY), "6 is not a multiple of 4"),
    Sample(ConvWeightGradient((3, 3)), (arg(I32, 2, 4, 7, 5), arg(I32, 2, 6, 5, 3)), "the input is i32"),
    Sample(ConvWeightGradient((3, 3), group=0), (_X, _DY), "0 groups"),
)
