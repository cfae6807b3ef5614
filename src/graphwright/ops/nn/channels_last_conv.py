"""ChannelsLastConv, a convolution in the channels-last layout. An op of graphwright, without ONNX
counterpart.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.channels_last import to_first, to_last
from graphwright.ir.graph import Node, Value
from graphwright.ir.interfaces.arithmetic import Arithmetic, convolution_operations
from graphwright.ir.op import Array, Fact, Inference, InferError, Op, Sample, Trait, arg, op
from graphwright.ir.op.exporter import Exporter
from graphwright.ir.symbols import Dim, symbol
from graphwright.ir.types import F32, TensorType
from graphwright.ops.core.checks import need_dtype
from graphwright.ops.core.transpose import Transpose
from graphwright.ops.nn.conv import Conv, export_conv
from graphwright.ops.nn.spatial import Windows, is_depthwise, windows

WIDEST_BLOCK: Final = 16
"""The number of f32 channels in the widest vector of all ISAs."""


@op("ChannelsLastConv")
class ChannelsLastConv(Arithmetic, Op):
    """A convolution of x[N, D..., C] with w[M, C/group, K...], plus the optional bias[M], in f32: y[N, D'...,
    M].

    The attributes are those of Conv. With ``reads_planes``, x is channels first, [N, C, D...]: the first
    convolution of a model then needs no transpose.
    """

    strides: tuple[int, ...] = ()
    pads: tuple[Dim, ...] = ()
    dilations: tuple[int, ...] = ()
    group: int = 1
    reads_planes: bool = False
    traits = Trait.CONTRACTION
    optional_inputs = frozenset({2})

    def fills_blocks(self, x: Value, w: Value) -> bool:
        """Whether the channels of each group fill whole vectors of every ISA, in ``x`` and in the result."""
        shape, sizes = x.type.shape, w.type.shape
        if x.type.dtype != F32 or shape is None or sizes is None or len(shape) not in (3, 4):
            return False
        if not all(isinstance(size, int) for size in sizes):
            return False
        features, depth = w.type.sizes[:2]
        if is_depthwise(self.group, sizes):
            return features % WIDEST_BLOCK == 0 and not self.reads_planes
        filled = (features // self.group, *(() if self.reads_planes else (depth,)))
        return all(channels and channels % WIDEST_BLOCK == 0 for channels in filled)

    @property
    def conv(self) -> Conv:
        """The same convolution, channels first."""
        return Conv(self.strides, self.pads, self.dilations, self.group)

    def verify(self) -> None:
        self.conv.verify()

    def windows(self, kernel: tuple[Dim, ...]) -> Windows:
        """The windows of the convolution, given the spatial sizes of the weight."""
        return windows(kernel, self.strides, self.dilations, self.pads)

    def infer(self, at: Inference, x: Fact, w: Fact, bias: Fact | None = None) -> TensorType:
        for fact, name in ((x, "the image"), (w, "the weight")):
            need_dtype(at, fact, {F32}, name)
        if x.rank < 3:
            raise InferError(f"the image is {x.type}; it must have at least 3 axes")
        result = self.conv.infer(at, Fact(TensorType(F32, self._planes(x.shape))), w, bias)
        return TensorType(F32, tuple(result.dims[axis] for axis in to_last(x.rank)))

    def _planes(self, shape: tuple[Dim, ...]) -> tuple[Dim, ...]:
        """The shape of ``x``, channels first."""
        return shape if self.reads_planes else tuple(shape[axis] for axis in to_first(len(shape)))

    def operations(self, node: Node) -> Dim:
        return convolution_operations(node)

    def reference(self, x: Array, w: Array, bias: Array | None = None) -> Array:
        planes = x if self.reads_planes else np.transpose(x, to_first(x.ndim))
        result = self.conv.reference(planes, w, bias)
        return np.ascontiguousarray(np.transpose(result, to_last(result.ndim)))

    def decompose(self, b: Builder, x: Value, w: Value, *bias: Value) -> Value:
        rank = len(x.type.dims)
        planes = x if self.reads_planes else b(Transpose(to_first(rank)), x)
        result: Value = b(Transpose(to_last(rank)), b(self.conv, planes, w, *bias))
        return result


def _export(e: Exporter, op: ChannelsLastConv, x: Value, w: Value, *bias: Value) -> object:
    rank = len(x.type.dims)
    planes = x if op.reads_planes else e.emit("Transpose", x, perm=to_first(rank))
    return e.emit("Transpose", export_conv(e, op.conv, planes, w, *bias), perm=to_last(rank))


ChannelsLastConv.to_onnx = _export
_N, _H = symbol("N"), symbol("H")
_X, _W = arg(F32, 2, 7, 5, 4), arg(F32, 6, 4, 3, 3)
ChannelsLastConv.samples = (
    Sample(ChannelsLastConv(), (_X, _W)),
    Sample(ChannelsLastConv(pads=(1, 1, 1, 1)), (arg(F32, _N, _H, 5, 4), _W, arg(F32, 6))),
    Sample(ChannelsLastConv((2, 1), (0, 1, 2, 0), (2, 1)), (_X, _W, arg(F32, 6))),
    Sample(ChannelsLastConv(group=2), (_X, arg(F32, 6, 2, 3, 3), arg(F32, 6))),
    Sample(ChannelsLastConv(group=4, pads=(1, 1, 1, 1)), (_X, arg(F32, 8, 1, 3, 3))),
    Sample(
        ChannelsLastConv((2, 2), reads_planes=True),
        (arg(F32, 2, 3, 7, 6), arg(F32, 16, 3, 2, 2), arg(F32, 16)),
    ),
    Sample(
        ChannelsLastConv(pads=(1, 1, 1, 1), group=32),
        (arg(F32, 1, 6, 5, 32), arg(F32, 32, 1, 3, 3), arg(F32, 32)),
    ),
    Sample(ChannelsLastConv((2, 2)), (arg(F32, _N, _H, 6, 16), arg(F32, 32, 16, 2, 2))),
    Sample(ChannelsLastConv((2,)), (arg(F32, 2, 9, 16), arg(F32, 16, 16, 4))),
    Sample(ChannelsLastConv(), (arg(F32, 1, 3, 4, 5, 2), arg(F32, 3, 2, 2, 2, 2))),
    Sample(ChannelsLastConv(), (_X, arg(F32, 6, 3, 3, 3)), "4 and 3 differ"),
    Sample(ChannelsLastConv(), (_X, _W, arg(F32, 5)), "bias and features: 5 and 6 differ"),
    Sample(ChannelsLastConv(), (arg(F32, 2, 7), _W), "it must have at least 3 axes"),
    Sample(ChannelsLastConv(group=0), (_X, _W), "0 groups"),
)
