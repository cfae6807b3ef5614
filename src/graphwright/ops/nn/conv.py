"""Conv."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphwright.ir.builtin.constant import is_constant
from graphwright.ir.graph import Node, Value
from graphwright.ir.interfaces.arithmetic import Arithmetic, convolution_operations
from graphwright.ir.interfaces.blocked_form import Blocked, BlockedForm, can_be_blocked, has_one_channel
from graphwright.ir.interfaces.output_channels import OutputChannels
from graphwright.ir.interfaces.padding import Padded, PaddingRule
from graphwright.ir.op import (
    Array,
    AtenImporter,
    Fact,
    Importer,
    Inference,
    Op,
    Sample,
    Trait,
    UnknownRank,
    arg,
    op,
)
from graphwright.ir.op.exporter import Exporter, as_onnx
from graphwright.ir.symbols import Dim, symbol
from graphwright.ir.types import BF16, F16, F32, F64, I32, DType, TensorType
from graphwright.ops.core.aten_imports import per_axis
from graphwright.ops.core.checks import FLOATS, need_dtype, rank_of
from graphwright.ops.core.rounded_operands import product_dtype, rounded, verify_precision
from graphwright.ops.core.size_inference import number
from graphwright.ops.nn.conv_transpose import ConvTranspose
from graphwright.ops.nn.spatial import (
    WINDOW_ATTRIBUTES,
    Windows,
    accumulator,
    import_padding,
    is_depthwise,
    need_bias,
    need_equal_ranks,
    need_groups,
    same_pads,
    tap,
    verify_groups,
    window_leak,
    windows,
    with_pad_node,
)
from graphwright.records import replace

MAX_PLANAR_CHANNELS = 8
"""Convolutions with at most this many input channels read them channels first: blocks would be mostly
padding.
"""


@op("Conv")
class Conv(Arithmetic, BlockedForm, OutputChannels, PaddingRule, Op):
    """Convolution (cross-correlation) of x[N, C, D...] with w[M, C/group, K...], plus the optional bias[M]:
    y[N, M, D'...].

    ``pads`` are the begins of all spatial axes, then their ends. Empty lists are the defaults: strides and
    dilations of 1, no pads. With ``precision`` bf16, x and w are rounded to bf16, and bias and result are
    f32; a kernel may skip the rounding of x.
    """

    strides: tuple[int, ...] = ()
    pads: tuple[Dim, ...] = ()
    dilations: tuple[int, ...] = ()
    group: int = 1
    auto_pad: str = ""
    precision: DType | None = None
    traits = Trait.CONTRACTION
    optional_inputs = frozenset({2})

    def verify(self) -> None:
        verify_groups(self.group, self.auto_pad)
        verify_precision(self.precision)

    @property
    def is_plain(self) -> bool:
        """Whether it has one group, no padding, and no other precision than its operands."""
        return self.group == 1 and not self.auto_pad and set(self.pads) <= {0} and self.precision is None

    def windows(self, kernel: tuple[Dim, ...]) -> Windows:
        """The windows of the convolution, given the spatial sizes of the weight."""
        return windows(kernel, self.strides, self.dilations, self.pads)

    def fold_operands(self, x: Fact, w: Fact, bias: Fact | None = None) -> tuple[Op, tuple[int, ...]] | None:
        if not self.auto_pad or x.type.shape is None or w.type.shape is None or x.rank != w.rank:
            return None
        pads = same_pads(x.shape[2:], self.windows(w.shape[2:]), self.auto_pad)
        return replace(self, pads=pads, auto_pad=""), (0, 1) if bias is None else (0, 1, 2)

    def infer(self, at: Inference, x: Fact, w: Fact, bias: Fact | None = None) -> TensorType:
        need_dtype(at, x, FLOATS)
        dtype = product_dtype(at, self.precision, x, w)
        if bias is not None:
            need_dtype(at, bias, {dtype}, "the bias")
        need_equal_ranks(at, x, w)
        if self.auto_pad:
            raise UnknownRank
        features = w.shape[0]
        need_groups(at, x, w, self.group)
        need_bias(at, bias, features)
        return TensorType(dtype, (x.shape[0], features, *self.windows(w.shape[2:]).infer(at, x.shape[2:])))

    def operations(self, node: Node) -> Dim:
        return convolution_operations(node)

    def weights_by_channel(self, weights: Array) -> Array:
        return weights.reshape(len(weights), -1)

    def along_channels(self, scale: Array, weights: tuple[int, ...]) -> Array:
        return scale.reshape(-1, *(1,) * (len(weights) - 1))

    def padding_leak(self, node: Node, padded: Padded) -> str:
        if any(padded.axes(value) for value in node.inputs[1:]):
            return "its weights are padded"
        if padded.among(node.operand(0), [1]):
            return "it sums along a padded axis"
        return window_leak(node.operand(0), self.pads, padded)

    def blocked_form(self, node: Node, operands: Sequence[Value | None], lanes: int) -> Blocked | str:
        """Convolutions with one group, with groups of whole blocks, or depthwise. An input of few channels is
        read channels first; a result of one channel is row-major.
        """
        x, w, y = operands[0], operands[1], node.output
        assert x is not None and w is not None
        single = has_one_channel(y) and self.group == 1 and can_be_blocked(x)
        if not (single or can_be_blocked(y)) or x.type.dtype != y.type.dtype:
            return f"a convolution of {x.type} to {y.type} has no channel-blocked form"
        if not all(is_constant(v) for v in operands[1:] if v is not None):
            return "its weights are not constant"
        cout, cin, *_ = w.type.sizes
        if is_depthwise(self.group, w.type.sizes):
            return Blocked()
        if self.group > 1 and (cin % lanes or (cout // self.group) % lanes):
            return f"groups of {cin} to {cout // self.group} channels do not fill blocks of {lanes}"
        planar = self.group == 1 and cin <= MAX_PLANAR_CHANNELS
        if single:
            return (
                "neither its input nor its result has enough channels"
                if planar
                else Blocked(results=frozenset())
            )
        return Blocked(operands=frozenset()) if planar else Blocked()

    def reference(self, x: Array, w: Array, bias: Array | None = None) -> Array:
        if self.precision is not None:
            x, w = (rounded(factor, self.precision) for factor in (x, w))
        shape = self.windows(w.shape[2:])
        counts = tuple(number(n) for n in shape.counts(x.shape[2:]))
        wide, groups = accumulator(x), self.group
        padded = shape.padded(x.astype(wide, copy=False), counts, 0)
        weights = w.astype(wide, copy=False).reshape(groups, w.shape[0] // groups, *w.shape[1:])
        depth = w.shape[1]
        multiply = np.multiply if depth == 1 else np.matmul
        length = int(np.prod(counts))
        out = np.zeros((len(x), groups, weights.shape[1], length), wide)
        for position in shape.positions():  # one tap at a time: an im2col matrix would need too much memory
            patch = padded[shape.elements_of_tap(position, counts)].reshape(len(x), groups, depth, length)
            out += multiply(weights[tap(position)], patch)
        out = out.reshape(len(x), w.shape[0], *counts)
        if bias is not None:
            out += bias.astype(wide).reshape(-1, *[1] * len(counts))
        return out.astype(x.dtype, copy=False)


def _import(i: Importer) -> Any:
    pads, auto_pad = import_padding(i)
    conv = Conv(
        strides=tuple(i.attr("strides", ())),
        pads=pads,
        dilations=tuple(i.attr("dilations", ())),
        group=i.attr("group", 1),
        auto_pad=auto_pad,
    )
    bias = i.optional(2)
    return i.emit(conv, i.input(0), i.input(1), *([] if bias is None else [bias]))


_as_conv = as_onnx("Conv", WINDOW_ATTRIBUTES)


def export_conv(e: Exporter, op: Conv, x: Any, *others: Value) -> Any:
    """Symbolic pads are exported as a Pad node."""
    op, x = with_pad_node(e, op, x)
    return _as_conv(e, op, x, *others)


Conv.to_onnx = export_conv
Conv.onnx = {("Conv", 1): _import}
_N, _H = symbol("N"), symbol("H")
_X, _W = arg(F32, 2, 4, 7, 5), arg(F32, 6, 4, 3, 3)
Conv.samples = (
    Sample(Conv(), (_X, _W)),
    Sample(Conv(pads=(1, 1, 1, 1)), (arg(F32, _N, 4, _H, 5), _W, arg(F32, 6))),
    Sample(Conv((2, 1), (0, 1, 2, 0), (2, 1)), (_X, _W, arg(F32, 6))),
    Sample(Conv(group=2), (_X, arg(F32, 6, 2, 3, 3), arg(F32, 6))),
    Sample(Conv(group=4, pads=(1, 1, 1, 1)), (_X, arg(F32, 8, 1, 3, 3))),
    Sample(Conv((2, 2), auto_pad="SAME_UPPER"), (arg(F32, _N, 4, _H, 6), _W)),
    Sample(Conv((3, 2), auto_pad="SAME_LOWER"), (_X, arg(F32, 6, 4, 2, 2))),
    Sample(Conv((2,)), (arg(F64, 2, 3, 9), arg(F64, 4, 3, 4))),
    Sample(Conv(), (arg(F32, 1, 2, 3, 4, 5), arg(F32, 3, 2, 2, 2, 2))),
    Sample(Conv(), (arg(F16, 1, 2, 4, 4), arg(F16, 3, 2, 3, 3))),
    Sample(Conv(), (arg(BF16, 0, 2, 4, 4), arg(BF16, 3, 2, 3, 3))),
    Sample(Conv(pads=(1, 1, 1, 1), precision=BF16), (_X, arg(BF16, 6, 4, 3, 3), arg(F32, 6))),
    Sample(Conv(precision=BF16), (arg(BF16, 1, 3, 4, 5), arg(F32, 2, 3, 3, 3))),
    Sample(Conv(precision=BF16), (_X, _W, arg(BF16, 6)), "the bias is bf16"),
    Sample(Conv(), (_X, arg(F32, 6, 3, 3, 3)), "4 and 3 differ"),
    Sample(Conv((2, 2, 1), auto_pad="SAME_UPPER"), (_X, _W), "3 strides for 2 spatial axes"),
    Sample(Conv(group=4), (_X, arg(F32, 6, 1, 3, 3)), "features of the weight: 6 is not a multiple of 4"),
    Sample(Conv(), (_X, _W, arg(F32, 5)), "bias and features: 5 and 6 differ"),
    Sample(
        Conv(),
        (arg(F32, 1, 4, 2, 5), _W),
        "spatial axis 0 has 2 elements after padding, but a window spans 3",
    ),
    Sample(Conv((1,)), (_X, _W), "1 strides for 2 spatial axes"),
    Sample(Conv(pads=(-1, 0, 0, 0)), (_X, _W), "they must be at least 0"),
    Sample(Conv(), (arg(F32, 1, 4, 7), _W), "their ranks must be equal and at least 3"),
    Sample(Conv(), (arg(I32, 2, 4, 7, 5), arg(I32, 6, 4, 3, 3)), "the input is i32"),
    Sample(Conv(group=0), (_X, _W), "0 groups"),
)


def _aten_convolution(i: AtenImporter) -> Any:
    """A convolution, or a transposed one."""
    x, w, bias = i.input(0), i.input(1), i.optional(2)
    rank = rank_of(x) - 2
    strides, padding, dilations, output_padding = (
        per_axis(i.attr(name), rank) for name in ("stride", "padding", "dilation", "output_padding")
    )
    group = i.attr("groups")
    if i.attr("transposed"):
        return i.emit(ConvTranspose(strides, padding * 2, dilations, output_padding, group), x, w, bias)
    return i.emit(Conv(strides, padding * 2, dilations, group), x, w, bias)


Conv.aten = {"convolution": _aten_convolution}
