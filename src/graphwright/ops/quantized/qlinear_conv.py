"""QLinearConv."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Node, Value
from graphwright.ir.interfaces.arithmetic import Arithmetic, convolution_operations
from graphwright.ir.op import Array, Fact, Inference, Op, Sample, arg, op
from graphwright.ir.op.exporter import Exporter, as_onnx
from graphwright.ir.symbols import Dim, symbol
from graphwright.ir.types import F16, F32, I8, I32, U8, TensorType, dtype_of
from graphwright.ops.core.binary import Mul
from graphwright.ops.core.cast import as_dtype
from graphwright.ops.core.checks import need_dtype, need_scalar, rank_of
from graphwright.ops.core.div import Div
from graphwright.ops.core.references import quiet
from graphwright.ops.core.reshape import reshaped
from graphwright.ops.nn.spatial import WINDOW_ATTRIBUTES
from graphwright.ops.quantized.conv_integer import (
    QuantizedConv,
    conv_fields,
    need_per_feature,
    padded_with_zero_point,
    per_feature,
    per_feature_value,
)
from graphwright.ops.quantized.quantized import BYTES, into_quantized, quantized, ratio_of


@op("QLinearConv")
class QLinearConv(Arithmetic, QuantizedConv):
    """A quantized convolution: ``Conv(x - x_zero, w - w_zero) + bias``, times ``x_scale * w_scale /
    y_scale``, rounded (ties to even), plus ``y_zero``, saturated.

    Operands: x, its scale and zero point; w, its scale and zero point; the scale and zero point of the
    result; and an optional i32 bias. Scale and zero point of w are scalars, or have one element per feature.
    Attributes: see :class:`Conv`.
    """

    optional_inputs = frozenset({8})

    def fold_operands(
        self, x: Fact, x_scale: Fact, x_zero: Fact, w: Fact, *others: Fact | None
    ) -> tuple[Op, tuple[int, ...]] | None:
        folded = self.with_pads(x, w)
        return None if folded is None else (folded, tuple(range(4 + len(others))))

    def infer(
        self, at: Inference,
        x: Fact, x_scale: Fact, x_zero: Fact, w: Fact, w_scale: Fact, w_zero: Fact,
        y_scale: Fact, y_zero: Fact, bias: Fact | None = None,
    ) -> TensorType:  # fmt: skip
        sums = self.summed(at, x, w, bias)
        for scale, of in ((x_scale, "x"), (w_scale, "w"), (y_scale, "y")):
            need_dtype(at, scale, {F32}, f"the scale of {of}")
        for zero, dtypes, of in ((x_zero, {x.dtype}, "x"), (w_zero, {w.dtype}, "w"), (y_zero, BYTES, "y")):
            need_dtype(at, zero, dtypes, f"the zero point of {of}")
        for scale, zero, of in ((x_scale, x_zero, "x"), (y_scale, y_zero, "y")):
            need_scalar(at, scale, f"the scale of {of}")
            need_scalar(at, zero, f"the zero point of {of}")
        need_per_feature(at, w, w_scale, "the scale of w")
        need_per_feature(at, w, w_zero, "the zero point of w")
        if bias is not None:
            need_dtype(at, bias, {I32}, "the bias")
        return TensorType(y_zero.dtype, sums.shape)

    def operations(self, node: Node) -> Dim:
        return convolution_operations(node, weight=3)

    @quiet
    def reference(
        self,
        x: Array, x_scale: Array, x_zero: Array, w: Array, w_scale: Array, w_zero: Array,
        y_scale: Array, y_zero: Array, bias: Array | None = None,
    ) -> Array:  # fmt: skip
        ratio = ratio_of(x_scale.reshape(()), per_feature(w_scale, w.ndim - 1), y_scale.reshape(()))
        total = self.sums(x, w, x_zero, w_zero, bias).astype(ratio.dtype)
        return quantized(np.asarray(total * ratio), y_zero.reshape(()), dtype_of(y_zero))

    def decompose(
        self, b: Builder,
        x: Value, x_scale: Value, x_zero: Value, w: Value, w_scale: Value, w_zero: Value,
        y_scale: Value, y_zero: Value, bias: Value | None = None,
    ) -> Value:  # fmt: skip
        x_factor, y_divisor = reshaped(b, x_scale, ()), reshaped(b, y_scale, ())
        w_factor = per_feature_value(b, w_scale, rank_of(w) - 1)
        ratio = b(Div(), b(Mul(), x_factor, w_factor), y_divisor)
        total = as_dtype(b, self.summed_values(b, x, w, x_zero, w_zero, bias), F32)
        return into_quantized(b, b(Mul(), total, ratio), reshaped(b, y_zero, ()), y_zero.type.dtype)


QLinearConv.onnx = {("QLinearConv", 10): lambda i: i.emit(QLinearConv(**conv_fields(i)), *i.inputs())}
_as_conv = as_onnx("QLinearConv", WINDOW_ATTRIBUTES)


def _export(
    e: Exporter, op: QLinearConv, x: Value, x_scale: Value, x_zero: Value, *others: Value | None
) -> Any:
    bare, padded = padded_with_zero_point(e, op, x, x_zero)
    return _as_conv(e, bare, padded, x_scale, x_zero, *others)


QLinearConv.to_onnx = _export
_N, _H = symbol("N"), symbol("H")
_X, _W = arg(U8, 2, 4, 7, 5), arg(I8, 6, 4, 3, 3)


def _inputs(
    x: Any, w: Any, x_shape: Any = (), w_shape: Any = (), y: Any = U8, bias: int | None = None
) -> Any:
    """Operands of a sample; scale and zero point of x and w have the shapes ``x_shape`` and ``w_shape``."""
    return (
        x, arg(F32, *x_shape, fill="positive"), arg(x.type.dtype, *x_shape),
        w, arg(F32, *w_shape, fill="positive"), arg(w.type.dtype, *w_shape),
        arg(F32, fill="positive"), arg(y), *([] if bias is None else [arg(I32, bias)]),
    )  # fmt: skip


QLinearConv.samples = (
    Sample(QLinearConv(), _inputs(_X, _W)),
    Sample(QLinearConv((2, 1), (1, 1, 1, 1)), _inputs(_X, _W, (1,), (6,), I8, 6)),
    Sample(QLinearConv(pads=(1, 1, 1, 1)), _inputs(arg(I8, _N, 4, _H, 5), _W, (), (6,), bias=6)),
    Sample(QLinearConv(group=4), _inputs(_X, arg(I8, 8, 1, 3, 3), (), (8,), I8)),
    Sample(QLinearConv((2, 2), auto_pad="SAME_LOWER"), _inputs(_X, arg(U8, 6, 4, 2, 2))),
    Sample(QLinearConv(), _inputs(arg(U8, 1, 2, 9), arg(U8, 3, 2, 3), (), (3,))),
    Sample(QLinearConv(), _inputs(_X, _W, (4,)), "the scale of x is f32[4]; it must be a scalar"),
    Sample(QLinearConv(), _inputs(_X, _W, (), (5,)), "the scale of w and features: 5 and 6 differ"),
    Sample(QLinearConv(), _inputs(_X, _W, bias=5), "bias and features: 5 and 6 differ"),
    Sample(QLinearConv(), _inputs(_X, _W, y=I32), "the zero point of y is i32"),
    Sample(QLinearConv(), (_X, arg(F16), *_inputs(_X, _W)[2:]), "the scale of x is f16"),
)
