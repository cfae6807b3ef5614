"""RoiAlign."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.exporter import Exporter
from graphwright.ir.graph import Value
from graphwright.ir.op import Array, Fact, Importer, Inference, InferError, Op, Sample, arg, op
from graphwright.ir.symbols import Dim, product, symbol
from graphwright.ir.types import BF16, F16, F32, F64, I64, DType, TensorType
from graphwright.ops.core.binary import (
    Add,
    And,
    Div,
    Equal,
    GreaterOrEqual,
    LessOrEqual,
    Max,
    Min,
    Mod,
    Mul,
    Sub,
    Where,
)
from graphwright.ops.core.common import FLOATS, need_dtype, quiet, rank_of, same_dtype, widened
from graphwright.ops.core.gather import Gather
from graphwright.ops.core.range import Range
from graphwright.ops.core.reductions import ReduceMax, ReduceSum
from graphwright.ops.core.sampling import as_dtype, build_taps, reshaped, size_value, taps, wide
from graphwright.ops.core.slice import Slice
from graphwright.ops.core.transpose import Transpose
from graphwright.ops.nn.spatial import accumulator
from graphwright.records import dataclass

MODES = ("avg", "max")


_FAR = 2**31
"""No batch has so many images."""


@dataclass(frozen=True)
class _Reads:
    """Elements along one axis that the bins of a region read, and their weights: two for each sample."""

    places: Array
    weights: Array
    bins: int
    samples: int

    @property
    def reach(self) -> slice:
        """The part of the axis that holds all of them."""
        return slice(int(self.places.min()), int(self.places.max()) + 1)

    def sums(self, dtype: np.dtype[Any]) -> Array:
        """The weight of each element of :attr:`reach` in each bin."""
        first, end = self.reach.start, self.reach.stop
        made = np.zeros((self.bins, end - first), dtype)
        rows = np.repeat(np.arange(self.bins), 2 * self.samples)
        np.add.at(made, (rows, self.places - first), self.weights.astype(dtype))
        return made


@op("RoiAlign")
class RoiAlign(Op):
    """Each region (x1, y1, x2, y2) of an image x[N, C, H, W] as y[R, C, height, width] (He et al. 2017).

    A region is divided into height * width bins, each read linearly at ``points`` places along both axes
    (0: one for each element that a bin covers, rounded up). ``mode`` avg is their mean, max the largest of
    the products of an element and its weight. Operand 2 tells each region's image; ``scale`` takes regions to
    elements of it, with ``half_pixel`` those whose centres are at a half; else they are at least 1 wide.
    """

    height: int = 1
    width: int = 1
    points: int = 0
    scale: float = 1.0
    mode: str = "avg"
    half_pixel: bool = True

    def verify(self) -> None:
        if self.mode not in MODES:
            raise InferError(f"mode {self.mode!r} is not one of {', '.join(MODES)}")
        if self.height < 1 or self.width < 1 or self.points < 0:
            raise InferError(
                f"{self.height} x {self.width} bins of {self.points} points: 1 x 1 of 0 or more are needed"
            )

    def infer(self, at: Inference, x: Fact, regions: Fact, images: Fact) -> TensorType:
        need_dtype(at, x, FLOATS)
        same_dtype(at, x, regions)
        need_dtype(at, images, {I64}, "the index tensor")
        if (x.rank, regions.rank, images.rank) != (4, 2, 1):
            raise at.fail(f"{x.type}, {regions.type} and {images.type}: ranks 4, 2 and 1 are needed")
        at.equal(regions.shape[1], 4, "numbers of a region")
        count = at.equal(regions.shape[0], images.shape[0], "regions and their images")
        for axis, size in enumerate(x.shape[2:]):
            at.at_least(size, 1, f"spatial axis {axis}")
        return TensorType(x.dtype, (count, x.shape[1], self.height, self.width))

    @quiet
    def reference(self, x: Array, regions: Array, images: Array) -> Array:
        out = np.zeros((len(regions), x.shape[1], self.height, self.width), accumulator(x))
        for row, (region, image) in enumerate(zip(widened(regions), images, strict=True)):
            out[row] = self._pooled(x[image], region, out.dtype)
        return out.astype(x.dtype)

    def _reads(self, image: Array, region: Array) -> list[_Reads]:
        reads = []
        for axis, (size, bins) in enumerate(zip(image.shape[1:], (self.height, self.width), strict=True)):
            start, length = self._extent(region[1 - axis], region[3 - axis])
            step = length / region.dtype.type(bins)
            samples = self.points or max(0, int(np.nan_to_num(np.ceil(step), posinf=0)))
            order, shares = (part.astype(step.dtype) for part in _points(bins, samples))
            where = start + order * step + shares * step / max(samples, 1)
            places, weights = taps(np.clip(where, 0, size - 1), size, "linear", "border")
            weights = np.where(((where >= -1) & (where <= size))[:, None], weights, 0)
            reads.append(_Reads(places.reshape(-1), weights.reshape(-1), bins, samples))
        return reads

    def _pooled(self, image: Array, region: Array, dtype: np.dtype[Any]) -> Array:
        tall, broad = self._reads(image, region)
        count = tall.samples * broad.samples
        if not count:
            return np.zeros((len(image), self.height, self.width), dtype)
        if self.mode == "avg":
            part = image[:, tall.reach, broad.reach].astype(dtype, copy=False)
            if np.isfinite(part).all():  # sums of products with 0 as well
                return np.asarray(tall.sums(dtype) @ (part @ broad.sums(dtype).T) / count)
        weights = np.outer(tall.weights, broad.weights).astype(dtype)
        read = image[:, tall.places][:, :, broad.places].astype(dtype, copy=False)
        read = np.where(weights == 0, 0, read * weights)
        read = read.reshape(len(image), self.height, 2 * tall.samples, self.width, 2 * broad.samples)
        return np.asarray(read.max((2, 4)) if self.mode == "max" else read.sum((2, 4)) / count)

    def _extent(self, low: Any, high: Any) -> tuple[Any, Any]:
        """Where a region starts along an axis, and how long it is, in elements."""
        kind = type(low)
        start, end = (bound * kind(self.scale) - kind(0.5 * self.half_pixel) for bound in (low, high))
        return start, end - start if self.half_pixel else np.maximum(end - start, kind(1))

    def decompose(self, b: Builder, x: Value, regions: Value, images: Value) -> Value | None:
        """Rows of channels, gathered; None where the number of samples depends on the region."""
        rank_of(x), rank_of(regions)
        if not self.points:
            return None
        dtype = wide(x.type.dtype)
        batch, channels, *sizes = x.type.dims
        count = regions.type.dims[0]
        bounds = as_dtype(b, regions, dtype)
        low, high = (
            [b(Slice((k,), (k + 1,), (1,), (1,)), bounds) for k in ends] for ends in ((1, 0), (3, 2))
        )
        (rows, tall), (columns, broad) = (
            self._build_reads(b, low[axis], high[axis], size, bins, dtype)
            for axis, (size, bins) in enumerate(zip(sizes, (self.height, self.width), strict=True))
        )
        down, across = rows.type.dims[1], columns.type.dims[1]
        images = b(Min(), b(Max(), images, b.const([-_FAR], I64)), b.const([_FAR], I64))  # no product wraps
        starts = b(Mul(), images, size_value(b, product(sizes)))
        index = b(Mul(), reshaped(b, rows, count, down, 1), size_value(b, sizes[1]))
        index = b(
            Add(), b(Add(), index, reshaped(b, columns, count, 1, across)), reshaped(b, starts, count, 1, 1)
        )
        flat = b(Transpose((0, 2, 1)), reshaped(b, x, batch, channels, product(sizes)))
        taken = as_dtype(b, b(Gather(0), reshaped(b, flat, batch * product(sizes), channels), index), dtype)
        weights = b(Mul(), reshaped(b, tall, count, down, 1, 1), reshaped(b, broad, count, 1, across, 1))
        zero = b.const([0], dtype)
        read = b(Where(), b(Equal(), weights, zero), zero, b(Mul(), taken, weights))
        read = reshaped(b, read, count, self.height, 2 * self.points, self.width, 2 * self.points, channels)
        if self.mode == "max":
            pooled = b(ReduceMax((2, 4), False), read)
        else:
            pooled = b(Div(), b(ReduceSum((2, 4), False), read), b.const([self.points**2], dtype))
        return as_dtype(b, b(Transpose((0, 3, 1, 2)), pooled), x.type.dtype)

    def _build_reads(
        self, b: Builder, low: Value, high: Value, size: Dim, bins: int, dtype: DType
    ) -> tuple[Value, Value]:
        """Elements along one axis that each region's bins read, and weights: [R, bins * points * 2]."""
        count = low.type.dims[0]
        scale, shift = b.const([self.scale], dtype), b.const([0.5 * self.half_pixel], dtype)
        start, end = (b(Sub(), b(Mul(), bound, scale), shift) for bound in (low, high))
        length = b(Sub(), end, start)
        if not self.half_pixel:
            length = b(Max(), length, b.const([1], dtype))
        step = b(Div(), length, b.const([bins], dtype))
        reads = bins * self.points
        samples, points = b(Range((0, reads, 1))), b.const([self.points], I64)
        order, turns = (
            as_dtype(b, reshaped(b, b(op, samples, points), 1, reads), dtype) for op in (Div(), Mod())
        )
        shares = b(Add(), turns, b.const([0.5], dtype))
        where = b(Add(), start, b(Mul(), order, step))
        where = b(Add(), where, b(Div(), b(Mul(), shares, step), b.const([self.points], dtype)))
        near = b(GreaterOrEqual(), where, b.const([-1], dtype))
        near = b(And(), near, b(LessOrEqual(), where, size_value(b, size, dtype)))
        where = b(Min(), b(Max(), where, b.const([0], dtype)), size_value(b, size - 1, dtype))
        places, weights = build_taps(b, reshaped(b, where, count, reads, 1), size, "linear", "border")
        weights = b(Where(), reshaped(b, near, count, reads, 1), weights, b.const([0], dtype))
        return reshaped(b, places, count, 2 * reads), reshaped(b, weights, count, 2 * reads)


