"""Import of experimental ops of ONNX's first opsets, which old converters from Keras, Core ML and Caffe
write.

ONNX removed them, or redefined them later; ONNX Runtime still supports them, in ONNX's own domain.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op import Import, Importer, Op
from graphwright.ir.types import I64
from graphwright.ops.core.binary import Add, Mul, Sub
from graphwright.ops.core.cast import Cast
from graphwright.ops.core.checks import rank_of
from graphwright.ops.core.imports import scalar
from graphwright.ops.core.ranked_import import ranked
from graphwright.ops.core.reductions import ReduceMean
from graphwright.ops.core.slice import Slice
from graphwright.ops.core.unary import Softplus, Tanh
from graphwright.ops.nn.activations import ThresholdedRelu
from graphwright.ops.nn.mean_variance_normalization import MeanVarianceNormalization


def _scaled(i: Importer, x: Value, factor: float) -> Value:
    result: Value = x if factor == 1 else i.emit(Mul(), x, scalar(i, factor, x))
    return result


def _import_affine(i: Importer) -> Any:
    """``alpha * x + beta``."""
    x = _scaled(i, i.input(0), float(i.attr("alpha", 1.0)))
    return i.emit(Add(), x, scalar(i, float(i.attr("beta", 0.0)), x))


def _import_scaled(make_op: Callable[[], Op]) -> Import:
    """Imports as ``alpha * f(beta * x)``, where f is the op."""

    def convert(i: Importer) -> Any:
        inner = _scaled(i, i.input(0), float(i.attr("beta", 1.0)))
        return _scaled(i, i.emit(make_op(), inner), float(i.attr("alpha", 1.0)))

    return convert


def _import_image_scaler(i: Importer) -> Any:
    """``scale * x + bias`` for x[N, C, H, W], with a bias for each channel."""
    x = _scaled(i, i.input(0), float(i.attr("scale", 1.0)))
    bias = np.asarray(i.required_attr("bias"), x.type.dtype.numpy).reshape(-1, 1, 1)
    return i.emit(Add(), x, i.const(bias))


def _import_crop(i: Importer) -> Any:
    """x[N, C, H, W] without its ``border`` (left, top, right, bottom). With ``scale``, the height and width
    of the result, the right and bottom borders are ignored.
    """
    x, border, size = i.input(0), i.required_attr("border"), i.attr("scale")
    if rank_of(x) != 4 or len(border) != 4 or len(size or (0, 0)) != 2:
        raise i.fail("the input must be [N, C, H, W], border must have 4 elements, and scale 2 or none")
    left, top, right, bottom = border
    height, width = x.type.dims[2:]
    ends = (top + size[0], left + size[1]) if size else (height - bottom, width - right)
    return i.emit(Slice((top, left), ends, (2, 3), (1, 1)), x)


def _import_dynamic_slice(i: Importer) -> Any:
    """Slice of opset 10 without steps."""
    bounds = [v if v is None else i.emit(Cast(I64), v) for v in (i.input(1), i.input(2), i.optional(3))]
    return i.emit(Slice(), i.input(0), *(bounds if bounds[2] is not None else bounds[:2]))


def _register(cls: type[Op], **imports: Import) -> None:
    cls.onnx = {**cls.onnx, **{(name, 1): convert for name, convert in imports.items()}}


def _import_normalization(i: Importer) -> Any:
    """MeanVarianceNormalization of images, over the batch and the spatial axes, optionally over the channels
    too.
    """
    x, axes = i.input(0), (0, 1, 2, 3) if i.attr("across_channels", 0) else (0, 2, 3)
    if i.attr("normalize_variance", 1):
        return i.emit(MeanVarianceNormalization(axes), x)
    return i.emit(Sub(), x, i.emit(ReduceMean(axes), x))


_register(Add, Affine=_import_affine, ImageScaler=_import_image_scaler)
_register(Mul, Scale=lambda i: _scaled(i, i.input(0), float(i.attr("scale", 1.0))))
_register(Tanh, ScaledTanh=_import_scaled(Tanh))
_register(Softplus, ParametricSoftplus=_import_scaled(Softplus))
_register(Slice, Crop=ranked(_import_crop), DynamicSlice=_import_dynamic_slice)
_register(MeanVarianceNormalization, MeanVarianceNormalization=_import_normalization)
_register(ThresholdedRelu, ThresholdedRelu=ThresholdedRelu.onnx["ThresholdedRelu", 10])
