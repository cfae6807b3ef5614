"""Imports the quantization of PyTorch's graphs: the operators that ``convert_pt2e`` writes."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op import AtenImporter
from graphwright.ir.types import F32, DType
from graphwright.ops.core.cast import as_dtype
from graphwright.ops.core.clip import Clip
from graphwright.ops.quantized.dequantize_linear import DequantizeLinear
from graphwright.ops.quantized.quantize_linear import QuantizeLinear

_PREFIX = "quantized_decomposed"
_SINGLE, _TENSOR, _CHANNELS = "per_tensor", "per_tensor.tensor", "per_channel"


def _aten_quantize(i: AtenImporter) -> Any:
    to = i.attr("dtype")
    low, high, least, most = i.attr("quant_min"), i.attr("quant_max"), *_range(i, to)
    op = QuantizeLinear(to, _axis(i), precision=F32)
    result = i.emit(op, as_dtype(i.builder, i.input(0), F32), *_parameters(i, to))
    return result if low <= least and high >= most else i.emit(Clip(max(low, least), min(high, most)), result)


def _aten_dequantize(i: AtenImporter) -> Any:
    i.ignore("quant_min", "quant_max", "dtype")
    x = i.input(0)
    op = DequantizeLinear(i.attr("out_dtype", F32), _axis(i))
    return i.emit(op, x, *_parameters(i, x.type.dtype))


def _range(i: AtenImporter, dtype: DType) -> tuple[int, int]:
    if dtype.numpy.kind not in "iu":
        raise i.fail(f"quantization to {dtype} is not supported")
    limits = np.iinfo(dtype.numpy)
    return int(limits.min), int(limits.max)


def _axis(i: AtenImporter) -> int:
    return int(i.attr("axis")) if _CHANNELS in i.op_type else 0


def _parameters(i: AtenImporter, dtype: DType) -> list[Value]:
    """The scale in f32, and the zero point, if any, in the dtype of the quantized tensor."""
    scale, zero = as_dtype(i.builder, i.input(1), F32), i.optional(2)
    if zero is None:
        return [scale]
    known, (least, most) = i.constant(2), _range(i, dtype)
    if zero.type.dtype.numpy.kind not in "iu":
        raise i.fail(f"zero points of {zero.type.dtype} are not supported")
    if known is not None and ((known < least) | (known > most)).any():
        raise i.fail(f"a zero point is outside {least}..{most}")
    return [scale, as_dtype(i.builder, zero, dtype)]


QuantizeLinear.aten = {f"{_PREFIX}.quantize_{kind}": _aten_quantize for kind in (_SINGLE, _TENSOR, _CHANNELS)}
DequantizeLinear.aten = {
    f"{_PREFIX}.dequantize_{kind}": _aten_dequantize for kind in (_SINGLE, _TENSOR, _CHANNELS)
}
