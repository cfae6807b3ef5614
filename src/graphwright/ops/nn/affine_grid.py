"""AffineGrid."""

from __future__ import annotations

from collections.abc import Sequence, Set
from math import prod
from typing import Any

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.interfaces.bounded_form import BoundedForm
from graphwright.ir.op import Array, Fact, Importer, Inference, Op, Sample, arg, op
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.symbols import Dim, symbol
from graphwright.ir.types import F32, I64, TensorType
from graphwright.ops.core.binary import Add, Max, Min, Mul, Sub
from graphwright.ops.core.bind_size import bind_symbols
from graphwright.ops.core.cast import Cast
from graphwright.ops.core.checks import FLOATS, need_dtype
from graphwright.ops.core.div import Div
from graphwright.ops.core.gather import Gather
from graphwright.ops.core.range import Range
from graphwright.ops.core.reshape import reshaped
from graphwright.ops.core.shape import Shape
from graphwright.ops.core.size_inference import known_dims, known_parts, number


@op("AffineGrid")
class AffineGrid(BoundedForm, Op):
    """The sampling grid of affine transformations (Jaderberg et al. 2015), as GridSample reads it: [N, D...,
    rank].

    ``size`` (operand 1 if None) is the output shape [N, C, D...] with 2 or 3 spatial axes. Operand 0, [N,
    rank, rank + 1], holds the transformation matrix of each image. Coordinates run from -1 to 1: between the
    edges of the image, or with ``align_corners`` between the centers of the first and the last pixel. With
    ``align_corners``, the coordinate on an axis of size 1 is 1, as in ONNX Runtime; the formula in ONNX's
    specification gives 0 / 0.
    """

    align_corners: bool = False
    size: tuple[Dim, ...] | None = None

    def fold_operands(self, theta: Fact, size: Fact | None = None) -> tuple[Op, tuple[int, ...]] | None:
        known = known_dims(size)
        return (
            None if self.size is not None or known is None else (AffineGrid(self.align_corners, known), (0,))
        )

    def infer(self, at: Inference, theta: Fact, size: Fact | None = None) -> TensorType:
        need_dtype(at, theta, FLOATS, "the matrices")
        parts = known_parts(size) if self.size is None else self.size
        axes = len(parts) - 2
        if axes not in (2, 3):
            raise at.fail(f"the size has {len(parts)} elements; it must be N, C and 2 or 3 spatial sizes")
        if theta.rank != 3:
            raise at.fail(f"the matrices are {theta.type}; they must be [N, {axes}, {axes + 1}]")
        dims = tuple(at.symbols.fresh("grid") if part is None else part for part in parts)
        for dim, wanted, name in zip(
            theta.shape, (dims[0], axes, axes + 1), ("images", "rows", "columns"), strict=True
        ):
            at.equal(dim, wanted, f"{name} of the matrices")
        return TensorType(theta.dtype, (dims[0], *dims[2:], axes))

    def bounded_form(
        self, b: Builder, gives: Sequence[TensorType], defined: Set[str], *inputs: Value
    ) -> Value | None:
        """Binds the sizes to the elements of operand 1."""
        if len(inputs) != 2 or gives[0].shape is None:
            return None
        images, *spatial, _ = gives[0].dims
        size = (images, 1, *spatial)
        bind_symbols(b, size, range(len(size)), inputs[1], defined)
        grid: Value = b(AffineGrid(self.align_corners, size), inputs[0])
        return grid

    def reference(self, theta: Array) -> Array:
        sizes = [number(dim) for dim in (self.size or ())[2:]]
        coordinates = (self._coordinates(size).astype(theta.dtype) for size in sizes)
        mesh = np.meshgrid(*coordinates, indexing="ij")
        points = np.stack([*mesh[::-1], np.ones(sizes, theta.dtype)], -1).reshape(prod(sizes), len(sizes) + 1)
        grid = points @ theta.swapaxes(1, 2)
        return np.asarray(grid.reshape(len(theta), *sizes, len(sizes)))

    def _coordinates(self, size: int) -> Array:
        """The coordinates of the pixels along an axis."""
        points = 2 * np.arange(size, dtype=np.float64)
        if self.align_corners:
            return points / (size - 1) - 1 if size > 1 else points + 1
        return (points + 1) / max(size, 1) - 1

    def decompose(self, b: Builder, theta: Value, size: Value | None = None) -> Value | None:
        """For each axis, its coordinates times a column of the matrices; these are added to the
        last column.
        """
        if self.size is None:
            return None
        spatial = self.size[2:]
        rank, dtype = len(spatial), theta.type.dtype

        def column(k: int) -> Value:
            vectors = b(Gather(2), theta, b.const(k, I64))
            return reshaped(b, vectors, (theta.type.dims[0], *(1,) * rank, rank))

        total = column(rank)
        for k, dim in enumerate(spatial):
            shape = (1, *(dim if j == k else 1 for j in range(rank)), 1)
            coordinates = b(Cast(dtype), reshaped(b, self._build_coordinates(b, dim), shape))
            total = b(Add(), total, b(Mul(), column(rank - 1 - k), coordinates))
        return total

    def _build_coordinates(self, b: Builder, dim: Dim) -> Value:
        """:meth:`_coordinates` as nodes, in f32."""
        indices = b(Range((0, dim, 1)))
        doubled = b(Mul(), b(Cast(F32), indices), b.const(2.0, F32))
        count = b(Cast(F32), b(Shape(0, 1), indices))
        if self.align_corners:
            last = b(Sub(), count, b.const(1.0, F32))
            first = b(
                Sub(), b.const(1.0, F32), b(Mul(), b(Min(), last, b.const(1.0, F32)), b.const(2.0, F32))
            )
            aligned: Value = b(Add(), b(Div(), doubled, b(Max(), last, b.const(1.0, F32))), first)
            return aligned
        centers: Value = b(Sub(), b(Div(), b(Add(), doubled, b.const(1.0, F32)), count), b.const(1.0, F32))
        return centers


def _import(i: Importer) -> Any:
    return i.emit(AffineGrid(bool(i.attr("align_corners", 0))), i.input(0), i.input(1))


AffineGrid.onnx = {("AffineGrid", 20): _import}
AffineGrid.to_onnx = as_onnx("AffineGrid", operand="size", align_corners="align_corners")
_N = symbol("N")
AffineGrid.samples = (
    *(Sample(AffineGrid(align, (2, 3, 4, 5)), (arg(F32, 2, 2, 3),)) for align in (False, True)),
    *(Sample(AffineGrid(align, (_N, 1, 4, 5)), (arg(F32, _N, 2, 3),)) for align in (False, True)),
    Sample(AffineGrid(align_corners=True, size=(1, 1, 1, 3, 2)), (arg(F32, 1, 3, 4),)),
    Sample(AffineGrid(), (arg(F32, 1, 2, 3), arg(I64, 4, values=(1, 1, 2, 3)))),
    Sample(AffineGrid(align_corners=False, size=(2, 3, 0, 5)), (arg(F32, 2, 2, 3),)),
    Sample(AffineGrid(align_corners=False, size=(2, 3, 4)), (arg(F32, 2, 2, 3),), "the size has 3 elements"),
    Sample(AffineGrid(align_corners=False, size=(2, 3, 4, 5)), (arg(F32, 2, 6),), r"they must be [N, 2, 3]"),
    Sample(
        AffineGrid(align_corners=False, size=(2, 3, 4, 5)),
        (arg(F32, 2, 2, 4),),
        "columns of the matrices: 4 and 3 differ",
    ),
)
