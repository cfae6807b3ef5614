"""Makers of what works element by element, or along rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import AttributeProto, TensorProto, helper

from .draft import Draft, Value, integers, nonzero, uniform
from .makers import FLOATS, listed, makes

UNARY = listed(
    "Abs Acos Acosh Asin Asinh Atan Atanh BitwiseNot Ceil Celu Cos Cosh Elu Erf Exp Floor Gelu "
    "HardSigmoid HardSwish Identity IsInf IsNaN LeakyRelu Log Mish Neg Not Reciprocal Relu Round "
    "Selu Shrink Sigmoid Sign Sin Sinh Size Softplus Softsign Sqrt Swish Tan Tanh ThresholdedRelu "
    "NonZero "
)
BINARY = listed(
    "Add And BitwiseAnd BitwiseOr BitwiseXor Div Equal Greater GreaterOrEqual Less LessOrEqual Mul "
    "Or Sub Xor PRelu "
)
CAST_TARGETS = listed("FLOAT DOUBLE FLOAT16 INT8 INT16 INT32 INT64 UINT8 UINT16 UINT32 UINT64 BOOL STRING")
REDUCTIONS = listed(
    "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd "
    "ReduceSum ReduceSumSquare "
)


def float_attributes(g: Draft, op: str) -> dict[str, Any]:
    """Some of the float attributes, at random values."""
    return {
        name: round(g.random.uniform(-0.5, 2.0), 2)
        for name, attribute in g.schema(op).attributes.items()
        if attribute.type.value == AttributeProto.FLOAT and g.chance(0.5)
    }


@makes(*UNARY)
def unary(g: Draft, op: str) -> None:
    attributes = float_attributes(g, op)
    if op == "Gelu" and g.chance(0.5):
        attributes["approximate"] = g.pick("tanh", "none")
    if op == "Celu" and attributes.get("alpha") == 0:
        attributes = {}
    if op == "IsInf":
        attributes = {"detect_negative": g.pick(0, 1), "detect_positive": g.pick(0, 1)}
    g.node(op, [g.operand(g.types(op))], **attributes)


@makes(*BINARY)
def binary(g: Draft, op: str) -> None:
    types = g.types(op)
    a = g.operand(types, known=True)
    if op == "Div":
        return divide(g, a)
    b = g.partner(a)
    swap = op != "PRelu" and g.chance(0.5)
    g.node(op, [b, a] if swap else [a, b])


def divide(g: Draft, a: Value) -> None:
    """Does not divide integers by zero, which is undefined and crashes ONNX Runtime."""
    g.node("Div", [a, g.partner(a, fill=None if a.dtype.startswith("float") else nonzero)])


@makes("Mod")
def mod(g: Draft, op: str) -> None:
    a = g.operand(g.types(op), known=True)
    floats = a.dtype.startswith("float")
    g.node(op, [a, g.partner(a, fill=None if floats else nonzero)], fmod=1 if floats else g.pick(0, 1))


@makes("Pow")
def power(g: Draft, op: str) -> None:
    a = g.operand(g.types(op), known=True)
    kind = g.dtype(g.types(op, 1)) if g.opset >= 12 else a.dtype
    g.node(op, [a, g.partner(a, kind, integers(0, 4) if g.chance(0.7) or a.dtype[0] in "iu" else None)])


@makes("BitShift")
def shift(g: Draft, op: str) -> None:
    a = g.operand(g.types(op), known=True)
    bits = np.iinfo(a.dtype).bits
    g.node(op, [a, g.partner(a, fill=integers(0, bits))], direction=g.pick("LEFT", "RIGHT"))


@makes("Max", "Min", "Sum", "Mean")
def variadic(g: Draft, op: str) -> None:
    a = g.operand(g.types(op), known=True)
    if g.opset < 8:  # without broadcasting
        g.node(op, [a, *(g.fresh(a.dtype, a.dims or ()) for _ in range(g.pick(0, 1, 2)))])
        return
    g.node(op, [a, *(g.partner(a) for _ in range(g.pick(0, 1, 1, 2)))])


@makes("Where")
def where(g: Draft, op: str) -> None:
    a = g.operand(g.types(op, 1), known=True)
    g.node(op, [g.partner(a, "bool"), a, g.partner(a)])


@makes("Clip")
def clip(g: Draft, op: str) -> None:
    x = g.operand(g.types(op))
    low, high = g.random.randint(0, 3), g.random.randint(-1 if x.dtype[0] != "u" else 0, 5)
    if g.opset < 11:
        g.node(op, [x], min=float(low), max=float(high))
        return
    bounds = [g.control(np.array(b, x.dtype)) if g.chance(0.7) else None for b in (low, high)]
    g.node(op, [x, *bounds])


@makes("Cast")
def cast(g: Draft, op: str) -> None:
    to = g.pick(*CAST_TARGETS)
    if g.opset >= 13 and g.chance(0.2):
        return through_bfloat16(g)
    source = g.operand([t for t in g.types(op) if t != "object"])
    g.node(op, [source], to=TensorProto.DataType.Value(to))


def through_bfloat16(g: Draft) -> None:
    small = ["BFLOAT16"]
    small += ["FLOAT8E4M3FN", "FLOAT8E5M2", "FLOAT8E4M3FNUZ", "FLOAT8E5M2FNUZ"] if g.opset >= 19 else []
    small += ["INT4", "UINT4"] if g.opset >= 21 else []
    to = g.pick(*small)
    source = g.fresh(g.pick(*FLOATS), g.dims(g.pick(0, 1, 2)), integers(-4, 5))
    between = g.node("Cast", [source], to=TensorProto.DataType.Value(to))
    g.node("Cast", between, to=TensorProto.FLOAT)


@makes("CastLike")
def cast_like(g: Draft, op: str) -> None:
    types = [t for t in g.types(op) if t != "object"]
    g.node(op, [g.operand(types), g.operand(types)])


@makes("Softmax", "LogSoftmax", "Hardmax")
def row_function(g: Draft, op: str) -> None:
    x = g.operand(g.types(op), (1, 2, 3, 4))
    g.node(op, [x], **({"axis": g.axis(x.rank)} if g.chance(0.8) else {}))


@makes("LpNormalization")
def lp_normalization(g: Draft, op: str) -> None:
    x = g.operand(g.types(op), (1, 2, 3))
    g.node(op, [x], axis=g.axis(x.rank), p=g.pick(1, 2))


@makes("MeanVarianceNormalization")
def mvn(g: Draft, op: str) -> None:
    x = g.operand(g.types(op), (4,))
    g.node(op, [x], **({"axes": [a % 4 for a in g.axes(4, 1)]} if g.chance(0.6) else {}))


@makes("CumSum", "CumProd")
def cumulative(g: Draft, op: str) -> None:
    x = g.operand(g.types(op), (1, 2, 3))
    axis = np.array(g.axis(x.rank), g.pick("int64", "int32"))
    g.node(op, [x, g.control(axis)], exclusive=g.pick(0, 1), reverse=g.pick(0, 1))


@makes(*REDUCTIONS)
def reduction(g: Draft, op: str) -> None:
    x = g.operand(g.types(op))
    axes = g.axes(x.rank)
    attributes: dict[str, Any] = {"keepdims": g.pick(0, 1)} if g.chance(0.7) else {}
    if g.opset < (13 if op == "ReduceSum" else 18):
        if g.opset < 11:  # negative axes came with opset 11
            axes = [a % x.rank for a in axes]
        g.node(op, [x], **attributes, **({"axes": axes} if axes else {}))
        return
    if g.chance(0.3):
        attributes["noop_with_empty_axes"] = g.pick(0, 1)
    given = g.control(np.array(axes, np.int64)) if axes or g.chance(0.3) else None
    g.node(op, [x, given], **attributes)


@makes("ArgMax", "ArgMin")
def arg_reduction(g: Draft, op: str) -> None:
    x = g.operand(g.types(op), (1, 2, 3, 4))
    axis = g.axis(x.rank) % x.rank if g.opset < 11 else g.axis(x.rank)
    last = {"select_last_index": g.pick(0, 1)} if g.opset >= 12 and g.chance(0.5) else {}
    g.node(op, [x], axis=axis, keepdims=g.pick(0, 1), **last)


@makes("Dropout")
def dropout(g: Draft, op: str) -> None:
    x = g.operand(g.types(op))
    outputs = g.pick(1, 2) if g.opset >= 10 else 1
    if g.opset < 12:
        g.node(op, [x], outputs, ratio=0.4)
        return
    training = g.weight(np.array(False)) if g.chance(0.5) else None
    g.node(op, [x, g.weight(np.array(0.4, np.float32)), training], outputs)


@makes("BatchNormalization")
def batch_normalization(g: Draft, op: str) -> None:
    dtype, channels = g.pick(*FLOATS), g.pick(1, 2, 3, 5)
    x = g.fresh(dtype, [g.dim(), channels, *g.dims(g.pick(0, 1, 2, 3))])
    scale, bias, mean = (g.fresh(dtype, [channels]) for _ in range(3))
    variance = g.fresh(dtype, [channels], uniform(0.1, 2))
    g.node(op, [x, scale, bias, mean, variance], epsilon=g.pick(1e-5, 1e-2))


@makes("InstanceNormalization")
def instance_normalization(g: Draft, op: str) -> None:
    channels = g.pick(1, 2, 3)
    x = g.fresh("float32", [g.dim(), channels, *g.dims(g.pick(1, 2, 3))])
    g.node(
        op, [x, g.fresh("float32", [channels]), g.fresh("float32", [channels])], epsilon=g.pick(1e-5, 1e-2)
    )


@makes("GroupNormalization")
def group_normalization(g: Draft, op: str) -> None:
    groups, per_group = g.pick(1, 2, 3), g.pick(1, 2)
    x = g.fresh("float32", [g.dim(), groups * per_group, *g.dims(g.pick(1, 2))])
    count = groups if g.opset < 21 else groups * per_group
    g.node(op, [x, g.fresh("float32", [count]), g.fresh("float32", [count])], num_groups=groups)


@makes("LayerNormalization", "RMSNormalization")
def layer_normalization(g: Draft, op: str) -> None:
    x = g.fresh(g.pick(*FLOATS), g.dims(g.pick(1, 2, 3)))
    axis = g.axis(x.rank)
    dims = (x.dims or ())[axis % x.rank :]
    rest = [g.fresh(x.dtype, [g.twin(d) for d in dims]) for _ in range(1 if op[0] == "R" else g.pick(1, 2))]
    g.node(op, [x, *rest], g.pick(1, 1, 3) if op[0] == "L" else 1, axis=axis, epsilon=g.pick(1e-5, 1e-2))


@makes("LRN")
def lrn(g: Draft, op: str) -> None:
    x = g.fresh("float32", [g.dim(), g.dim(), *g.dims(2)])
    g.node(
        op, [x], size=g.pick(1, 3, 5), **{k: v for k, v in (("alpha", 0.3), ("beta", 0.6)) if g.chance(0.5)}
    )


@makes("QuantizeLinear")
def quantize(g: Draft, op: str) -> None:
    x = g.fresh(
        g.pick("float32", "float32", "int32") if g.opset < 19 else "float32", g.dims(g.pick(0, 1, 2, 3))
    )
    dims, attributes = quantization(g, x)
    scale = g.fresh("float32", dims, uniform(0.05, 1.0))
    kind = g.pick("int8", "uint8", *(("int16", "uint16") if g.opset >= 21 else ()))
    zero = g.fresh(kind, dims, integers(0, 9)) if g.chance(0.8) else None
    g.node(op, [x, scale, zero], **attributes)


@makes("DequantizeLinear")
def dequantize(g: Draft, op: str) -> None:
    kinds = ("int8", "uint8", "int32", *(("int16", "uint16") if g.opset >= 21 else ()))
    kind = g.pick(*kinds)
    x = g.fresh(kind, g.dims(g.pick(0, 1, 2, 3)), integers(0, 100))
    dims, attributes = quantization(g, x)
    scale = g.fresh("float32", dims, uniform(0.05, 1.0))
    zero = g.fresh(kind, dims, integers(0, 1 if kind == "int32" else 9)) if g.chance(0.7) else None
    g.node(op, [x, scale, zero], **attributes)


def quantization(g: Draft, x: Value) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Quantization per tensor, per axis, or per block of an axis."""
    assert x.dims is not None
    if not x.rank or g.opset < 13 or g.chance(0.4):
        return (), {}
    axis = g.axis(x.rank)
    dim = x.dims[axis]
    if g.opset >= 21 and isinstance(dim, int) and dim > 1 and g.chance(0.4):
        block = g.pick(*(b for b in range(1, dim + 1)))
        dims = list(x.dims)
        dims[axis] = -(-dim // block)
        return tuple(dims), {"axis": axis, "block_size": block}
    return (g.twin(dim),), {"axis": axis}


@makes("DynamicQuantizeLinear")
def dynamic_quantize(g: Draft, op: str) -> None:
    g.node(op, [g.fresh("float32", g.dims(g.pick(0, 1, 2)))], 3)


@makes("ConstantOfShape")
def constant_of_shape(g: Draft, op: str) -> None:
    shape = [g.pick(0, 1, 2, 3) for _ in range(g.pick(0, 1, 2, 3))]
    value = helper.make_tensor(
        "v", helper.np_dtype_to_tensor_dtype(np.dtype(g.pick("float32", "int64", "bool", "uint8"))), [1], [1]
    )
    g.node(op, [g.control(np.array(shape, np.int64))], **({"value": value} if g.chance(0.6) else {}))


@makes("EyeLike")
def eye_like(g: Draft, op: str) -> None:
    x = g.operand([t for t in g.types(op) if t != "object"], (2,))
    g.node(op, [x], k=g.random.randint(-3, 3), **({"dtype": TensorProto.FLOAT} if g.chance(0.5) else {}))


@makes("Trilu")
def trilu(g: Draft, op: str) -> None:
    x = g.operand(g.types(op), (2, 3, 4))
    k = g.control(np.array(g.random.randint(-3, 3), np.int64)) if g.chance(0.7) else None
    g.node(op, [x, k], upper=g.pick(0, 1))


@makes("Range")
def range_of(g: Draft, op: str) -> None:
    dtype = g.pick("float32", "int64", "int32", "float64")
    start, limit, step = g.random.randint(-4, 4), g.random.randint(-4, 9), g.pick(1, 2, 3, -1, -2)
    g.node(op, [g.control(np.array(v, dtype)) for v in (start, limit, step)])


@makes("BitCast")
def bit_cast(g: Draft, op: str) -> None:
    pairs = {
        "float32": "INT32",
        "int32": "FLOAT",
        "float64": "INT64",
        "int64": "UINT64",
        "float16": "UINT16",
        "int8": "UINT8",
    }
    x = g.operand(list(pairs))
    g.node(op, [x], to=TensorProto.DataType.Value(pairs[x.dtype]))


@makes("HannWindow", "HammingWindow", "BlackmanWindow")
def window(g: Draft, op: str) -> None:
    size = g.control(np.array(g.pick(1, 2, 3, 8, 9), g.pick("int32", "int64")))
    g.node(op, [size], periodic=g.pick(0, 1))
