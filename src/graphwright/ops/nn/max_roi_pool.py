"""MaxRoiPool."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.op import Array, Fact, Importer, Inference, InferError, Op, Sample, arg, op
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.symbols import symbol
from graphwright.ir.types import F16, F32, F64, I32, TensorType
from graphwright.ops.core.checks import FLOATS, need_dtype, same_dtype


@op("MaxRoiPool")
class MaxRoiPool(Op):
    """The maxima of regions of x[N, C, H, W]: y[R, C, *pooled] (Fast R-CNN, Girshick 2015).

    Each row of the regions [R, 5] is an image index and two corners x1, y1, x2, y2. The corners are
    multiplied by ``scale`` and rounded to pixels; the region includes both. It is divided into ``pooled`` =
    (height, width) bins, which may overlap. The maximum of a bin without pixels is 0.
    """

    pooled: tuple[int, ...]
    scale: float = 1.0

    def verify(self) -> None:
        if len(self.pooled) != 2 or min(self.pooled) < 1:
            raise InferError(
                f"the pooled shape is {list(self.pooled)}; it must be a height and a width, at least 1"
            )

    def infer(self, at: Inference, x: Fact, regions: Fact) -> TensorType:
        same_dtype(at, x, regions)
        need_dtype(at, x, FLOATS)
        if x.rank != 4 or regions.rank != 2:
            raise at.fail(f"the input is {x.type} and the regions {regions.type}; the ranks must be 4 and 2")
        at.equal(regions.shape[1], 5, "elements of a region")
        return TensorType(x.dtype, (regions.shape[0], x.shape[1], *self.pooled))

    def reference(self, x: Array, regions: Array) -> Array:
        out = np.zeros((len(regions), x.shape[1], *self.pooled), x.dtype)
        for number, (image, *corners) in enumerate(regions.astype(np.float64)):
            scaled = np.array(corners) * self.scale
            x1, y1, x2, y2 = np.trunc(scaled + np.copysign(0.5, scaled)).astype(np.int64)
            rows = list(_bins(y1, y2, self.pooled[0], x.shape[2]))
            columns = list(_bins(x1, x2, self.pooled[1], x.shape[3]))
            for i, row in enumerate(rows):
                for j, column in enumerate(columns):
                    pixels = x[int(image), :, row, column]
                    if pixels.size:
                        out[number, :, i, j] = pixels.max((1, 2))
        return out


def _bins(first: int, last: int, count: int, size: int) -> Any:
    """The slices of an axis of ``size`` pixels that divide the pixels ``first`` to ``last`` into ``count``
    bins.
    """
    length = max(last - first + 1, 1) / count
    for number in range(count):
        low, high = first + int(np.floor(number * length)), first + int(np.ceil((number + 1) * length))
        yield slice(min(max(low, 0), size), min(max(high, 0), size))


def _import(i: Importer) -> Any:
    op = MaxRoiPool(tuple(i.required_attr("pooled_shape")), float(i.attr("spatial_scale", 1.0)))
    return i.emit(op, i.input(0), i.input(1))


MaxRoiPool.onnx = {("MaxRoiPool", 1): _import}
MaxRoiPool.to_onnx = as_onnx("MaxRoiPool", pooled_shape="pooled", spatial_scale="scale")
_REGIONS = (0, 0, 0, 4, 3, 1, 2, 1, 9, 9, 1, 3, 3, 2, 2)
MaxRoiPool.samples = (
    *(
        Sample(MaxRoiPool((2, 3), scale), (arg(t, 2, 3, 6, 7), arg(t, 3, 5, values=_REGIONS)))
        for t, scale in ((F32, 1.0), (F64, 0.5), (F16, 1.0))
    ),
    Sample(
        MaxRoiPool((1, 1)), (arg(F32, symbol("N"), 3, symbol("H"), 7), arg(F32, 1, 5, values=_REGIONS[:5]))
    ),
    Sample(MaxRoiPool((2, 2)), (arg(F32, 2, 3, 6, 7), arg(F32, 0, 5))),
    Sample(MaxRoiPool((2,)), (arg(F32, 2, 3, 6, 7), arg(F32, 0, 5)), "the pooled shape is [2]"),
    Sample(MaxRoiPool((2, 2)), (arg(F32, 2, 3, 6), arg(F32, 1, 5)), "the ranks must be 4 and 2"),
    Sample(MaxRoiPool((2, 2)), (arg(F32, 2, 3, 6, 7), arg(F32, 1, 4)), "4 and 5 differ"),
    Sample(MaxRoiPool((2, 2)), (arg(I32, 2, 3, 6, 7), arg(I32, 1, 5)), "the input is i32"),
)
