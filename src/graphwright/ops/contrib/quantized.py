"""ONNX Runtime's quantised ops, as those of floats between DequantizeLinear and QuantizeLinear.

Its elementwise ones, pools, convolutions with channels last, QLinearConcat, QLinearSoftmax, QGemm, products
with dynamically quantised or packed weights, DynamicQuantizeLSTM and QAttention.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op import Array, Importer, Op
from graphwright.ir.types import F32, U8, DType
from graphwright.ops.contrib.attention import import_attention
from graphwright.ops.contrib.common import added, contribute
from graphwright.ops.core.binary import Add, Mul, Sub, Where
from graphwright.ops.core.cast import Cast
from graphwright.ops.core.common import rank_of
from graphwright.ops.core.concat import Concat
from graphwright.ops.core.gather import Gather
from graphwright.ops.core.matmul import MatMul
from graphwright.ops.core.ranked_import import ranked
from graphwright.ops.core.reductions import ReduceMean
from graphwright.ops.core.reshape import Reshape
from graphwright.ops.core.transpose import Transpose
from graphwright.ops.core.unary import Sigmoid
from graphwright.ops.nn.activations import LeakyRelu
from graphwright.ops.nn.attention import ScaledDotProductAttention
from graphwright.ops.nn.average_pool import AveragePool
from graphwright.ops.nn.global_pool import GlobalAveragePool
from graphwright.ops.nn.lstm import LSTM
from graphwright.ops.nn.max_pool import MaxPool
from graphwright.ops.nn.recurrent import import_recurrent
from graphwright.ops.nn.softmax import Softmax
from graphwright.ops.nn.spatial import import_pool
from graphwright.ops.quantized.conv_integer import conv_fields
from graphwright.ops.quantized.dequantize_linear import DequantizeLinear
from graphwright.ops.quantized.dynamic_quantize_linear import DynamicQuantizeLinear
from graphwright.ops.quantized.matmul_integer import MatMulInteger
from graphwright.ops.quantized.matmul_nbits import MatMulNBits, unpacked
from graphwright.ops.quantized.qlinear_conv import QLinearConv
from graphwright.ops.quantized.quantize_linear import QuantizeLinear


def _dequantized(i: Importer, x: int, scale: int, zero: int, axis: int = 1) -> Value:
    """Operand ``x`` as floats, by the operands ``scale`` and ``zero``, which may be absent."""
    made: Value = i.emit(DequantizeLinear(F32, axis), i.input(x), i.input(scale), *_present(i, zero))
    return made


def _quantized(i: Importer, y: Value, scale: int, zero: int, like: int = 0) -> Value:
    """``y`` quantised as the operands say, as the dtype of operand ``like`` without a zero point."""
    to = (i.optional(zero) or i.input(like)).type.dtype
    made: Value = i.emit(QuantizeLinear(to), y, i.input(scale), *_present(i, zero))
    return made


def _present(i: Importer, index: int) -> list[Value]:
    value = i.optional(index)
    return [] if value is None else [value]


def _binary(op: Op) -> Callable[[Importer], Value]:
    """Operands: a, its scale and zero point, b with its own, and those of the result."""

    def convert(i: Importer) -> Value:
        return _quantized(i, i.emit(op, _dequantized(i, 0, 1, 2), _dequantized(i, 3, 4, 5)), 6, 7)

    return convert


def _unary(made: Callable[[Importer, Value], Value]) -> Callable[[Importer], Value]:
    """Operands: x, its scale and zero point, and those of the result."""
    return lambda i: _quantized(i, made(i, _dequantized(i, 0, 1, 2)), 3, 4)


def _softmax(i: Importer, x: Value) -> Value:
    made: Value = i.emit(Softmax(int(i.attr("axis", -1)), int(i.attr("opset", 13)) < 13), x)
    return made


def _pooled(make: Callable[[Importer], Op]) -> Callable[[Importer, Value], Value]:
    """A pool, of an image whose channels may lie last."""

    def convert(i: Importer, x: Value) -> Value:
        if i.attr("channels_last", 0):
            return _with_channels_first(i, x, lambda image: i.emit(make(i), image))
        plain: Value = i.emit(make(i), x)
        return plain

    return convert


def _with_channels_first(i: Importer, x: Value, compute: Callable[[Value], Value]) -> Value:
    """``compute`` of an image whose channels lie last, as those of the result do."""
    rank = rank_of(x)
    first = i.emit(Transpose((0, rank - 1, *range(1, rank - 1))), x)
    last: Value = i.emit(Transpose((0, *range(2, rank), 1)), compute(first))
    return last


def _average_pool(i: Importer) -> Op:
    return AveragePool(**import_pool(i), include_pads=bool(i.attr("count_include_pad", 0)))


def _import_conv(i: Importer) -> Any:
    """QLinearConv, of an image whose channels may lie last."""
    op, (x, *others) = QLinearConv(**conv_fields(i)), i.inputs()
    if not i.attr("channels_last", 0) or x is None:
        return i.emit(op, x, *others)
    return _with_channels_first(i, x, lambda image: i.emit(op, image, *others))


def _import_max_pool(i: Importer) -> Any:
    """MaxPool of an image whose channels lie last."""
    return _with_channels_first(i, i.input(0), lambda image: i.emit(MaxPool(**import_pool(i)), image))


def _reduce_mean(i: Importer, x: Value) -> Value:
    axes = i.attr("axes")
    made: Value = i.emit(ReduceMean(None if axes is None else tuple(axes), bool(i.attr("keepdims", 1))), x)
    return made


def _import_concat(i: Importer) -> Value:
    """Operands: scale and zero point of the result, then those of each part behind it."""
    parts = [_dequantized(i, k, k + 1, k + 2) for k in range(2, len(i.inputs()), 3)]
    return _quantized(i, i.emit(Concat(int(i.required_attr("axis"))), *parts), 0, 1, like=2)


def _import_where(i: Importer) -> Value:
    chosen = i.emit(Where(), i.input(0), _dequantized(i, 1, 2, 3), _dequantized(i, 4, 5, 6))
    return _quantized(i, chosen, 7, 8, like=1)


def _import_gemm(i: Importer) -> Value:
    """``alpha * a @ b``, plus c of i32 in steps of both scales; f32 where y has no scale."""
    a, b = _dequantized(i, 0, 1, 2), _dequantized(i, 3, 4, 5, axis=0 if i.attr("transB", 0) else 1)
    turned = [
        i.emit(Transpose((1, 0)), x) if i.attr(name, 0) else x for x, name in ((a, "transA"), (b, "transB"))
    ]
    product = i.emit(MatMul(), *turned)
    c = i.optional(6)
    if c is not None:
        steps = i.emit(Mul(), i.input(1), i.input(4))
        product = i.emit(Add(), product, i.emit(Mul(), i.emit(Cast(F32), c), steps))
    alpha = float(i.attr("alpha", 1.0))
    y = product if alpha == 1 else i.emit(Mul(), product, i.const(np.array(alpha, np.float32)))
    return y if i.optional(7) is None else _quantized(i, y, 7, 8)


def _scaled(i: Importer, total: Value, *scales: Value) -> Value:
    """Sums of integers as floats."""
    y: Value = i.emit(Cast(F32), total)
    factor, *others = scales
    for scale in others:
        factor = i.emit(Mul(), factor, scale)
    y = i.emit(Mul(), y, factor)
    return y


def _import_dynamic_matmul(i: Importer) -> Value:
    """a of floats is quantised by its own range; b with its scale, zero point and, behind them, a bias."""
    a, scale, zero = i.emit(DynamicQuantizeLinear(), i.input(0))
    total = i.emit(MatMulInteger(), a, i.input(1), zero, i.optional(3))
    return added(i, _scaled(i, total, scale, i.input(2)), i.optional(4))


def _import_integer_to_float(i: Importer) -> Value:
    """Operands: a, b, their scales, their zero points, and a bias."""
    total = i.emit(MatMulInteger(), i.input(0), i.input(1), i.optional(4), i.optional(5))
    return added(i, _scaled(i, total, i.input(2), i.input(3)), i.optional(6))


def _import_packed_matmul(i: Importer) -> Value:
    """MatMulNBits: zero points, if any, are packed as the codes are, or plain, of the dtype of a.

    Where a table says which block an element of K belongs to, weights are floats from here on.
    """
    op, a = MatMulNBits(int(i.attr("bits", 4)), int(i.required_attr("block_size"))), i.input(0)
    n, k = int(i.required_attr("N")), int(i.required_attr("K"))
    blocks = -(-k // op.block)
    scales = _as(i, i.emit(Reshape((n, blocks)), i.input(2)), a.type.dtype)
    zeros = _packed_zeros(i, n, blocks, op.bits)
    if i.optional(4) is None:
        words = np.ascontiguousarray(_packed(i).reshape(n, blocks * op.block * op.bits // 8)).view("<u4")
        y = i.emit(op, a, i.const(words), scales, *([] if zeros is None else [zeros]))
    else:
        y = i.emit(MatMul(), a, i.emit(Transpose((1, 0)), _grouped_weights(i, op, n, k, scales, zeros)))
    return added(i, y, i.optional(5))


def _grouped_weights(
    i: Importer, op: MatMulNBits, n: int, k: int, scales: Value, zeros: Value | None
) -> Value:
    """w[N, K], its scales and zero points looked up by the block of each k."""
    dtype = scales.type.dtype
    codes = i.const(np.ascontiguousarray(unpacked(_packed(i).reshape(n, -1), op.bits)[:, :k]))
    if zeros is None:
        zeros = i.const(np.full(scales.type.sizes, op.middle, np.uint8))
    scales, zeros = (i.emit(Gather(1), x, i.input(4)) for x in (scales, _as(i, zeros, dtype)))
    made: Value = i.emit(Mul(), i.emit(Sub(), _as(i, codes, dtype), zeros), scales)
    return made


def _packed(i: Importer) -> Array:
    """The bytes of the codes."""
    packed = i.constant(1)
    if packed is None:
        raise i.fail("the packed weights are computed", hint="make them an initialiser")
    return packed


def _packed_zeros(i: Importer, n: int, blocks: int, bits: int) -> Value | None:
    """Zero points [n, blocks], if the node has any."""
    if i.optional(3) is None:
        return None
    given, known = i.input(3), i.constant(3)
    if given.type.dtype != U8:
        made: Value = i.emit(Reshape((n, blocks)), given)
        return made
    if known is None:
        raise i.fail("the packed zero points are computed", hint="make them an initialiser")
    return i.const(np.ascontiguousarray(unpacked(known.reshape(n, -1), bits)[:, :blocks]))


def _as(i: Importer, x: Value, dtype: DType) -> Value:
    made: Value = x if x.type.dtype == dtype else i.emit(Cast(dtype), x)
    return made


def _import_lstm(i: Importer) -> Any:
    """Weights [directions, inputs, 4 * hidden] with a scale and a zero point each, or one for each direction,
    or for each of the columns; behind the operands of LSTM.

    What ONNX Runtime quantises as it runs, inputs and states, stays as it is here.
    """
    w, r = (_lstm_weights(i, k, scale) for k, scale in ((1, 8), (2, 10)))
    operands = (i.input(0), w, r, *(i.optional(k) for k in range(3, 8)))
    return import_recurrent(_Replaced(i, operands), LSTM, 8, coupled=bool(i.attr("input_forget", 0)))


def _import_attention(i: Importer) -> Any:
    """Operands: input, weights, bias, the scales of the first two, a mask, their zero points, and a cache."""
    operands = (_dequantized(i, 0, 3, 6), _dequantized(i, 1, 4, 7), *map(i.optional, (2, 5, 8)))
    return import_attention(_Replaced(i, operands))


def _lstm_weights(i: Importer, index: int, scale: int) -> Value:
    weights = i.input(index)
    factors = []
    for parameter in (i.input(scale), i.input(scale + 1)):
        shape = parameter.type.dims
        columns = (shape[0], 1, shape[1] if len(shape) > 1 else 1) if shape else (1, 1, 1)
        factors.append(i.emit(Cast(F32), i.emit(Reshape(columns, True), parameter)))
    shifted = i.emit(Sub(), i.emit(Cast(F32), weights), factors[1])
    made: Value = i.emit(Transpose((0, 2, 1)), i.emit(Mul(), shifted, factors[0]))
    return made


class _Replaced:
    """An importer of a node with other inputs; of these, none is a constant of the source."""

    def __init__(self, i: Importer, inputs: Sequence[Value | None]) -> None:
        self._importer, self._inputs = i, inputs

    def input(self, index: int) -> Value:
        value = self.optional(index)
        if value is None:
            raise self._importer.fail(f"input {index} is missing")
        return value

    def optional(self, index: int) -> Value | None:
        return self._inputs[index] if index < len(self._inputs) else None

    def inputs(self) -> list[Value | None]:
        return list(self._inputs)

    def constant(self, index: int) -> Array | None:
        return None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._importer, name)


contribute(
    QuantizeLinear,
    QuantizeLinear=QuantizeLinear.onnx["QuantizeLinear", 10],
    QLinearAdd=_binary(Add()),
    QLinearMul=_binary(Mul()),
    QLinearSigmoid=_unary(lambda i, x: i.emit(Sigmoid(), x)),
    QLinearLeakyRelu=_unary(lambda i, x: i.emit(LeakyRelu(float(i.attr("alpha", 0.01))), x)),
    QLinearSoftmax=_unary(_softmax),
    QLinearReduceMean=_unary(_reduce_mean),
    QLinearAveragePool=ranked(_unary(_pooled(_average_pool))),
    QLinearGlobalAveragePool=ranked(_unary(_pooled(lambda i: GlobalAveragePool()))),
    QLinearConcat=_import_concat,
    QLinearWhere=_import_where,
    QGemm=_import_gemm,
)
contribute(QLinearConv, QLinearConv=ranked(_import_conv))
contribute(MaxPool, NhwcMaxPool=ranked(_import_max_pool))
contribute(DequantizeLinear, DequantizeLinear=DequantizeLinear.onnx["DequantizeLinear", 10])
contribute(
    MatMulInteger,
    DynamicQuantizeMatMul=_import_dynamic_matmul,
    MatMulIntegerToFloat=_import_integer_to_float,
)
contribute(MatMulNBits, MatMulNBits=_import_packed_matmul)
contribute(LSTM, DynamicQuantizeLSTM=ranked(_import_lstm))
contribute(ScaledDotProductAttention, QAttention=ranked(_import_attention))
