"""GridSample."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.op import Array, AtenImporter, Fact, Importer, Inference, InferError, Op, Sample, arg, op
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.symbols import Dim, product, symbol
from graphwright.ir.types import BF16, C64, F16, F32, F64, I32, I64, STRING, U8, DType, TensorType
from graphwright.ops.core.binary import Add, Mul, Sub
from graphwright.ops.core.cast import as_dtype
from graphwright.ops.core.checks import FLOATS, need_dtype, rank_of
from graphwright.ops.core.div import Div
from graphwright.ops.core.references import quiet, widened
from graphwright.ops.core.reshape import reshaped
from graphwright.ops.core.sampling import OFFSETS, PADDINGS, blend, build_blend, build_taps, size_value, taps
from graphwright.ops.core.slice import Slice
from graphwright.ops.core.transpose import Transpose
from graphwright.ops.nn.spatial import accumulator


@op("GridSample")
class GridSample(Op):
    """Samples x[N, C, D...] at the coordinates grid[N, D'..., r]: y[N, C, D'...] (Jaderberg et al. 2015).

    The r coordinates of a point are those of the spatial axes, the innermost axis first. They range from -1
    to 1: with ``aligned`` from the center of the first pixel to that of the last, else from edge to edge.
    ``mode`` is nearest (in ties the even position), linear or cubic; linear and cubic compute integers in
    f64. ``padding`` (zeros, border or reflection) defines pixels outside of the image.
    """

    mode: str = "linear"
    padding: str = "zeros"
    aligned: bool = False

    def verify(self) -> None:
        for name, value, allowed in (("mode", self.mode, OFFSETS), ("padding", self.padding, PADDINGS)):
            if value not in allowed:
                raise InferError(f"{name} {value!r} is not one of {', '.join(allowed)}")

    def infer(self, at: Inference, x: Fact, grid: Fact) -> TensorType:
        need_dtype(at, grid, FLOATS, "the grid")
        if x.dtype == STRING and self.mode != "nearest":
            raise at.fail(f"mode {self.mode} for {x.type}: strings support only mode nearest")
        if x.rank < 3 or grid.rank != x.rank:
            raise at.fail(
                f"the input is {x.type} and the grid {grid.type}: their ranks must be equal and at least 3"
            )
        at.equal(grid.shape[-1], x.rank - 2, "coordinates and spatial axes")
        at.equal(x.shape[0], grid.shape[0], "the batch")
        for axis, size in enumerate(x.shape[2:]):
            at.at_least(size, 1, f"spatial axis {axis}")
        return TensorType(x.dtype, (*x.shape[:2], *grid.shape[1:-1]))

    @quiet
    def reference(self, x: Array, grid: Array) -> Array:
        batch, channels, *sizes = x.shape
        points = widened(grid).reshape(batch, int(np.prod(grid.shape[1:-1])), len(sizes))
        sum_dtype = np.dtype(np.float64) if x.dtype.kind in "iub" else accumulator(x)
        rows = x.reshape(batch, channels, int(np.prod(sizes))).swapaxes(1, 2)
        if self.mode != "nearest":
            rows = rows.astype(sum_dtype)
        samples = [
            taps(self._coordinates(points[..., -1 - axis], size), size, self.mode, self.padding, self.aligned)
            for axis, size in enumerate(sizes)
        ]
        blended = blend(rows, samples, sizes).swapaxes(1, 2)
        return np.ascontiguousarray(blended.astype(x.dtype)).reshape(batch, channels, *grid.shape[1:-1])

    def _coordinates(self, points: Array, size: int) -> Array:
        """Maps [-1, 1] to positions: ``aligned`` to [0, size - 1], else to [-0.5, size - 0.5]."""
        kind = points.dtype.type
        if self.aligned:
            return np.asarray((points + 1) / 2 * kind(size - 1))
        return np.asarray(((points + 1) * kind(size) - 1) / 2)

    def decompose(self, b: Builder, x: Value, grid: Value) -> Value | None:
        """Gathers rows of channels, and sums them up; None for interpolated integers."""
        rank_of(x), rank_of(grid)
        if x.type.dtype == STRING or (self.mode != "nearest" and x.type.dtype not in FLOATS):
            return None
        batch, channels, *sizes = x.type.dims
        queries = product(grid.type.dims[1:-1])
        rank = len(sizes)
        points = reshaped(b, as_dtype(b, grid, grid.type.dtype.computed), (batch, queries, rank))
        columns = [b(Slice((k,), (k + 1,), (2,), (1,)), points) for k in reversed(range(rank))]
        samples = [
            build_taps(
                b, self._build_coordinates(b, column, size), size, self.mode, self.padding, self.aligned
            )
            for column, size in zip(columns, sizes, strict=True)
        ]
        rows = b(Transpose((0, 2, 1)), reshaped(b, x, (batch, channels, product(sizes))))
        blended = b(Transpose((0, 2, 1)), build_blend(b, rows, samples, sizes))
        return reshaped(b, as_dtype(b, blended, x.type.dtype), (batch, channels, *grid.type.dims[1:-1]))

    def _build_coordinates(self, b: Builder, points: Value, size: Dim) -> Value:
        """:meth:`_coordinates` as nodes."""
        dtype: DType = points.type.dtype
        one, two = b.const([1], dtype), b.const([2], dtype)
        shifted = b(Add(), points, one)
        if self.aligned:
            aligned: Value = b(Mul(), b(Div(), shifted, two), size_value(b, size - 1, dtype))
            return aligned
        unaligned: Value = b(Div(), b(Sub(), b(Mul(), shifted, size_value(b, size, dtype)), one), two)
        return unaligned


_OPSET_16_MODES = {"bilinear": "linear", "bicubic": "cubic"}
"""The names of modes in opset 16, and their names from opset 20 on."""


def _import(i: Importer) -> Any:
    mode = str(i.attr("mode", "linear"))
    op = GridSample(
        _OPSET_16_MODES.get(mode, mode),
        str(i.attr("padding_mode", "zeros")),
        bool(i.attr("align_corners", 0)),
    )
    return i.emit(op, i.input(0), i.input(1))


GridSample.onnx = {("GridSample", version): _import for version in (16, 20, 22)}
GridSample.to_onnx = as_onnx("GridSample", mode="mode", padding_mode="padding", align_corners="aligned")
_X, _GRID = arg(F32, 2, 3, 4, 5), arg(F32, 2, 3, 2, 2)
_N, _H, _W = symbol("N"), symbol("H"), symbol("W")
GridSample.samples = (
    *(Sample(GridSample(m, p, a), (_X, _GRID)) for m in OFFSETS for p in PADDINGS for a in (False, True)),
    *(Sample(GridSample(m), (arg(F32, 1, 2, 3, 4, 2), arg(F32, 1, 2, 3, 2, 3))) for m in OFFSETS),
    *(Sample(GridSample(), (arg(t, 1, 2, 4, 3), arg(t, 1, 5, 2, 2))) for t in (F64, F16, BF16)),
    *(Sample(GridSample("nearest"), (arg(t, 1, 2, 4, 3), arg(F32, 1, 5, 2, 2))) for t in (U8, I32, STRING)),
    Sample(GridSample(), (arg(U8, 1, 2, 4, 3), arg(F32, 1, 5, 2, 2, fill="unit"))),
    Sample(GridSample(), (arg(C64, 1, 2, 4, 3), arg(F32, 1, 5, 2, 2))),
    Sample(GridSample(), (arg(F32, 1, 2, 4, 3), arg(F16, 1, 5, 2, 2))),
    Sample(GridSample("linear", "reflection"), (arg(F32, _N, 3, _H, _W), arg(F32, _N, _H, 2, 2))),
    Sample(GridSample("cubic", "border"), (arg(F32, 1, 3, _H, _W), arg(F32, 1, 6, 6, 2))),
    Sample(GridSample("linear", "reflection", aligned=True), (arg(F32, 1, 1, 1, 3), arg(F32, 1, 4, 1, 2))),
    Sample(GridSample(), (arg(F32, 1, 2, 7), arg(F32, 1, 5, 1))),
    Sample(GridSample(), (_X, arg(F32, 2, 0, 2, 2))),
    Sample(GridSample("area"), (_X, _GRID), "mode 'area'"),
    Sample(GridSample(padding="zero"), (_X, _GRID), "padding 'zero'"),
    Sample(GridSample(), (_X, arg(F32, 2, 3, 2, 3)), "coordinates and spatial axes: 3 and 2 differ"),
    Sample(GridSample(), (_X, arg(F32, 1, 3, 2, 2)), "the batch: 2 and 1 differ"),
    Sample(GridSample(), (_X, arg(F32, 2, 3, 2)), "their ranks must be equal and at least 3"),
    Sample(GridSample(), (_X, arg(I64, 2, 3, 2, 2)), "the grid is i64"),
    Sample(GridSample(), (arg(STRING, 2, 3, 4, 5), _GRID), "only mode nearest"),
    Sample(GridSample(), (arg(F32, 2, 3, 0, 5), _GRID), "spatial axis 0: 0 is less than 1"),
)


def _aten_grid_sampler(i: AtenImporter) -> Any:
    modes, paddings = ("linear", "nearest", "cubic"), ("zeros", "border", "reflection")
    op = GridSample(
        modes[i.attr("interpolation_mode")], paddings[i.attr("padding_mode")], bool(i.attr("align_corners"))
    )
    return i.emit(op, i.input(0), i.input(1))


GridSample.aten = {"grid_sampler_2d": _aten_grid_sampler, "grid_sampler_3d": _aten_grid_sampler}
