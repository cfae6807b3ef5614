"""RoiAlign."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.op import Array, Fact, Importer, Inference, InferError, Op, Sample, arg, op
from graphwright.ir.op.exporter import Exporter
from graphwright.ir.symbols import Dim, product, symbol
from graphwright.ir.types import BF16, F16, F32, F64, I64, DType, TensorType
from graphwright.ops.core.binary import Add, And, GreaterOrEqual, LessOrEqual, Max, Min, Mul, Sub
from graphwright.ops.core.cast import as_dtype
from graphwright.ops.core.checks import FLOATS, need_dtype, rank_of, same_dtype
from graphwright.ops.core.div import Div
from graphwright.ops.core.equal import Equal
from graphwright.ops.core.gather import Gather
from graphwright.ops.core.mod import Mod
from graphwright.ops.core.range import Range
from graphwright.ops.core.reductions import ReduceMax, ReduceSum
from graphwright.ops.core.references import quiet, widened
from graphwright.ops.core.reshape import reshaped
from graphwright.ops.core.sampling import build_taps, size_value, taps
from graphwright.ops.core.slice import Slice
from graphwright.ops.core.transpose import Transpose
from graphwright.ops.core.where import Where
from graphwright.ops.nn.spatial import accumulator
from graphwright.records import dataclass

MODES = ("avg", "max")


_MAX_IMAGE = 2**31
"""Image indices are clamped to this magnitude, so that products do not overflow: no batch has so
many images.
"""


@dataclass(frozen=True)
class _Taps:
    """The positions of the taps of a region's samples along one axis, and their weights: two taps for each
    sample.
    """

    positions: Array
    weights: Array
    bins: int
    samples: int

    @property
    def range(self) -> slice:
        """The part of the axis that contains all taps."""
        return slice(int(self.positions.min()), int(self.positions.max()) + 1)

    def bin_weights(self, dtype: np.dtype[Any]) -> Array:
        """The total weight of each position of :attr:`range` in each bin."""
        first, end = self.range.start, self.range.stop
        totals = np.zeros((self.bins, end - first), dtype)
        rows = np.repeat(np.arange(self.bins), 2 * self.samples)
        np.add.at(totals, (rows, self.positions - first), self.weights.astype(dtype))
        return totals


@op("RoiAlign")
class RoiAlign(Op):
    """Pools regions of x[N, C, H, W] to y[R, C, height, width] with linear interpolation (Mask R-CNN, He et
    al. 2017).

    Operand 1 are the regions [R, 4] (x1, y1, x2, y2), operand 2 the image index of each region. The
    coordinates are multiplied by ``scale``; with ``half_pixel``, pixel centers are at 0.5, otherwise at 0,
    and a region is at least 1 wide. A region is divided into height * width bins, with ``points`` x
    ``points`` samples each (0: as many as a bin covers pixels, rounded up). ``mode`` avg is the mean of the
    samples, max the largest product of a pixel and its weight, as in ONNX.
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
                f"{self.height} x {self.width} bins of {self.points} points: height and width must be at"
                " least 1, and the points at least 0"
            )

    def infer(self, at: Inference, x: Fact, regions: Fact, images: Fact) -> TensorType:
        need_dtype(at, x, FLOATS)
        same_dtype(at, x, regions)
        need_dtype(at, images, {I64}, "the index tensor")
        if (x.rank, regions.rank, images.rank) != (4, 2, 1):
            raise at.fail(
                f"operands of {x.type}, {regions.type} and {images.type}: their ranks must be 4, 2 and 1"
            )
        at.equal(regions.shape[1], 4, "elements of a region")
        count = at.equal(regions.shape[0], images.shape[0], "regions and image indices")
        for axis, size in enumerate(x.shape[2:]):
            at.at_least(size, 1, f"spatial axis {axis}")
        return TensorType(x.dtype, (count, x.shape[1], self.height, self.width))

    @quiet
    def reference(self, x: Array, regions: Array, images: Array) -> Array:
        out = np.zeros((len(regions), x.shape[1], self.height, self.width), accumulator(x))
        for row, (region, image) in enumerate(zip(widened(regions), images, strict=True)):
            out[row] = self._pooled(x[image], region, out.dtype)
        return out.astype(x.dtype)

    def _taps(self, image: Array, region: Array) -> list[_Taps]:
        """The taps of a region along both axes."""
        per_axis = []
        for axis, (size, bins) in enumerate(zip(image.shape[1:], (self.height, self.width), strict=True)):
            start, length = self._extent(region[1 - axis], region[3 - axis])
            step = length / region.dtype.type(bins)
            samples = self.points or max(0, int(np.nan_to_num(np.ceil(step), posinf=0)))
            order, fractions = (part.astype(step.dtype) for part in _points(bins, samples))
            points = start + order * step + fractions * step / max(samples, 1)
            positions, weights = taps(np.clip(points, 0, size - 1), size, "linear", "border")
            weights = np.where(((points >= -1) & (points <= size))[:, None], weights, 0)
            per_axis.append(_Taps(positions.reshape(-1), weights.reshape(-1), bins, samples))
        return per_axis

    def _pooled(self, image: Array, region: Array, dtype: np.dtype[Any]) -> Array:
        """One region of one image, pooled."""
        rows, columns = self._taps(image, region)
        count = rows.samples * columns.samples
        if not count:
            return np.zeros((len(image), self.height, self.width), dtype)
        if self.mode == "avg":
            part = image[:, rows.range, columns.range].astype(dtype, copy=False)
            if np.isfinite(part).all():  # the matrix products also multiply pixels by 0
                return np.asarray(rows.bin_weights(dtype) @ (part @ columns.bin_weights(dtype).T) / count)
        weights = np.outer(rows.weights, columns.weights).astype(dtype)
        pixels = image[:, rows.positions][:, :, columns.positions].astype(dtype, copy=False)
        products = np.where(weights == 0, 0, pixels * weights)
        products = products.reshape(
            len(image), self.height, 2 * rows.samples, self.width, 2 * columns.samples
        )
        return np.asarray(products.max((2, 4)) if self.mode == "max" else products.sum((2, 4)) / count)

    def _extent(self, low: Any, high: Any) -> tuple[Any, Any]:
        """The start of a region along an axis, and its length, in pixels."""
        kind = type(low)
        start, end = (bound * kind(self.scale) - kind(0.5 * self.half_pixel) for bound in (low, high))
        return start, end - start if self.half_pixel else np.maximum(end - start, kind(1))

    def decompose(self, b: Builder, x: Value, regions: Value, images: Value) -> Value | None:
        """Gathers rows of channels, and sums them up; None if the number of samples depends on the region."""
        rank_of(x), rank_of(regions)
        if not self.points:
            return None
        dtype = x.type.dtype.computed
        batch, channels, *sizes = x.type.dims
        count = regions.type.dims[0]
        bounds = as_dtype(b, reshaped(b, regions, (count, 4)), dtype)  # branches know no constraints of sizes
        low, high = (
            [b(Slice((k,), (k + 1,), (1,), (1,)), bounds) for k in ends] for ends in ((1, 0), (3, 2))
        )
        (rows, row_weights), (columns, column_weights) = (
            self._build_taps(b, low[axis], high[axis], size, bins, dtype)
            for axis, (size, bins) in enumerate(zip(sizes, (self.height, self.width), strict=True))
        )
        height, width = rows.type.dims[1], columns.type.dims[1]
        index = self._build_index(b, images, rows, columns, sizes)
        flat = b(Transpose((0, 2, 1)), reshaped(b, x, (batch, channels, product(sizes))))
        pixels = as_dtype(
            b, b(Gather(0), reshaped(b, flat, (batch * product(sizes), channels)), index), dtype
        )
        weights = b(
            Mul(),
            reshaped(b, row_weights, (count, height, 1, 1)),
            reshaped(b, column_weights, (count, 1, width, 1)),
        )
        zero = b.const([0], dtype)
        products = b(Where(), b(Equal(), weights, zero), zero, b(Mul(), pixels, weights))
        bins = (self.height, 2 * self.points, self.width, 2 * self.points)
        products = reshaped(b, products, (count, *bins, channels))
        if self.mode == "max":
            pooled = b(ReduceMax((2, 4), keepdims=False), products)
        else:
            pooled = b(
                Div(), b(ReduceSum((2, 4), keepdims=False), products), b.const([self.points**2], dtype)
            )
        return as_dtype(b, b(Transpose((0, 3, 1, 2)), pooled), x.type.dtype)

    def _build_index(self, b: Builder, images: Value, rows: Value, columns: Value, sizes: list[Dim]) -> Value:
        """The indices of all taps among the pixels of all images: [R, rows, columns]."""
        count, height = rows.type.dims
        images = b(Min(), b(Max(), images, b.const([-_MAX_IMAGE], I64)), b.const([_MAX_IMAGE], I64))
        starts = reshaped(b, b(Mul(), images, size_value(b, product(sizes))), (count, 1, 1))
        index = b(Mul(), reshaped(b, rows, (count, height, 1)), size_value(b, sizes[1]))
        index = b(Add(), index, reshaped(b, columns, (count, 1, columns.type.dims[1])))
        flat: Value = b(Add(), index, starts)
        return flat

    def _build_taps(
        self, b: Builder, low: Value, high: Value, size: Dim, bins: int, dtype: DType
    ) -> tuple[Value, Value]:
        """The positions and weights of the taps of all regions along one axis: [R, bins * points * 2]."""
        count = low.type.dims[0]
        scale, shift = b.const([self.scale], dtype), b.const([0.5 * self.half_pixel], dtype)
        start, end = (b(Sub(), b(Mul(), bound, scale), shift) for bound in (low, high))
        length = b(Sub(), end, start)
        if not self.half_pixel:
            length = b(Max(), length, b.const([1], dtype))
        step = b(Div(), length, b.const([bins], dtype))
        total = bins * self.points
        samples, per_bin = b(Range((0, total, 1))), b.const([self.points], I64)
        order, within = (
            as_dtype(b, reshaped(b, b(op, samples, per_bin), (1, total)), dtype) for op in (Div(), Mod())
        )
        fractions = b(Add(), within, b.const([0.5], dtype))
        points = b(Add(), start, b(Mul(), order, step))
        points = b(Add(), points, b(Div(), b(Mul(), fractions, step), b.const([self.points], dtype)))
        inside = b(GreaterOrEqual(), points, b.const([-1], dtype))
        inside = b(And(), inside, b(LessOrEqual(), points, size_value(b, size, dtype)))
        points = b(Min(), b(Max(), points, b.const([0], dtype)), size_value(b, size - 1, dtype))
        positions, weights = build_taps(b, reshaped(b, points, (count, total, 1)), size, "linear", "border")
        weights = b(Where(), reshaped(b, inside, (count, total, 1)), weights, b.const([0], dtype))
        return reshaped(b, positions, (count, 2 * total)), reshaped(b, weights, (count, 2 * total))


