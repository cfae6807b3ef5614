"""Import of ONNX Runtime's quantized ops, most of them as float ops between DequantizeLinear and
QuantizeLinear.

These are elementwise ops, pooling, channels-last convolutions, QLinearConcat, QLinearSoftmax, QGemm, matrix
multiplications with dynamic quantization or packed weights, DynamicQuantizeLSTM and QAttention.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op import Array, Importer, Op
from graphwright.ir.types import F32, U8
from graphwright.ops.contrib.attention import import_attention
from graphwright.ops.contrib.node_with_inputs import NodeWithInputs
from graphwright.ops.contrib.registration import register_contrib
from graphwright.ops.core.binary import Add, Mul, Sub, added
from graphwright.ops.core.cast import Cast, as_dtype
from graphwright.ops.core.concat import Concat
from graphwright.ops.core.gather import Gather
from graphwright.ops.core.matmul import MatMul
from graphwright.ops.core.ranked_import import ranked
from graphwright.ops.core.reductions import ReduceMean
from graphwright.ops.core.reshape import Reshape, reshaped
from graphwright.ops.core.transpose import Transpose, in_channels_first
from graphwright.ops.core.unary import Sigmoid
from graphwright.ops.core.where import Where
from graphwright.ops.nn.activations import LeakyRelu
from graphwright.ops.nn.attention import ScaledDotProductAttention
from graphwright.ops.nn.average_pool import average_pool_of
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
    """Input ``x``, dequantized with the inputs ``scale`` and ``zero``, which is optional."""
    y: Value = i.emit(DequantizeLinear(F32, axis), i.input(x), i.input(scale), *_if_present(i, zero))
    return y


def _quantized(i: Importer, y: Value, scale: int, zero: int, like: int = 0) -> Value:
    """``y``, quantized with the inputs ``scale`` and ``zero``. Without a zero point, the dtype is that of
    input ``like``.
    """
    to = (i.optional(zero) or i.input(like)).type.dtype
    q: Value = i.emit(QuantizeLinear(to), y, i.input(scale), *_if_present(i, zero))
    return q


def _if_present(i: Importer, index: int) -> list[Value]:
    value = i.optional(index)
    return [] if value is None else [value]


def _binary(op: Op) -> Callable[[Importer], Value]:
    """Imports a binary op. Inputs: a, its scale and zero point; b, its scale and zero point; those of the
    result.
    """

    def convert(i: Importer) -> Value:
        return _quantized(i, i.emit(op, _dequantized(i, 0, 1, 2), _dequantized(i, 3, 4, 5)), 6, 7)

    return convert


def _unary(compute: Callable[[Importer, Value], Value]) -> Callable[[Importer], Value]:
    """Imports a unary op. Inputs: x, its scale and zero point; those of the result."""
    return lambda i: _quantized(i, compute(i, _dequantized(i, 0, 1, 2)), 3, 4)


def _softmax(i: Importer, x: Value) -> Value:
    y: Value = i.emit(Softmax(int(i.attr("axis", -1)), int(i.attr("opset", 13)) < 13), x)
    return y


def _pooled(make_op: Callable[[Importer], Op]) -> Callable[[Importer, Value], Value]:
    """Pooling of an image, which is channels last if the attribute says so."""

    def convert(i: Importer, x: Value) -> Value:
        if i.attr("channels_last", 0):
            return in_channels_first(i, x, lambda image: i.emit(make_op(i), image))
        y: Value = i.emit(make_op(i), x)
        return y

    return convert


def _import_conv(i: Importer) -> Any:
    """QLinearConv of an image, which is channels last if the attribute says so."""
    op, (x, *others) = QLinearConv(**conv_fields(i)), i.inputs()
    if not i.attr("channels_last", 0) or x is None:
        return i.emit(op, x, *others)
    return in_channels_first(i, x, lambda image: i.emit(op, image, *others))


def _import_max_pool(i: Importer) -> Any:
    """MaxPool of a channels-last image."""
    return in_channels_first(i, i.input(0), lambda image: i.emit(MaxPool(**import_pool(i)), image))


def _reduce_mean(i: Importer, x: Value) -> Value:
    axes = i.attr("axes")
    y: Value = i.emit(ReduceMean(None if axes is None else tuple(axes), bool(i.attr("keepdims", 1))), x)
    return y


def _import_concat(i: Importer) -> Value:
    """Inputs: scale and zero point of the result, then each part with its scale and zero point."""
    parts = [_dequantized(i, k, k + 1, k + 2) for k in range(2, len(i.inputs()), 3)]
    return _quantized(i, i.emit(Concat(int(i.required_attr("axis"))), *parts), 0, 1, like=2)


def _import_where(i: Importer) -> Value:
    selected = i.emit(Where(), i.input(0), _dequantized(i, 1, 2, 3), _dequantized(i, 4, 5, 6))
    return _quantized(i, selected, 7, 8, like=1)


def _import_gemm(i: Importer) -> Value:
    """``alpha * (a @ b + c)``, where c is i32 with the scale ``a_scale * b_scale``. The result is f32 if it
    has no scale.
    """
    a, b = _dequantized(i, 0, 1, 2), _dequantized(i, 3, 4, 5, axis=0 if i.attr("transB", 0) else 1)
    factors = [
        i.emit(Transpose((1, 0)), x) if i.attr(name, 0) else x for x, name in ((a, "transA"), (b, "transB"))
    ]
    product = i.emit(MatMul(), *factors)
    c = i.optional(6)
    if c is not None:
        c_scale = i.emit(Mul(), i.input(1), i.input(4))
        product = i.emit(Add(), product, i.emit(Mul(), i.emit(Cast(F32), c), c_scale))
    alpha = float(i.attr("alpha", 1.0))
    y = product if alpha == 1 else i.emit(Mul(), product, i.const(np.array(alpha, np.float32)))
    return y if i.optional(7) is None else _quantized(i, y, 7, 8)


def _scaled(i: Importer, total: Value, *scales: Value) -> Value:
    """Integer sums as floats, multiplied by all ``scales``."""
    y: Value = i.emit(Cast(F32), total)
    factor, *others = scales
    for scale in others:
        factor = i.emit(Mul(), factor, scale)
    y = i.emit(Mul(), y, factor)
    return y


def _import_dynamic_matmul(i: Importer) -> Value:
    """Inputs: a, which is quantized at run time; b, its scale and zero point; a bias."""
    a, scale, zero = i.emit(DynamicQuantizeLinear(), i.input(0))
    total = i.emit(MatMulInteger(), a, i.input(1), zero, i.optional(3))
    return added(i, _scaled(i, total, scale, i.input(2)), i.optional(4))


def _import_integer_to_float(i: Importer) -> Value:
    """Inputs: a, b, their scales, their zero points, and a bias."""
    total = i.emit(MatMulInteger(), i.input(0), i.input(1), i.optional(4), i.optional(5))
    return added(i, _scaled(i, total, i.input(2), i.input(3)), i.optional(6))


def _import_packed_matmul(i: Importer) -> Value:
    """MatMulNBits. Optional zero points are packed like the codes, or have the dtype of a.

    If input 4 assigns the elements of K to blocks, the weights are dequantized to floats instead.
    """
    if i.attr("weight_prepacked", 0):
        raise i.fail("the weights are packed for a GPU (weight_prepacked)", "export the model for the CPU")
    level = int(i.attr("accuracy_level", 0))
    op, a = MatMulNBits(int(i.attr("bits", 4)), int(i.required_attr("block_size")), level), i.input(0)
    n, k = int(i.required_attr("N")), int(i.required_attr("K"))
    blocks = -(-k // op.block)
    scales = as_dtype(i.builder, i.emit(Reshape((n, blocks)), i.input(2)), a.type.dtype)
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
    """The dequantized weights w[N, K]; input 4 is the block of each k."""
    dtype = scales.type.dtype
    codes = i.const(np.ascontiguousarray(unpacked(_packed(i).reshape(n, -1), op.bits)[:, :k]))
    if zeros is None:
        zeros = i.const(np.full(scales.type.sizes, op.middle, np.uint8))
    scales, zeros = (i.emit(Gather(1), x, i.input(4)) for x in (scales, as_dtype(i.builder, zeros, dtype)))
    shifted = i.emit(Sub(), as_dtype(i.builder, codes, dtype), zeros)
    weights: Value = i.emit(Mul(), shifted, scales)
    return weights


def _packed(i: Importer) -> Array:
    """The packed codes, which must be constant."""
    packed = i.constant(1)
    if packed is None:
        raise i.fail("the packed weights are not constant", hint="store them as an initializer")
    return packed


def _packed_zeros(i: Importer, n: int, blocks: int, bits: int) -> Value | None:
    """The zero points [n, blocks]; None if the node has none."""
    if i.optional(3) is None:
        return None
    given, known = i.input(3), i.constant(3)
    if given.type.dtype != U8:
        zeros: Value = i.emit(Reshape((n, blocks)), given)
        return zeros
    if known is None:
        raise i.fail("the packed zero points are not constant", hint="store them as an initializer")
    return i.const(np.ascontiguousarray(unpacked(known.reshape(n, -1), bits)[:, :blocks]))


def _import_lstm(i: Importer) -> Any:
    """DynamicQuantizeLSTM: LSTM with quantized weights [directions, inputs, 4 * hidden]. Scale and zero point
    of each weight follow the inputs of LSTM, and have one element, one per direction, or one per column.

    ONNX Runtime also quantizes inputs and states at run time; here they stay floats.
    """
    w, r = (_lstm_weights(i, k, scale) for k, scale in ((1, 8), (2, 10)))
    inputs = (i.input(0), w, r, *(i.optional(k) for k in range(3, 8)))
    return import_recurrent(NodeWithInputs(i, inputs), LSTM, 8, coupled=bool(i.attr("input_forget", 0)))


def _import_attention(i: Importer) -> Any:
    """QAttention. Inputs: x, weights, bias, the scales of x and weights, a mask, their zero points, and a
    cache.
    """
    inputs = (_dequantized(i, 0, 3, 6), _dequantized(i, 1, 4, 7), *map(i.optional, (2, 5, 8)))
    return import_attention(NodeWithInputs(i, inputs))


def _lstm_weights(i: Importer, index: int, scale: int) -> Value:
    """The dequantized weights [directions, 4 * hidden, inputs] of input ``index``."""
    weights = i.input(index)
    parameters = []
    for parameter in (i.input(scale), i.input(scale + 1)):
        shape = parameter.type.dims
        columns = (shape[0], 1, shape[1] if len(shape) > 1 else 1) if shape else (1, 1, 1)
        parameters.append(i.emit(Cast(F32), reshaped(i.builder, parameter, columns)))
    factor, zero = parameters
    shifted = i.emit(Sub(), i.emit(Cast(F32), weights), zero)
    dequantized: Value = i.emit(Transpose((0, 2, 1)), i.emit(Mul(), shifted, factor))
    return dequantized


register_contrib(
    QuantizeLinear,
    QuantizeLinear=QuantizeLinear.onnx["QuantizeLinear", 10],
    QLinearAdd=_binary(Add()),
    QLinearMul=_binary(Mul()),
    QLinearSigmoid=_unary(lambda i, x: i.emit(Sigmoid(), x)),
    QLinearLeakyRelu=_unary(lambda i, x: i.emit(LeakyRelu(float(i.attr("alpha", 0.01))), x)),
    QLinearSoftmax=_unary(_softmax),
    QLinearReduceMean=_unary(_reduce_mean),
    QLinearAveragePool=ranked(_unary(_pooled(average_pool_of))),
    QLinearGlobalAveragePool=ranked(_unary(_pooled(lambda i: GlobalAveragePool()))),
    QLinearConcat=_import_concat,
    QLinearWhere=_import_where,
    QGemm=_import_gemm,
)
register_contrib(QLinearConv, QLinearConv=ranked(_import_conv))
register_contrib(MaxPool, NhwcMaxPool=ranked(_import_max_pool))
register_contrib(DequantizeLinear, DequantizeLinear=DequantizeLinear.onnx["DequantizeLinear", 10])
register_contrib(
    MatMulInteger,
    DynamicQuantizeMatMul=_import_dynamic_matmul,
    MatMulIntegerToFloat=_import_integer_to_float,
)
register_contrib(MatMulNBits, MatMulNBits=_import_packed_matmul)
register_contrib(LSTM, DynamicQuantizeLSTM=ranked(_import_lstm))
register_contrib(ScaledDotProductAttention, QAttention=ranked(_import_attention))
