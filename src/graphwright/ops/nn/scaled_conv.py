"""ScaledConv, the pointwise convolution after squeeze and excitation. An op of graphwright, without ONNX
counterpart.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.builtin.constant import is_constant
from graphwright.ir.graph import Node, Value
from graphwright.ir.interfaces.arithmetic import Arithmetic, convolution_operations
from graphwright.ir.interfaces.blocked_form import CHANNELS, Blocked, BlockedForm
from graphwright.ir.interfaces.padding import Padded, PaddingRule
from graphwright.ir.op import Array, Fact, Inference, Op, Sample, Trait, arg, op
from graphwright.ir.op.exporter import Exporter
from graphwright.ir.symbols import Dim, symbol
from graphwright.ir.types import F32, TensorType
from graphwright.ops.core.binary import Mul
from graphwright.ops.core.checks import need_dtype
from graphwright.ops.nn.conv import Conv


@op("ScaledConv")
class ScaledConv(Arithmetic, BlockedForm, PaddingRule, Op):
    """The convolution of ``x * scale`` with w[M, C, 1...], plus the optional bias[M], in f32, with one group.

    The scale is [N, C, 1...], or [1, C, 1...] for all images (squeeze and excitation, Hu et al. 2018).
    Kernels scale the weights instead of the image. Their results may differ from those of the product for
    infinities, and for numbers near the limits of f32.
    """

    strides: tuple[int, ...] = ()
    traits = Trait.CONTRACTION
    optional_inputs = frozenset({3})

    @property
    def conv(self) -> Conv:
        """The convolution of the scaled image."""
        return Conv(self.strides)

    def infer(self, at: Inference, x: Fact, w: Fact, scale: Fact, bias: Fact | None = None) -> TensorType:
        for fact, name in ((x, "the image"), (w, "the weight"), (scale, "the scale")):
            need_dtype(at, fact, {F32}, name)
        if scale.rank != x.rank:
            raise at.fail(f"the scale is {scale.type} and the image {x.type}: their ranks must be equal")
        for axis, size in enumerate(scale.shape):
            full = axis == CHANNELS or (axis == 0 and size != 1)
            at.equal(size, x.shape[axis] if full else 1, f"axis {axis} of the scale")
        result = self.conv.infer(at, x, w, bias)
        for axis, size in enumerate(w.shape[2:], start=2):
            at.equal(size, 1, f"axis {axis} of the weight")
        return result

    def operations(self, node: Node) -> Dim:
        return convolution_operations(node)

    def padding_leak(self, node: Node, padded: Padded) -> str:
        if any(padded.axes(value) for value in node.inputs[1:]):
            return "its weights are padded"
        return "it sums along a padded axis" if padded.among(node.operand(0), [CHANNELS]) else ""

    def blocked_form(self, node: Node, operands: Sequence[Value | None], lanes: int) -> Blocked | str:
        """The form of the convolution, if its weights are constant. The scale is row-major."""
        if operands[2] is None or not all(
            is_constant(v) for v in (operands[1], *operands[3:]) if v is not None
        ):
            return "its weights are not constant"
        return self.conv.blocked_form(node, operands[:2], lanes)

    def reference(self, x: Array, w: Array, scale: Array, bias: Array | None = None) -> Array:
        with np.errstate(all="ignore"):
            return self.conv.reference(x * scale, w, bias)

    def decompose(self, b: Builder, x: Value, w: Value, scale: Value, *bias: Value) -> Value:
        result: Value = b(self.conv, b(Mul(), x, scale), w, *bias)
        return result


def _export(e: Exporter, op: ScaledConv, x: Value, w: Value, scale: Value, *bias: Value) -> object:
    return e.emit("Conv", e.emit("Mul", x, scale), w, *bias, strides=op.strides or None)


ScaledConv.to_onnx = _export
_N, _H = symbol("N"), symbol("H")
_X, _W, _S = arg(F32, 2, 12, 7, 5), arg(F32, 9, 12, 1, 1), arg(F32, 1, 12, 1, 1)
ScaledConv.samples = (
    Sample(ScaledConv(), (_X, _W, _S)),
    Sample(ScaledConv((2, 1)), (_X, _W, _S, arg(F32, 9))),
    Sample(ScaledConv(), (arg(F32, _N, 4, _H, 5), arg(F32, 6, 4, 1, 1), arg(F32, 1, 4, 1, 1), arg(F32, 6))),
    Sample(ScaledConv((3,)), (arg(F32, 2, 4, 9), arg(F32, 6, 4, 1), arg(F32, 1, 4, 1))),
    Sample(ScaledConv(), (_X, arg(F32, 9, 12, 3, 3), _S), "axis 2 of the weight"),
    Sample(ScaledConv(), (_X, _W, arg(F32, 2, 12, 1, 1), arg(F32, 9))),
    Sample(ScaledConv(), (arg(F32, _N, 4, _H, 5), arg(F32, 6, 4, 1, 1), arg(F32, _N, 4, 1, 1), arg(F32, 6))),
    Sample(ScaledConv(), (_X, _W, arg(F32, 3, 12, 1, 1)), "axis 0 of the scale"),
    Sample(ScaledConv(), (_X, _W, arg(F32, 12)), "their ranks must be equal"),
)
