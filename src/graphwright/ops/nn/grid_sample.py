"""GridSample."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.exporter import as_onnx
from graphwright.ir.graph import Value
from graphwright.ir.op import Array, AtenImporter, Fact, Importer, Inference, InferError, Op, Sample, arg, op
from graphwright.ir.symbols import Dim, product, symbol
from graphwright.ir.types import BF16, C64, F16, F32, F64, I32, I64, STRING, U8, DType, TensorType
from graphwright.ops.core.binary import Add, Div, Mul, Sub
from graphwright.ops.core.common import FLOATS, need_dtype, quiet, rank_of, widened
from graphwright.ops.core.sampling import (
    OFFSETS,
    PADDINGS,
    as_dtype,
    blend,
    build_blend,
    build_taps,
    reshaped,
    size_value,
    taps,
    wide,
)
from graphwright.ops.core.slice import Slice
from graphwright.ops.core.transpose import Transpose
from graphwright.ops.nn.spatial import accumulator


@op("GridSample")
class GridSample(Op):
    """x[N, C, D...] read at the coordinates grid[N, D'..., r]: y[N, C, D'...].

    A coordinate goes from -1 to 1 over its axis, the innermost axis first; with ``aligned`` between the
    centres of the outer elements, else between their outer edges. ``mode`` is nearest (halves go to even
    ones), linear or cubic, of which the last two compute integers as floats; ``padding`` says what lies
    outside.
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
            raise at.fail(f"{self.mode} of {x.type}: strings can only be taken by mode nearest")
        if x.rank < 3 or grid.rank != x.rank:
            raise at.fail(
                f"an input of {x.type} and a grid of {grid.type}: their ranks must be equal and at least 3"
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
        blended = np.dtype(np.float64) if x.dtype.kind in "iub" else accumulator(x)
        rows = x.reshape(batch, channels, int(np.prod(sizes))).swapaxes(1, 2)
        if self.mode != "nearest":
            rows = rows.astype(blended)
        reads = [
            taps(self._coordinates(points[..., -1 - axis], size), size, self.mode, self.padding, self.aligned)
            for axis, size in enumerate(sizes)
        ]
        read = blend(rows, reads, sizes).swapaxes(1, 2)
        return np.ascontiguousarray(read.astype(x.dtype)).reshape(batch, channels, *grid.shape[1:-1])

    def _coordinates(self, points: Array, size: int) -> Array:
        """From -1 to 1 as from the first to the last element, or half an element beyond."""
        kind = points.dtype.type
        if self.aligned:
            return np.asarray((points + 1) / 2 * kind(size - 1))
        return np.asarray(((points + 1) * kind(size) - 1) / 2)

    def decompose(self, b: Builder, x: Value, grid: Value) -> Value | None:
        """Rows of channels, gathered; None for integers that are blended."""
        rank_of(x), rank_of(grid)
        if x.type.dtype == STRING or (self.mode != "nearest" and x.type.dtype not in FLOATS):
            return None
        batch, channels, *sizes = x.type.dims
        queries = product(grid.type.dims[1:-1])
        rank = len(sizes)
        points = reshaped(b, as_dtype(b, grid, wide(grid.type.dtype)), batch, queries, rank)
        columns = [b(Slice((k,), (k + 1,), (2,), (1,)), points) for k in reversed(range(rank))]
        reads = [
            build_taps(
                b, self._build_coordinates(b, column, size), size, self.mode, self.padding, self.aligned
            )
            for column, size in zip(columns, sizes, strict=True)
        ]
        rows = b(Transpose((0, 2, 1)), reshaped(b, x, batch, channels, product(sizes)))
        read = b(Transpose((0, 2, 1)), build_blend(b, rows, reads, sizes))
        return reshaped(b, as_dtype(b, read, x.type.dtype), batch, channels, *grid.type.dims[1:-1])

    def _build_coordinates(self, b: Builder, points: Value, size: Dim) -> Value:
        dtype: DType = points.type.dtype
        one, two = b.const([1], dtype), b.const([2], dtype)
        moved = b(Add(), points, one)
        if self.aligned:
            made: Value = b(Mul(), b(Div(), moved, two), size_value(b, size - 1, dtype))
            return made
        made = b(Div(), b(Sub(), b(Mul(), moved, size_value(b, size, dtype)), one), two)
        return made


_RENAMED = {"bilinear": "linear", "bicubic": "cubic"}
"""Modes of opset 16."""


def _import(i: Importer) -> Any:
    mode = str(i.attr("mode", "linear"))
    made = GridSample(
        _RENAMED.get(mode, mode), str(i.attr("padding_mode", "zeros")), bool(i.attr("align_corners", 0))
    )
    return i.emit(made, i.input(0), i.input(1))


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
    Sample(GridSample("linear", "reflection", True), (arg(F32, 1, 1, 1, 3), arg(F32, 1, 4, 1, 2))),
    Sample(GridSample(), (arg(F32, 1, 2, 7), arg(F32, 1, 5, 1))),
    Sample(GridSample(), (_X, arg(F32, 2, 0, 2, 2))),
    Sample(GridSample("area"), (_X, _GRID), "mode 'area'"),
    Sample(GridSample(padding="zero"), (_X, _GRID), "padding 'zero'"),
    Sample(GridSample(), (_X, arg(F32, 2, 3, 2, 3)), "coordinates and spatial axes: 3 and 2 differ"),
    Sample(GridSample(), (_X, arg(F32, 1, 3, 2, 2)), "the batch: 2 and 1 differ"),
    Sample(GridSample(), (_X, arg(F32, 2, 3, 2)), "their ranks must be equal and at least 3"),
    Sample(GridSample(), (_X, arg(I64, 2, 3, 2, 2)), "the grid is i64"),
    Sample(GridSample(), (arg(STRING, 2, 3, 4, 5), _GRID), "mode nearest"),
    Sample(GridSample(), (arg(F32, 2, 3, 0, 5), _GRID), "spatial axis 0: 0 is less than 1"),
)


def _sampled(i: AtenImporter) -> Any:
    modes, paddings = ("linear", "nearest", "cubic"), ("zeros", "border", "reflection")
    made = GridSample(
        modes[i.attr("interpolation_mode")], paddings[i.attr("padding_mode")], bool(i.attr("align_corners"))
    )
    return i.emit(made, i.input(0), i.input(1))


GridSample.aten = {"grid_sampler_2d": _sampled, "grid_sampler_3d": _sampled}
