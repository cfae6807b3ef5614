"""Import of ONNX Runtime's CropAndResize."""

from __future__ import annotations

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.op import Importer
from graphwright.ir.symbols import Dim, product
from graphwright.ir.types import I64
from graphwright.ops.contrib.registration import register_contrib
from graphwright.ops.core.binary import Add, And, Greater, GreaterOrEqual, LessOrEqual, Max, Mul, Sub
from graphwright.ops.core.cast import as_dtype
from graphwright.ops.core.div import Div
from graphwright.ops.core.expand import Expand
from graphwright.ops.core.range import Range
from graphwright.ops.core.ranked_import import ranked
from graphwright.ops.core.reshape import Reshape, reshaped
from graphwright.ops.core.sampling import build_blend, build_taps, size_value
from graphwright.ops.core.slice import Slice
from graphwright.ops.core.transpose import Transpose
from graphwright.ops.core.unary import Floor
from graphwright.ops.core.where import Where

MODES = {"bilinear": "linear", "nearest": "nearest"}


def _import(i: Importer) -> Value:
    """Parts of the images x[N, C, H, W], resized to one size. Inputs: the images, a box (y1, x1, y2, x2) for
    each part in fractions of the image, the index of its image, and the size.

    Samples outside an image are ``extrapolation_value``.
    """
    x, boxes, images, crop = (i.input(index) for index in range(4))
    mode = str(i.attr("mode", "bilinear"))
    if mode not in MODES:
        raise i.fail(f"mode {mode!r} is not one of {', '.join(MODES)}")
    b, (count, channels, *sizes) = i.builder, x.type.dims
    corners = as_dtype(b, boxes, x.type.dtype.computed)
    lines = [_coordinates(b, corners, crop, axis, size) for axis, size in enumerate(sizes)]
    parts = (images.type.dims[0], *(line.type.dims[1] for line in lines))
    points = product(parts)

    def at_points(value: Value, *dims: Dim) -> Value:
        """``value``, of the shape ``dims`` that broadcasts to ``parts``, at each point of each part."""
        return reshaped(b, b(Expand(parts), reshaped(b, value, dims)), (1, points, 1))

    image = at_points(as_dtype(b, images, I64), parts[0], 1, 1)
    samples = [(image, b(Expand((1, points, 1)), b.const([1], corners.type.dtype)))]
    for line, size, dims in zip(lines, sizes, ((*parts[:2], 1), (parts[0], 1, parts[2])), strict=True):
        if mode == "nearest":  # halves are rounded up
            line = b(Floor(), b(Add(), line, b.const([0.5], line.type.dtype)))
        samples.append(build_taps(b, at_points(line, *dims), size, MODES[mode], "border"))
    rows = reshaped(b, b(Transpose((0, 2, 3, 1)), x), (1, count * product(sizes), channels))
    blended = reshaped(b, build_blend(b, rows, samples, (count, *sizes)), (*parts, channels))
    inside = [_inside(b, line, size) for line, size in zip(lines, sizes, strict=True)]
    is_inside = b(
        And(), reshaped(b, inside[0], (*parts[:2], 1, 1)), reshaped(b, inside[1], (parts[0], 1, parts[2], 1))
    )
    outside = b.const(np.asarray(i.attr("extrapolation_value", 0.0), blended.type.dtype.numpy))
    y = b(Transpose((0, 3, 1, 2)), b(Where(), is_inside, blended, outside))
    return as_dtype(b, y, x.type.dtype)


def _coordinates(b: Builder, corners: Value, crop: Value, axis: int, size: Dim) -> Value:
    """The rows or columns of the image that each part samples: [parts, size of the parts]. The first and
    the last one are those of the box; a part of one row samples the middle of the box.
    """
    dtype = corners.type.dtype
    start, end = (b(Slice((k,), (k + 1,), (1,), (1,)), corners) for k in (axis, axis + 2))
    wanted = b(Slice((axis,), (axis + 1,), (0,), (1,)), as_dtype(b, crop, I64))
    steps = b(Range(), b.const(0, I64), b(Reshape(()), wanted), b.const(1, I64))
    extent, one, half = size_value(b, size - 1, dtype), b.const([1], I64), b.const([0.5], dtype)
    span = b(Mul(), b(Sub(), end, start), extent)
    step = b(Div(), span, as_dtype(b, b(Max(), b(Sub(), wanted, one), one), dtype))
    middle = b(Mul(), b(Mul(), b(Add(), start, end), extent), half)
    first = b(Where(), b(Greater(), wanted, one), b(Mul(), start, extent), middle)
    result: Value = b(Add(), first, b(Mul(), step, as_dtype(b, steps, dtype)))
    return result


def _inside(b: Builder, line: Value, size: Dim) -> Value:
    dtype = line.type.dtype
    result: Value = b(
        And(),
        b(GreaterOrEqual(), line, b.const([0], dtype)),
        b(LessOrEqual(), line, size_value(b, size - 1, dtype)),
    )
    return result


register_contrib(Slice, CropAndResize=ranked(_import))