def _points(bins: int, samples: int) -> tuple[Array, Array]:
    """Each sample's bin, and its place there in parts of ``1 / samples``: the middles of equal parts."""
    return np.repeat(np.arange(bins), samples), np.tile(np.arange(samples) + 0.5, bins)


def _import(default: str) -> Any:
    def convert(i: Importer) -> Any:
        coordinates = str(i.attr("coordinate_transformation_mode", default))
        if coordinates not in ("half_pixel", "output_half_pixel"):
            raise i.fail(
                f"coordinate_transformation_mode {coordinates!r}",
                hint="it is half_pixel or output_half_pixel",
            )
        made = RoiAlign(
            int(i.attr("output_height", 1)),
            int(i.attr("output_width", 1)),
            int(i.attr("sampling_ratio", 0)),
            float(i.attr("spatial_scale", 1.0)),
            str(i.attr("mode", "avg")),
            coordinates == "half_pixel",
        )
        return i.emit(made, i.input(0), i.input(1), i.input(2))

    return convert


def _export(e: Exporter, op: RoiAlign, *inputs: Value) -> Any:
    return e.emit(
        "RoiAlign",
        *inputs,
        output_height=op.height,
        output_width=op.width,
        sampling_ratio=op.points,
        spatial_scale=op.scale,
        mode=op.mode,
        coordinate_transformation_mode="half_pixel" if op.half_pixel else "output_half_pixel",
    )


