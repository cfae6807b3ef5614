"""CenterCropPad of ONNX, imported as one Pad whose numbers are negative where it crops."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op import OnnxImporter
from graphwright.ir.types import I64
from graphwright.ops.core.binary import Max, Sub
from graphwright.ops.core.cast import Cast
from graphwright.ops.core.concat import Concat
from graphwright.ops.core.div import Div
from graphwright.ops.core.gather import Gather
from graphwright.ops.core.pad import Pad
from graphwright.ops.core.shape import Shape
from graphwright.ops.core.unary import Neg


def _import(i: OnnxImporter) -> Any:
    """The function body in the specification mixes i32 and i64 if ``shape`` is i32, and is not used."""
    x, shape, axes = i.input(0), i.input(1), i.attr("axes")
    sizes = i.emit(Shape(), x)
    if axes is not None:
        axes = i.const(np.array(axes, np.int64))
        sizes = i.emit(Gather(), sizes, axes)
    total = i.emit(Sub(), shape if shape.type.dtype == I64 else i.emit(Cast(I64), shape), sizes)
    before = i.emit(Sub(), _half(i, total), _half(i, i.emit(Neg(), total)))  # an odd element is at the end
    pads = i.emit(Concat(0), before, i.emit(Sub(), total, before))
    return i.emit(Pad(), x, pads, None, axes)


def _half(i: OnnxImporter, total: Value) -> Any:
    """Half of what is positive: sizes that follow from it are known for dynamic dimensions too."""
    positive = i.emit(Max(), total, i.const(np.array([0], np.int64)))
    return i.emit(Div(), positive, i.const(np.array([2], np.int64)))


Pad.onnx = {**Pad.onnx, ("CenterCropPad", 18): _import}
