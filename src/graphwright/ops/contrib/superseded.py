"""Import of ONNX Runtime's ops that were superseded by ops of ONNX, and which exporters to old opsets write;
and of CDist, ConvTransposeWithDynamicPads and SampleOp.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op import Importer
from graphwright.ir.types import I64
from graphwright.ops.contrib.node_with_inputs import NodeWithInputs
from graphwright.ops.contrib.registration import register_contrib
from graphwright.ops.core.binary import Mul, Sub
from graphwright.ops.core.cast import Cast
from graphwright.ops.core.checks import rank_of
from graphwright.ops.core.gather_nd import GatherND
from graphwright.ops.core.identity import Identity
from graphwright.ops.core.imports import scalar, simple
from graphwright.ops.core.pad import Pad
from graphwright.ops.core.range import Range
from graphwright.ops.core.ranked_import import ranked
from graphwright.ops.core.reductions import ReduceSum
from graphwright.ops.core.reshape import Reshape
from graphwright.ops.core.shape import Shape
from graphwright.ops.core.slice import Slice
from graphwright.ops.core.split import Split
from graphwright.ops.core.trilu import Trilu
from graphwright.ops.core.unary import Sqrt
from graphwright.ops.core.unique import Unique
from graphwright.ops.core.unsqueeze import Unsqueeze
from graphwright.ops.nn.conv_transpose import ConvTranspose
from graphwright.ops.nn.grid_sample import GridSample


def _import_range(i: Importer) -> Any:
    """The step is optional; bounds may be vectors of one element."""
    bounds = [i.input(0), i.input(1), i.optional(2) or scalar(i, 1, i.input(0))]
    return i.emit(Range(), *(b if b.type.shape == () else i.emit(Reshape(()), b) for b in bounds))


def _import_expand_dims(i: Importer) -> Any:
    """The axis is an i32 scalar."""
    axis = i.emit(Cast(I64), i.emit(Reshape((1,)), i.input(1)))
    return i.emit(Unsqueeze(), i.input(0), axis)


def _import_pad(i: Importer) -> Any:
    """The pads are [2 * rank] or [1, 2 * rank]."""
    x, pads, value = i.input(0), i.input(1), i.optional(2)
    flat = i.emit(Reshape((2 * rank_of(x),)), pads)
    return i.emit(Pad(mode=str(i.attr("mode", "constant"))), x, flat, *([] if value is None else [value]))


def _import_unique(i: Importer) -> Any:
    """Outputs: the distinct elements in the order of their first occurrence, the index of each element of x
    among them, and their counts.
    """
    elements, _, inverse, counts = i.emit(Unique(None, sorted=False), i.input(0))
    return elements, inverse, counts


def _import_cdist(i: Importer) -> Any:
    """The distance of each row of a[M, K] to each row of b[N, K]: [M, N]."""
    metric = str(i.attr("metric", "sqeuclidean"))
    if metric not in ("euclidean", "sqeuclidean"):
        raise i.fail(f"metric {metric!r} is not one of euclidean, sqeuclidean")
    difference = i.emit(Sub(), i.emit(Unsqueeze((1,)), i.input(0)), i.emit(Unsqueeze((0,)), i.input(1)))
    squares: Value = i.emit(ReduceSum((2,), keepdims=False), i.emit(Mul(), difference, difference))
    return squares if metric == "sqeuclidean" else i.emit(Sqrt(), squares)


def _import_conv_transpose(i: Importer) -> Any:
    """Input 2 are the pads, which are cropped from the result."""
    x, weight, pads, bias = i.input(0), i.input(1), i.optional(2), i.optional(3)
    y = ConvTranspose.onnx["ConvTranspose", 1](NodeWithInputs(i, (x, weight, bias)))
    if pads is None:
        return y
    spatial = rank_of(x) - 2
    starts, ends = i.emit(Split(2, 0, (spatial, spatial)), pads)
    ends = i.emit(Sub(), i.emit(Shape(2), y), ends)
    return i.emit(Slice(), y, starts, ends, i.const(np.arange(2, 2 + spatial)))


register_contrib(Identity, SampleOp=simple(Identity))
register_contrib(ConvTranspose, ConvTransposeWithDynamicPads=ranked(_import_conv_transpose))
register_contrib(Trilu, Trilu=Trilu.onnx["Trilu", 14])
register_contrib(GridSample, GridSample=GridSample.onnx["GridSample", 16])
register_contrib(GatherND, GatherND=GatherND.onnx["GatherND", 11])
register_contrib(Range, Range=_import_range)
register_contrib(Unsqueeze, ExpandDims=_import_expand_dims)
register_contrib(Pad, Pad=ranked(_import_pad))
register_contrib(Unique, Unique=_import_unique)
register_contrib(ReduceSum, CDist=_import_cdist)