RoiAlign.to_onnx = _export
RoiAlign.onnx = {
    ("RoiAlign", 10): _import("output_half_pixel"),
    ("RoiAlign", 16): _import("half_pixel"),
    ("RoiAlign", 22): _import("half_pixel"),
}
_X = arg(F32, 2, 3, 6, 5)
_REGIONS = arg(F32, 3, 4, values=(0, 0, 4, 5, 1.5, 1, 3, 2.5, -3, -2, 9, 7))
_IMAGES = arg(I64, 3, values=(0, 1, 1))
RoiAlign.samples = (
    *(
        Sample(RoiAlign(2, 3, samples, 0.75, mode, half), (_X, _REGIONS, _IMAGES))
        for samples in (0, 1, 2)
        for mode in MODES
        for half in (False, True)
    ),
    *(
        Sample(
            RoiAlign(2, 2, 2), (arg(t, 1, 2, 4, 4), arg(t, 2, 4, fill="positive"), arg(I64, 2, values=(0, 0)))
        )
        for t in (F64, F16, BF16)
    ),
    Sample(
        RoiAlign(2, 2, 2),
        (arg(F32, 3, 2, symbol("H"), 4), arg(F32, symbol("R"), 4), arg(I64, symbol("R"), fill="index")),
    ),
    Sample(RoiAlign(2, 2, 2), (_X, arg(F32, 0, 4), arg(I64, 0))),
    Sample(RoiAlign(), (_X, arg(F32, 3, 5), _IMAGES), "numbers of a region: 5 and 4 differ"),
    Sample(RoiAlign(), (_X, arg(F32, 2, 4), _IMAGES), "regions and their images: 2 and 3 differ"),
    Sample(RoiAlign(), (_X, _REGIONS, arg(I64, 3, 1)), "ranks 4, 2 and 1"),
    Sample(RoiAlign(), (_X, arg(F64, 3, 4), _IMAGES), "operands of f32 and f64"),
    Sample(RoiAlign(0), (_X, _REGIONS, _IMAGES), "0 x 1 bins"),
    Sample(RoiAlign(mode="sum"), (_X, _REGIONS, _IMAGES), "mode 'sum'"),
)
