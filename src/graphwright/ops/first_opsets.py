"""Imports of ONNX opset 1: explicit broadcasting with the attributes ``broadcast`` and ``axis``, and
attributes that became inputs in later opsets.

The attribute ``consumed_inputs``, which opset 6 removed, is a hint to reuse memory and has no effect here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op import Import, Importer, OnnxImporter, Op
from graphwright.ir.types import I64
from graphwright.ops.core.binary import Add, And, Greater, Less, Max, Min, Mul, Or, PRelu, Sub, Xor
from graphwright.ops.core.cast import Cast
from graphwright.ops.core.checks import rank_of
from graphwright.ops.core.clip import Clip
from graphwright.ops.core.concat import Concat
from graphwright.ops.core.div import Div
from graphwright.ops.core.equal import Equal
from graphwright.ops.core.exp import Exp
from graphwright.ops.core.gemm import Gemm
from graphwright.ops.core.imports import dtype_attribute
from graphwright.ops.core.pad import Pad
from graphwright.ops.core.pow import Pow
from graphwright.ops.core.ranked_import import ranked
from graphwright.ops.core.reshape import Reshape
from graphwright.ops.core.split import Split
from graphwright.ops.core.tile import Tile
from graphwright.ops.core.unary import Abs, Ceil, Floor, Log, Neg, Reciprocal, Relu, Sigmoid, Sqrt, Tanh
from graphwright.ops.core.unsqueeze import Unsqueeze
from graphwright.ops.nn.activations import Elu, HardSigmoid, LeakyRelu, Selu
from graphwright.ops.nn.global_pool import GlobalLpPool
from graphwright.ops.nn.gru import GRU
from graphwright.ops.nn.instance_normalization import InstanceNormalization
from graphwright.ops.nn.lp_pool import LpPool
from graphwright.ops.nn.lstm import LSTM
from graphwright.ops.nn.resize import Resize
from graphwright.ops.nn.rnn import RNN


def _import_binary(cls: type[Op]) -> Import:
    """Imports a binary op. With ``broadcast``, axis 0 of operand 1 corresponds to ``axis`` of operand 0;
    without ``axis``, the last axes correspond.
    """

    @ranked
    def import_along_axis(i: Importer) -> Any:
        a, b = i.input(0), i.input(1)
        trailing = rank_of(a) - i.attr("axis") % max(rank_of(a), 1) - rank_of(b)
        return i.emit(cls(), a, _append_axes(i, b, trailing))

    def convert(i: OnnxImporter) -> Any:
        if i.attr("broadcast", 0) and i.attr("axis") is not None:
            return import_along_axis(i)
        return i.emit(cls(), i.input(0), i.input(1))

    return convert


def _import_prelu(i: Importer) -> Any:
    """The slope is one number, or one number per channel (axis 1)."""
    x, slope = i.input(0), i.input(1)
    if rank_of(slope) == 1 and slope.type.dims != (1,):
        slope = _append_axes(i, slope, max(rank_of(x) - 2, 0))
    return i.emit(PRelu(), x, slope)


def _append_axes(i: Importer, b: Value, count: int) -> Value:
    """``b`` with ``count`` axes of size 1 appended."""
    if count < 0:
        raise i.fail(f"operand 1 has {-count} axes too many to broadcast", hint="export the model again")
    rank = rank_of(b)
    result: Value = i.emit(Unsqueeze(tuple(range(rank, rank + count))), b) if count else b
    return result


_DTYPE_NAMES = (
    "", "FLOAT", "UINT8", "INT8", "UINT16", "INT16", "INT32", "INT64", "STRING", "BOOL", "FLOAT16", "DOUBLE",
    "UINT32", "UINT64",
)  # fmt: skip
"""Names of ``TensorProto.DataType``, indexed by its number."""


def _import_cast(i: Importer) -> Any:
    """``to`` is the name of an element type."""
    name = str(i.required_attr("to")).upper()
    if name not in _DTYPE_NAMES:
        raise i.fail(f"{name} is not a supported dtype", hint=f"use one of {', '.join(_DTYPE_NAMES[1:])}")
    return i.emit(Cast(dtype_attribute(i, _DTYPE_NAMES.index(name))), i.input(0))


def _import_pad(i: Importer) -> Any:
    """The attribute is called ``paddings``; opset 2 renames it to ``pads``."""
    x = i.input(0)
    value = i.const(np.array(i.attr("value", 0.0), x.type.dtype.numpy))
    return i.emit(Pad(tuple(i.required_attr("paddings")), i.attr("mode", "constant")), x, value)


def _import_reshape(i: OnnxImporter) -> Any:
    """``shape`` is an attribute; opset 5 makes it an input."""
    return i.emit(Reshape(tuple(i.attr("shape", ()))), i.input(0))


def _import_split(i: OnnxImporter) -> Any:
    """The sizes are operand 1, in the dtype of operand 0, or an attribute."""
    sizes = i.optional(1)
    if sizes is None:
        return Split.onnx["Split", 2](i)
    parts = Split(i.output_count, i.attr("axis", 0), from_operand=True)
    return i.emit(parts, i.input(0), i.emit(Cast(I64), sizes))


@ranked
def _import_tile(i: Importer) -> Any:
    """Operand 1 is the number of repetitions, operand 2 the axis; both are constants in the dtype of operand
    0.
    """
    times, axis = i.constant(1), i.constant(2)
    if times is None or axis is None:
        raise i.fail("tiles and axis are not constant", hint="convert the model to opset 6 or later")
    repeats = [1] * rank_of(i.input(0))
    repeats[int(axis.item())] = int(times.item())
    return i.emit(Tile(tuple(repeats)), i.input(0))


def _import_upsample(i: Importer) -> Any:
    """The attributes are the scales of the height and width of an image [N, C, H, W]."""
    scales = (1.0, 1.0, float(i.required_attr("height_scale")), float(i.required_attr("width_scale")))
    mode = "linear" if i.attr("mode", "nearest") == "bilinear" else str(i.attr("mode", "nearest"))
    return i.emit(Resize(mode, "asymmetric", "floor", scales=scales), i.input(0))


def _import_selu(i: Importer) -> Any:
    """The defaults of ``alpha`` and ``gamma`` are less precise than those of opset 6."""
    return i.emit(Selu(float(i.attr("alpha", 1.6732)), float(i.attr("gamma", 1.0507))), i.input(0))


_OPSET_1: dict[type[Op], dict[str, Import]] = {
    Cast: {"Cast": _import_cast},
    Concat: {"Concat": lambda i: i.emit(Concat(i.attr("axis", 1)), *i.inputs())},
    Pad: {"Pad": _import_pad},
    Reshape: {"Reshape": _import_reshape},
    Resize: {"Upsample": _import_upsample},
    Selu: {"Selu": _import_selu},
    Split: {"Split": _import_split},
    Tile: {"Tile": _import_tile},
    **{cls: {cls.name: cls.onnx[cls.name, 2]} for cls in (LpPool, GlobalLpPool)},
    **{cls: {cls.name: cls.onnx[cls.name, 7]} for cls in (LSTM, GRU, RNN)},
    **{
        cls: {cls.name: cls.onnx[cls.name, 6]}
        for cls in (
            *(Abs, Ceil, Clip, Elu, Exp, Floor, HardSigmoid, InstanceNormalization, LeakyRelu, Log, Max),
            *(Min, Neg, Reciprocal, Relu, Sigmoid, Sqrt, Tanh),
        )
    },
    Add: {name: Add.onnx[name, 6] for name in ("Sum", "Mean")},
}
"""The import functions of opset 1, by op class and ONNX op type."""
for _cls, _imports in _OPSET_1.items():
    _cls.onnx = {**_cls.onnx, **{(name, 1): convert for name, convert in _imports.items()}}
for _cls in (Add, Sub, Mul, Div, And, Or, Xor, Equal, Greater, Less, Pow):
    _cls.onnx = {**_cls.onnx, (_cls.name, 1): _import_binary(_cls)}
PRelu.onnx = {**PRelu.onnx, ("PRelu", 1): ranked(_import_prelu)}
Gemm.onnx = {**Gemm.onnx, ("Gemm", 1): Gemm.onnx["Gemm", 7]}
