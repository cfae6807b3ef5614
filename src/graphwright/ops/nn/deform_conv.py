"""DeformConv."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.exporter import as_onnx
from graphwright.ir.graph import Value
from graphwright.ir.op import Array, Fact, Importer, Inference, InferError, Op, Sample, arg, op
from graphwright.ir.symbols import Dim, floordiv, product, symbol
from graphwright.ir.types import BF16, F16, F32, F64, I32, TensorType
from graphwright.ops.core.binary import Add, Mul
from graphwright.ops.core.common import FLOATS, need_dtype, quiet, rank_of, same_dtype
from graphwright.ops.core.matmul import MatMul
from graphwright.ops.core.range import Range
from graphwright.ops.core.sampling import (
    as_dtype,
    blend,
    build_blend,
    build_taps,
    reshaped,
    size_value,
    taps,
    wide,
)
from graphwright.ops.core.shaping import number
from graphwright.ops.core.slice import Slice
from graphwright.ops.core.transpose import Transpose
from graphwright.ops.nn.spatial import (
    Windows,
    accumulator,
    need_alike_ranks,
    need_bias,
    need_groups,
    windows,
)


@op("DeformConv")
class DeformConv(Op):
    """Conv of x[N, C, D...] with w[M, C/group, K...] whose taps move (Dai et al. 2017; Zhu et al. 2018).

    offset[N, G * K... * r, D'...] moves every tap along the r axes, for each of G groups of channels;
    bias[M]; mask[N, G * K..., D'...] scales every tap. Reads are linear; what lies outside is 0.
    """

    strides: tuple[int, ...] = ()
    pads: tuple[int, ...] = ()
    dilations: tuple[int, ...] = ()
    group: int = 1
    offset_group: int = 1
    kernel: tuple[int, ...] = ()
    """Sizes that the weight must have; () is any."""
    optional_inputs = frozenset({3, 4})

    def verify(self) -> None:
        if self.group < 1 or self.offset_group < 1:
            raise InferError(f"{self.group} groups, {self.offset_group} of offsets: at least 1 is needed")

    def windows(self, kernel: tuple[Dim, ...]) -> Windows:
        """The geometry, given the weight's spatial sizes."""
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
        need_alike_ranks(at, x, w)
        kernel, features, groups = w.shape[2:], w.shape[0], self.offset_group
        if len(self.kernel) not in (0, len(kernel)):
            raise at.fail(f"a kernel of {list(self.kernel)} for a weight of {w.type}")
        for axis, size in enumerate(self.kernel):
            at.equal(kernel[axis], size, f"the kernel's size along spatial axis {axis}")
        for axis, dim in enumerate(x.shape[2:]):
            at.at_least(dim, 1, f"spatial axis {axis}")
        need_groups(at, x, w, self.group)
        at.equal(floordiv(x.shape[1], groups) * groups, x.shape[1], f"channels in {groups} groups of offsets")
        counts = self.windows(kernel).infer(at, x.shape[2:])
        taken = groups * product(kernel)
        for fact, channels, what in ((offset, taken * len(kernel), "offset"), (mask, taken, "mask")):
            if fact is None:
                continue
            wanted = (x.shape[0], channels, *counts)
            if fact.rank != len(wanted):
                raise at.fail(f"the {what} is {fact.type}; it needs {len(wanted)} axes")
            for axis, (have, want) in enumerate(zip(fact.shape, wanted, strict=True)):
                at.equal(have, want, f"axis {axis} of the {what}")
        need_bias(at, bias, features)
        return TensorType(x.dtype, (x.shape[0], features, *counts))

    @quiet
    def reference(
        self, x: Array, w: Array, offset: Array, bias: Array | None = None, mask: Array | None = None
    ) -> Array:
        shape, real = self.windows(w.shape[2:]), accumulator(x)
        counts = tuple(number(n) for n in shape.counts(x.shape[2:]))
        batch, channels, *sizes = x.shape
        count, length, groups = int(np.prod(w.shape[2:])), int(np.prod(counts)), self.offset_group
        moved = offset.astype(real).reshape(batch * groups, count, shape.rank, *counts)
        reads = []
        for axis, size in enumerate(sizes):
            points = moved[:, :, axis] + self._positions(shape, axis, counts).astype(real)
            reads.append(taps(points.reshape(batch * groups, count * length), size, "linear"))
        depth = channels // groups
        rows = x.astype(real).reshape(batch * groups, depth, int(np.prod(sizes))).swapaxes(1, 2)
        columns = blend(rows, reads, sizes)
        if mask is not None:
            columns = columns * mask.astype(real).reshape(batch * groups, count * length, 1)
        columns = columns.swapaxes(1, 2).reshape(batch, self.group, w.shape[1] * count, length)
        weights = w.astype(real).reshape(self.group, w.shape[0] // self.group, w.shape[1] * count)
        out = np.matmul(weights, columns).reshape(batch, w.shape[0], *counts)
        if bias is not None:
            out = out + bias.astype(real).reshape(-1, *[1] * len(counts))
        return np.asarray(out, dtype=x.dtype)

    @staticmethod
    def _positions(shape: Windows, axis: int, counts: tuple[int, ...]) -> Array:
        """Where every tap of every window lies along ``axis``, without offsets: [taps, counts...]."""
        places = np.arange(counts[axis]) * shape.strides[axis] - number(shape.pads[axis])
        shifts = np.array([position[axis] * shape.dilations[axis] for position in shape.positions()])
        lone = [1] * len(counts)
        lone[axis] = counts[axis]
        return np.asarray(shifts.reshape(-1, *[1] * len(counts)) + places.reshape(1, *lone))

    def decompose(
        self,
        b: Builder,
        x: Value,
        w: Value,
        offset: Value,
        bias: Value | None = None,
        mask: Value | None = None,
    ) -> Value | None:
        """Columns of reads, as an unfolded convolution has them, and a product of matrices."""
        rank_of(x), rank_of(offset)
        if rank_of(w) < 3 or not all(isinstance(size, int) for size in w.type.dims[2:]):
            return None
        shape, dtype = self.windows(w.type.dims[2:]), wide(x.type.dtype)
        counts = shape.counts(x.type.dims[2:])
        batch, channels, *sizes = x.type.dims
        features, depth, *_ = w.type.dims
        count, length, groups = product(shape.kernel), product(counts), self.offset_group
        images = batch * groups
        moved = reshaped(b, as_dtype(b, offset, dtype), images, count, shape.rank, *counts)
        reads = []
        for axis, size in enumerate(sizes):
            points = b(Slice((axis,), (axis + 1,), (2,), (1,)), moved)
            for steps in self._build_positions(b, shape, axis, counts):
                points = b(Add(), points, as_dtype(b, steps, dtype))
            reads.append(build_taps(b, reshaped(b, points, images, count * length, 1), size, "linear"))
        per_group = floordiv(channels, groups)
        rows = reshaped(b, as_dtype(b, x, dtype), images, per_group, product(sizes))
        columns = build_blend(b, b(Transpose((0, 2, 1)), rows), reads, sizes)
        if mask is not None:
            scales = reshaped(b, as_dtype(b, mask, dtype), images, count * length, 1)
            columns = b(Mul(), columns, scales)
        columns = reshaped(b, b(Transpose((0, 2, 1)), columns), batch, self.group, depth * count, length)
        per_feature = floordiv(features, self.group)
        weights = reshaped(b, as_dtype(b, w, dtype), self.group, per_feature, depth * count)
        out = reshaped(b, b(MatMul(), weights, columns), batch, features, *counts)
        if bias is not None:
            out = b(Add(), out, reshaped(b, as_dtype(b, bias, dtype), features, *(1,) * len(counts)))
        return as_dtype(b, out, x.type.dtype)

    @staticmethod
    def _build_positions(b: Builder, shape: Windows, axis: int, counts: tuple[Dim, ...]) -> list[Value]:
        """The two summands of :meth:`_positions`, with an axis of size 1 behind the taps."""
        shifts = [position[axis] * shape.dilations[axis] for position in shape.positions()]
        taken = b.const(np.array(shifts, np.int64).reshape(1, -1, 1, *[1] * len(counts)))
        places = b(Mul(), b(Range((0, counts[axis], 1))), size_value(b, shape.strides[axis]))
        places = b(Add(), places, size_value(b, -shape.pads[axis]))
        lone: list[Dim] = [1] * len(counts)
        lone[axis] = counts[axis]
        return [reshaped(b, places, 1, 1, 1, *lone), taken]


def _import(i: Importer) -> Any:
    strides, pads, dilations = (tuple(i.attr(name, ())) for name in ("strides", "pads", "dilations"))
    made = DeformConv(
        strides,
        pads,
        dilations,
        i.attr("group", 1),
        i.attr("offset_group", 1),
        tuple(i.attr("kernel_shape", ())),
    )
    operands = [i.input(0), i.input(1), i.input(2), i.optional(3), i.optional(4)]
    while operands[-1] is None:
        operands.pop()
    return i.emit(made, *operands)


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
    Sample(DeformConv(kernel=(3, 3)), (_X, _W, _OFFSET), "the kernel's size along spatial axis 1"),
    Sample(DeformConv(offset_group=3), (_X, _W, _OFFSET), "channels in 3 groups of offsets"),
    Sample(DeformConv(group=0), (_X, _W, _OFFSET), "0 groups"),
    Sample(DeformConv(), (_X, _W, arg(F32, 2, 12, 3)), "it needs 4 axes"),
    Sample(DeformConv(), (_X, _W, arg(F16, 2, 12, 3, 3)), "operands of f32 and f16"),
    Sample(DeformConv(), (arg(I32, 2, 4, 5, 4), _W, _OFFSET), "the input is i32"),
)
