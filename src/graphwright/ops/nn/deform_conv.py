"""DeformConv."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.op import Array, Fact, Importer, Inference, InferError, Op, Sample, arg, op
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.symbols import Dim, floordiv, product, symbol
from graphwright.ir.types import BF16, F16, F32, F64, I32, TensorType
from graphwright.ops.core.binary import Add, Mul
from graphwright.ops.core.cast import as_dtype
from graphwright.ops.core.checks import FLOATS, need_dtype, rank_of, same_dtype
from graphwright.ops.core.imports import without_trailing_none
from graphwright.ops.core.matmul import MatMul
from graphwright.ops.core.range import Range
from graphwright.ops.core.references import quiet
from graphwright.ops.core.reshape import reshaped
from graphwright.ops.core.sampling import blend, build_blend, build_taps, size_value, taps
from graphwright.ops.core.size_inference import number
from graphwright.ops.core.slice import Slice
from graphwright.ops.core.transpose import Transpose
from graphwright.ops.nn.spatial import (
    Windows,
    accumulator,
    need_bias,
    need_equal_ranks,
    need_groups,
    windows,
)


@op("DeformConv")
class DeformConv(Op):
    """Deformable convolution of x[N, C, D...] with w[M, C/group, K...] (Dai et al. 2017; Zhu et al. 2018).

    Operand 2, offset[N, G * K... * r, D'...], moves every tap along the r spatial axes, separately for each
    of G = ``offset_group`` groups of channels. The optional operands are bias[M] and mask[N, G * K...,
    D'...], which scales every tap. Pixels are interpolated linearly; those outside of the image are 0.
    """

    strides: tuple[int, ...] = ()
    pads: tuple[int, ...] = ()
    dilations: tuple[int, ...] = ()
    group: int = 1
    offset_group: int = 1
    kernel: tuple[int, ...] = ()
    """The spatial sizes that the weight must have; () allows any."""
    optional_inputs = frozenset({3, 4})

    def verify(self) -> None:
        if self.group < 1 or self.offset_group < 1:
            raise InferError(
                f"{self.group} groups and {self.offset_group} offset groups: both must be at least 1"
            )

    def windows(self, kernel: tuple[Dim, ...]) -> Windows:
        """The windows of the convolution, given the spatial sizes of the weight."""
        return windows(kernel, self.strides, self.dilations, self.pads)

    def infer(
        self,
        at: Inference,
        x: Fact,
        w: Fact,
        offset: Fact,
        bias: Fact | None = None,
        mask: Fact | None = None,
    ) -> TensorType:
        need_dtype(at, x, FLOATS)
        same_dtype(at, x, w, offset, *(fact for fact in (bias, mask) if fact is not None))
        need_equal_ranks(at, x, w)
        kernel, features, groups = w.shape[2:], w.shape[0], self.offset_group
        if len(self.kernel) not in (0, len(kernel)):
            raise at.fail(f"the kernel_shape is {list(self.kernel)}, but the weight is {w.type}")
        for axis, size in enumerate(self.kernel):
            at.equal(kernel[axis], size, f"the kernel size on spatial axis {axis}")
        for axis, dim in enumerate(x.shape[2:]):
            at.at_least(dim, 1, f"spatial axis {axis}")
        need_groups(at, x, w, self.group)
        at.divide(x.shape[1], groups, "channels of the input, for the offset groups")
        counts = self.windows(kernel).infer(at, x.shape[2:])
        taps = groups * product(kernel)
        for fact, channels, what in ((offset, taps * len(kernel), "offset"), (mask, taps, "mask")):
            if fact is None:
                continue
            wanted = (x.shape[0], channels, *counts)
            if fact.rank != len(wanted):
                raise at.fail(f"the {what} is {fact.type}; it must have {len(wanted)} axes")
            for axis, (have, want) in enumerate(zip(fact.shape, wanted, strict=True)):
                at.equal(have, want, f"axis {axis} of the {what}")
        need_bias(at, bias, features)
        return TensorType(x.dtype, (x.shape[0], features, *counts))

    @quiet
    def reference(
        self, x: Array, w: Array, offset: Array, bias: Array | None = None, mask: Array | None = None
    ) -> Array:
        shape, dtype = self.windows(w.shape[2:]), accumulator(x)
        counts = tuple(number(n) for n in shape.counts(x.shape[2:]))
        batch, channels, *sizes = x.shape
        count, length, groups = int(np.prod(w.shape[2:])), int(np.prod(counts)), self.offset_group
        offsets = offset.astype(dtype).reshape(batch * groups, count, shape.rank, *counts)
        samples = []
        for axis, size in enumerate(sizes):
            points = offsets[:, :, axis] + self._positions(shape, axis, counts).astype(dtype)
            samples.append(taps(points.reshape(batch * groups, count * length), size, "linear"))
        depth = channels // groups
        rows = x.astype(dtype).reshape(batch * groups, depth, int(np.prod(sizes))).swapaxes(1, 2)
        columns = blend(rows, samples, sizes)
        if mask is not None:
            columns = columns * mask.astype(dtype).reshape(batch * groups, count * length, 1)
        columns = columns.swapaxes(1, 2).reshape(batch, self.group, w.shape[1] * count, length)
        weights = w.astype(dtype).reshape(self.group, w.shape[0] // self.group, w.shape[1] * count)
        out = np.matmul(weights, columns).reshape(batch, w.shape[0], *counts)
        if bias is not None:
            out = out + bias.astype(dtype).reshape(-1, *[1] * len(counts))
        return np.asarray(out, dtype=x.dtype)

    @staticmethod
    def _positions(shape: Windows, axis: int, counts: tuple[int, ...]) -> Array:
        """The position on ``axis`` of every tap of every window, without offsets: [taps, counts...]."""
        starts = np.arange(counts[axis]) * shape.strides[axis] - number(shape.pads[axis])
        steps = np.array([position[axis] * shape.dilations[axis] for position in shape.positions()])
        dims = [1] * len(counts)
        dims[axis] = counts[axis]
        return np.asarray(steps.reshape(-1, *[1] * len(counts)) + starts.reshape(1, *dims))

    def decompose(
        self,
        b: Builder,
        x: Value,
        w: Value,
        offset: Value,
        bias: Value | None = None,
        mask: Value | None = None,
    ) -> Value | None:
        """An im2col matrix of interpolated pixels, and a matrix multiplication; None for a symbolic kernel
        size.
        """
        rank_of(x), rank_of(offset)
        if rank_of(w) < 3 or not all(isinstance(size, int) for size in w.type.dims[2:]):
            return None
        shape, dtype = self.windows(w.type.dims[2:]), x.type.dtype.computed
        counts = shape.counts(x.type.dims[2:])
        batch = x.type.dims[0]
        features, depth, *_ = w.type.dims
        count, length = product(shape.kernel), product(counts)
        columns = self._build_columns(b, x, offset, mask, shape, counts)
        columns = reshaped(b, b(Transpose((0, 2, 1)), columns), (batch, self.group, depth * count, length))
        per_feature = floordiv(features, self.group)
        weights = reshaped(b, as_dtype(b, w, dtype), (self.group, per_feature, depth * count))
        out = reshaped(b, b(MatMul(), weights, columns), (batch, features, *counts))
        if bias is not None:
            out = b(Add(), out, reshaped(b, as_dtype(b, bias, dtype), (features, *(1,) * len(counts))))
        return as_dtype(b, out, x.type.dtype)

    def _build_columns(
        self, b: Builder, x: Value, offset: Value, mask: Value | None, shape: Windows, counts: tuple[Dim, ...]
    ) -> Value:
        """The interpolated pixels of all taps, times the mask: [N * G, K... * D'..., C / G]."""
        dtype, groups = x.type.dtype.computed, self.offset_group
        batch, channels, *sizes = x.type.dims
        images, samples_per_image = batch * groups, product(shape.kernel) * product(counts)
        offsets = reshaped(
            b, as_dtype(b, offset, dtype), (images, product(shape.kernel), shape.rank, *counts)
        )
        samples = []
        for axis, size in enumerate(sizes):
            points = b(Slice((axis,), (axis + 1,), (2,), (1,)), offsets)
            for steps in self._build_positions(b, shape, axis, counts):
                points = b(Add(), points, as_dtype(b, steps, dtype))
            samples.append(build_taps(b, reshaped(b, points, (images, samples_per_image, 1)), size, "linear"))
        rows = reshaped(b, as_dtype(b, x, dtype), (images, floordiv(channels, groups), product(sizes)))
        columns = build_blend(b, b(Transpose((0, 2, 1)), rows), samples, sizes)
        if mask is None:
            return columns
        scaled: Value = b(
            Mul(), columns, reshaped(b, as_dtype(b, mask, dtype), (images, samples_per_image, 1))
        )
        return scaled

    @staticmethod
    def _build_positions(b: Builder, shape: Windows, axis: int, counts: tuple[Dim, ...]) -> list[Value]:
        """The two summands of :meth:`_positions`, with an axis of size 1 after that of the taps."""
        steps = [position[axis] * shape.dilations[axis] for position in shape.positions()]
        step_values = b.const(np.array(steps, np.int64).reshape(1, -1, 1, *[1] * len(counts)))
        starts = b(Mul(), b(Range((0, counts[axis], 1))), size_value(b, shape.strides[axis]))
        starts = b(Add(), starts, size_value(b, -shape.pads[axis]))
        dims: list[Dim] = [1] * len(counts)
        dims[axis] = counts[axis]
        return [reshaped(b, starts, (1, 1, 1, *dims)), step_values]


def _import(i: Importer) -> Any:
    strides, pads, dilations = (tuple(i.attr(name, ())) for name in ("strides", "pads", "dilations"))
    op = DeformConv(
        strides,
        pads,
        dilations,
        i.attr("group", 1),
        i.attr("offset_group", 1),
        tuple(i.attr("kernel_shape", ())),
    )
    operands = [i.input(0), i.input(1), i.input(2), i.optional(3), i.optional(4)]
    return i.emit(op, *without_trailing_none(operands))


DeformConv.onnx = {("DeformConv", 19): _import, ("DeformConv", 22): _import}
DeformConv.to_onnx = as_onnx(
    "DeformConv",
    strides="strides",
    pads="pads",
    dilations="dilations",
    group="group",
    offset_group="offset_group",
    kernel_shape="kernel",
)
_N, _H = symbol("N"), symbol("H")
_X, _W, _OFFSET = arg(F32, 2, 4, 5, 4), arg(F32, 6, 4, 3, 2), arg(F32, 2, 12, 3, 3)
_MASK, _BIAS = arg(F32, 2, 6, 3, 3), arg(F32, 6)
DeformConv.samples = (
    Sample(DeformConv(), (_X, _W, _OFFSET)),
    Sample(DeformConv(kernel=(3, 2)), (_X, _W, _OFFSET, _BIAS, _MASK)),
    Sample(DeformConv(), (_X, _W, _OFFSET, None, _MASK)),
    Sample(DeformConv((2, 1), (1, 0, 0, 2), (1, 2)), (_X, _W, arg(F32, 2, 12, 2, 4), _BIAS)),
    Sample(
        DeformConv(group=2, offset_group=2),
        (_X, arg(F32, 6, 2, 3, 2), arg(F32, 2, 24, 3, 3), _BIAS, arg(F32, 2, 12, 3, 3)),
    ),
    Sample(DeformConv(offset_group=4), (_X, _W, arg(F32, 2, 48, 3, 3))),
    Sample(DeformConv(), (arg(F32, 1, 2, 6), arg(F32, 3, 2, 3), arg(F32, 1, 3, 4))),
    Sample(DeformConv(), (arg(F32, 1, 2, 3, 3, 3), arg(F32, 3, 2, 2, 2, 2), arg(F32, 1, 24, 2, 2, 2))),
    *(
        Sample(DeformConv(), (arg(t, 1, 2, 4, 4), arg(t, 2, 2, 2, 2), arg(t, 1, 8, 3, 3), arg(t, 2)))
        for t in (F64, F16, BF16)
    ),
    Sample(
        DeformConv(pads=(1, 1, 1, 1)),
        (arg(F32, _N, 3, _H, 4), arg(F32, 5, 3, 3, 3), arg(F32, _N, 18, _H, 4), arg(F32, 5)),
    ),
    Sample(DeformConv(), (_X, _W, arg(F32, 2, 12, 3, 2)), "axis 3 of the offset: 2 and 3 differ"),
    Sample(DeformConv(), (_X, _W, _OFFSET, None, arg(F32, 2, 5, 3, 3)), "axis 1 of the mask: 5 and 6 differ"),
    Sample(DeformConv(), (_X, _W, _OFFSET, arg(F32, 5)), "bias and features: 5 and 6 differ"),
    Sample(DeformConv(kernel=(3, 3)), (_X, _W, _OFFSET), "the kernel size on spatial axis 1"),
    Sample(DeformConv(offset_group=3), (_X, _W, _OFFSET), "for the offset groups: 4 is not a multiple of 3"),
    Sample(DeformConv(group=0), (_X, _W, _OFFSET), "0 groups"),
    Sample(DeformConv(), (_X, _W, arg(F32, 2, 12, 3)), "it must have 4 axes"),
    Sample(DeformConv(), (_X, _W, arg(F16, 2, 12, 3, 3)), "operands of f32 and f16"),
    Sample(DeformConv(), (arg(I32, 2, 4, 5, 4), _W, _OFFSET), "the input is i32"),
)
