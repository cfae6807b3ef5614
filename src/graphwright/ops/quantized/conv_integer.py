"""ConvInteger."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Node, Value
from graphwright.ir.interfaces.arithmetic import Arithmetic, convolution_operations
from graphwright.ir.op import Array, Fact, Importer, Inference, Op, Sample, Trait, arg, family, op
from graphwright.ir.op.exporter import Exporter, Operand, as_onnx
from graphwright.ir.symbols import Dim, product, symbol
from graphwright.ir.types import F32, F64, I8, I32, U8, DType, TensorType
from graphwright.ops.core.binary import Add, Sub
from graphwright.ops.core.cast import Cast, as_dtype
from graphwright.ops.core.checks import need_dtype, need_scalar, rank_of
from graphwright.ops.core.reshape import reshaped
from graphwright.ops.core.unary import Round
from graphwright.ops.nn.conv import Conv
from graphwright.ops.nn.spatial import WINDOW_ATTRIBUTES, import_padding, with_pad_node
from graphwright.ops.quantized.quantized import BYTES, exact_sums, is_single, sums_are_exact
from graphwright.records import replace


@family
class QuantizedConv(Op):
    """Base class of convolutions of 8-bit integers. The attributes are those of :class:`Conv`.

    The reference computes sums in f64, in which sums of up to 2**37 products are exact.
    """

    strides: tuple[int, ...] = ()
    pads: tuple[Dim, ...] = ()
    dilations: tuple[int, ...] = ()
    group: int = 1
    auto_pad: str = ""

    @property
    def conv(self) -> Conv:
        """The convolution of the dequantized operands."""
        return Conv(self.strides, self.pads, self.dilations, self.group, self.auto_pad)

    def verify(self) -> None:
        self.conv.verify()

    def with_pads(self, x: Fact, w: Fact) -> Op | None:
        """The op with the pads of ``auto_pad``; None if it has none, or if sizes are unknown."""
        folded = self.conv.fold_operands(x, w)
        if folded is None:
            return None
        assert isinstance(folded[0], Conv)
        return replace(self, pads=folded[0].pads, auto_pad="")

    def summed(self, at: Inference, x: Fact, w: Fact, bias: Fact | None = None) -> TensorType:
        """The type of the i32 sums."""
        need_dtype(at, x, BYTES)
        need_dtype(at, w, BYTES, "the weight")
        wide = self.conv.infer(at, _wide(x), _wide(w), None if bias is None else _wide(bias))
        return TensorType(I32, wide.shape)

    def sums(
        self, x: Array, w: Array, x_zero: Array | None, w_zero: Array | None, bias: Array | None = None
    ) -> Array:
        """``Conv(x - x_zero, w - w_zero) + bias`` in f64; a pad has the value ``x_zero`` in ``x``."""
        wide, weight = x.astype(np.float64), w.astype(np.float64)
        if x_zero is not None:
            wide = wide - x_zero.reshape(())
        if w_zero is not None:
            weight = weight - per_feature(w_zero, w.ndim)
        return self.conv.reference(wide, weight, None if bias is None else bias.astype(np.float64))

    def summed_values(
        self, b: Builder, x: Value, w: Value, x_zero: Value | None, w_zero: Value | None, bias: Value | None
    ) -> Value:
        """:meth:`sums` as nodes, in i32."""
        op = ConvInteger(self.strides, self.pads, self.dilations, self.group, self.auto_pad)
        sums: Value = b(op, x, w, x_zero, w_zero)
        if bias is None:
            return sums
        biased: Value = b(Add(), sums, per_feature_value(b, bias, rank_of(sums) - 1))
        return biased


_LIMIT = 2**22
"""Sums up to this magnitude leave two bits of f32 for the rounding errors of fast convolutions."""


def _wide(fact: Fact) -> Fact:
    return Fact(TensorType(F64, fact.shape))


def _shifted(b: Builder, x: Value, zero: Value | None, dtype: DType) -> Value:
    """``x - zero`` in ``dtype``."""
    wide = as_dtype(b, x, dtype)
    if zero is None:
        return wide
    difference: Value = b(Sub(), wide, as_dtype(b, reshaped(b, zero, ()), dtype))
    return difference


def _weight(b: Builder, w: Value, zero: Value | None) -> tuple[Value, float]:
    """``w - zero`` in f32, and an upper bound of the sum of its magnitudes over one feature."""
    rank = rank_of(w)
    known, shift = b.fact(w), b.fact(zero)
    if known is not None and known.data is not None and (shift is None or shift.data is not None):
        weight = known.data.astype(np.float32)
        if shift is not None and shift.data is not None:
            weight = weight - per_feature(shift.data, rank).astype(np.float32)
        sums = np.abs(weight).sum(axis=tuple(range(1, rank)), dtype=np.float64)
        return b.const(weight), float(sums.max(initial=0))
    wide = as_dtype(b, w, F32)
    if zero is not None:
        wide = b(Sub(), wide, as_dtype(b, per_feature_value(b, zero, rank), F32))
    taps = product(w.type.dims[1:])
    return wide, 255 * taps if isinstance(taps, int) else np.inf


@op("ConvInteger")
class ConvInteger(Arithmetic, QuantizedConv):
    """The convolution of ``x - x_zero`` with ``w - w_zero``, in i32; x and w are i8 or u8. Attributes: see
    :class:`Conv`.

    The optional operands 2 and 3 are the zero points. ``w_zero`` is a scalar, or has one element per feature.
    Sums that exceed i32 wrap around.
    """

    traits = Trait.CONTRACTION
    optional_inputs = frozenset({2, 3})

    def fold_operands(self, x: Fact, w: Fact, *zeros: Fact | None) -> tuple[Op, tuple[int, ...]] | None:
        folded = self.with_pads(x, w)
        return None if folded is None else (folded, tuple(range(2 + len(zeros))))

    def infer(
        self, at: Inference, x: Fact, w: Fact, x_zero: Fact | None = None, w_zero: Fact | None = None
    ) -> TensorType:
        type = self.summed(at, x, w)
        if x_zero is not None:
            need_dtype(at, x_zero, {x.dtype}, "the zero point of x")
            need_scalar(at, x_zero, "the zero point of x")
        if w_zero is not None:
            need_dtype(at, w_zero, {w.dtype}, "the zero point of w")
            need_per_feature(at, w, w_zero, "the zero point of w")
        return type

    def operations(self, node: Node) -> Dim:
        return convolution_operations(node)

    def reference(
        self, x: Array, w: Array, x_zero: Array | None = None, w_zero: Array | None = None
    ) -> Array:
        return self.sums(x, w, x_zero, w_zero).astype(np.int64).astype(np.int32)

    def decompose(
        self, b: Builder, x: Value, w: Value, x_zero: Value | None = None, w_zero: Value | None = None
    ) -> Value:
        """One or two convolutions in f32 if they are exact, otherwise one in f64."""
        weight, bound = _weight(b, w, w_zero)
        if sums_are_exact(bound, _LIMIT):
            wide, weight = _shifted(b, x, x_zero, F32), as_dtype(b, weight, F32)
            return exact_sums(b, wide, bound, _LIMIT, lambda part: b(self.conv, part, weight))
        f64_sums = b(self.conv, _shifted(b, x, x_zero, F64), as_dtype(b, weight, F64))
        sums: Value = b(Cast(I32), b(Round(), f64_sums))
        return sums


def need_per_feature(at: Inference, w: Fact, parameter: Fact, what: str) -> None:
    """Raises InferError unless ``parameter`` is a scalar or has one element per feature of ``w``."""
    if is_single(parameter.shape):
        return
    if parameter.rank != 1:
        raise at.fail(f"{what} is {parameter.type}; it must be a scalar or a vector")
    at.require_broadcast(parameter.shape[0], w.shape[0], f"{what} and features")


def per_feature(parameter: Array, rank: int) -> Array:
    """A parameter, reshaped to broadcast to a weight of ``rank``."""
    return parameter.reshape(() if is_single(parameter.shape) else (-1, *[1] * (rank - 1)))


def per_feature_value(b: Builder, parameter: Value, rank: int) -> Value:
    """:func:`per_feature` as nodes."""
    rank_of(parameter)
    dims = parameter.type.dims
    return reshaped(b, parameter, () if is_single(dims) else (*dims, *[1] * (rank - 1)))


def conv_fields(i: Importer) -> dict[str, Any]:
    """The fields of :class:`QuantizedConv` of a source node."""
    pads, auto_pad = import_padding(i)
    return {
        "strides": tuple(i.attr("strides", ())),
        "pads": pads,
        "dilations": tuple(i.attr("dilations", ())),
        "group": int(i.attr("group", 1)),
        "auto_pad": auto_pad,
    }


ConvInteger.onnx = {("ConvInteger", 10): lambda i: i.emit(ConvInteger(**conv_fields(i)), *i.inputs())}
_as_conv = as_onnx("ConvInteger", WINDOW_ATTRIBUTES)


def padded_with_zero_point(
    e: Exporter, op: QuantizedConv, x: Value, zero: Value | None
) -> tuple[QuantizedConv, Operand]:
    """``op`` and its input for an export: symbolic pads become a Pad node that fills with the zero point."""
    fill: Operand = zero if zero is None or zero.type.shape == () else e.emit("Squeeze", zero)
    return with_pad_node(e, op, x, fill)


def _export(
    e: Exporter, op: ConvInteger, x: Value, w: Value, x_zero: Value | None = None, *w_zero: Value | None
) -> Any:
    bare, padded = padded_with_zero_point(e, op, x, x_zero)
    return _as_conv(e, bare, padded, w, x_zero, *w_zero)


ConvInteger.to_onnx = _export
_N, _H = symbol("N"), symbol("H")
_X, _W = arg(U8, 2, 4, 7, 5), arg(I8, 6, 4, 3, 3)
ConvInteger.samples = (
    Sample(ConvInteger(), (_X, _W)),
    Sample(ConvInteger((2, 1), (1, 1, 1, 1)), (_X, _W, arg(U8), arg(I8, 6))),
    Sample(ConvInteger(pads=(1, 0, 1, 0)), (arg(U8, _N, 4, _H, 5), _W, arg(U8, 1), arg(I8))),
    Sample(ConvInteger(group=2), (_X, arg(U8, 6, 2, 3, 3), None, arg(U8, 6))),
    Sample(ConvInteger((2, 2), auto_pad="SAME_UPPER"), (_X, _W, arg(U8))),
    Sample(ConvInteger(dilations=(2,)), (arg(I8, 1, 2, 9), arg(I8, 3, 2, 3))),
    Sample(ConvInteger(), (arg(F32, 2, 4, 7, 5), _W), "the input is f32"),
    Sample(ConvInteger(), (_X, arg(I8, 6, 3, 3, 3)), "4 and 3 differ"),
    Sample(ConvInteger(), (_X, _W, arg(I8)), "the zero point of x is i8"),
    Sample(ConvInteger(), (_X, _W, arg(U8, 4)), "it must be a scalar"),
    Sample(ConvInteger(), (_X, _W, arg(U8), arg(I8, 4)), "the zero point of w and features: 4 and 6 differ"),
    Sample(ConvInteger(group=0), (_X, _W), "0 groups"),
)