def _points(bins: int, samples: int) -> tuple[Array, Array]:
    """The bin of each sample, and its position in the bin, in units of ``1 / samples`` of the bin: samples
    are at the centers of equal parts.
    """
    return np.repeat(np.arange(bins), samples), np.tile(np.arange(samples) + 0.5, bins)


def _import(default: str) -> Any:
    def convert(i: Importer) -> Any:
        coordinates = str(i.attr("coordinate_transformation_mode", default))
        if coordinates not in ("half_pixel", "output_half_pixel"):
            raise i.fail(
                f"coordinate_transformation_mode {coordinates!r} is not supported",
                hint="use half_pixel or output_half_pixel",
            )
        op = RoiAlign(
            int(i.attr("output_height", 1)),
            int(i.attr("output_width", 1)),
            int(i.attr("sampling_ratio", 0)),
            float(i.attr("spatial_scale", 1.0)),
            str(i.attr("mode", "avg")),
            coordinates == "half_pixel",
        )
        return i.emit(op, i.input(0), i.input(1), i.input(2))

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
    Sample(RoiAlign(), (_X, arg(F32, 3, 5), _IMAGES), "elements of a region: 5 and 4 differ"),
    Sample(RoiAlign(), (_X, arg(F32, 2, 4), _IMAGES), "regions and image indices: 2 and 3 differ"),
    Sample(RoiAlign(), (_X, _REGIONS, arg(I64, 3, 1)), "their ranks must be 4, 2 and 1"),
    Sample(RoiAlign(), (_X, arg(F64, 3, 4), _IMAGES), "operands of f32 and f64"),
    Sample(RoiAlign(0), (_X, _REGIONS, _IMAGES), "0 x 1 bins"),
    Sample(RoiAlign(mode="sum"), (_X, _REGIONS, _IMAGES), "mode 'sum'"),
)
