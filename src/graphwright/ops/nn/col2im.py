"""Col2Im."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.op import Array, Fact, Importer, Inference, Op, Sample, UnknownRank, arg, op
from graphwright.ir.op.exporter import Exporter
from graphwright.ir.symbols import Dim, floordiv, product, symbol
from graphwright.ir.types import BF16, BOOL, C64, F16, F32, I32, I64, STRING, U8, TensorType
from graphwright.ops.core.binary import Add, Mul
from graphwright.ops.core.cast import as_dtype
from graphwright.ops.core.checks import NUMBERS, rank_of
from graphwright.ops.core.constant_of_shape import ConstantOfShape
from graphwright.ops.core.range import Range
from graphwright.ops.core.reshape import reshaped
from graphwright.ops.core.sampling import size_value
from graphwright.ops.core.scatter_nd import ScatterND
from graphwright.ops.core.size_inference import known_dims, number
from graphwright.ops.core.slice import Slice
from graphwright.ops.core.transpose import Transpose
from graphwright.ops.nn.spatial import Windows, accumulator, tap, windows
from graphwright.records import replace


@op("Col2Im")
class Col2Im(Op):
    """Sums the blocks of x[N, C * block..., L] into images y[N, C, image...], as
    ``torch.nn.functional.fold``.

    The L blocks are those of sliding windows over the padded image, in row-major order; overlapping elements
    are added. If ``image`` and ``block`` are None, operands 1 and 2 are these sizes.
    """

    image: tuple[Dim, ...] | None = None
    block: tuple[Dim, ...] | None = None
    strides: tuple[int, ...] = ()
    pads: tuple[Dim, ...] = ()
    dilations: tuple[int, ...] = ()

    @property
    def windows(self) -> Windows:
        return windows(self.block or (), self.strides, self.dilations, self.pads)

    def fold_operands(
        self, x: Fact, image: Fact | None = None, block: Fact | None = None
    ) -> tuple[Op, tuple[int, ...]] | None:
        sizes, kernel = known_dims(image), known_dims(block)
        if self.image is not None or sizes is None or kernel is None:
            return None
        return replace(self, image=sizes, block=kernel), (0,)

    def infer(self, at: Inference, x: Fact, *sizes: Fact) -> TensorType:
        if x.dtype == STRING:
            raise at.fail(f"the input is {x.type}; strings cannot be added")
        if self.image is None or self.block is None:
            raise UnknownRank
        if x.rank != 3 or len(self.image) != len(self.block) or not self.image:
            raise at.fail(
                f"the input is {x.type}, the image {list(self.image)} and the block {list(self.block)}: the "
                "input must have 3 axes, and the block one size for each axis of the image"
            )
        counts = self.windows.infer(at, self.image)
        channels = at.divide(x.shape[1], product(self.block), f"axis 1 for blocks of {list(self.block)}")
        at.equal(product(counts), x.shape[2], f"{' x '.join(map(str, counts))} blocks and axis 2")
        return TensorType(x.dtype, (x.shape[0], channels, *self.image))

    def reference(self, x: Array) -> Array:
        shape, image = self.windows, [number(size) for size in self.image or ()]
        counts = tuple(number(n) for n in shape.counts(image))
        kernel = [number(size) for size in shape.kernel]
        blocks = x.reshape(len(x), x.shape[1] // int(np.prod(kernel)), *kernel, *counts)
        begins, ends = shape.pads[: shape.rank], shape.pads[shape.rank :]
        full = [number(b) + n + number(e) for b, n, e in zip(begins, image, ends, strict=True)]
        out = np.zeros((*blocks.shape[:2], *full), accumulator(x))
        for position in shape.positions():
            at: tuple[Any, ...] = (slice(None), slice(None), *position)
            out[shape.elements_of_tap(position, counts)] += blocks[at]
        kept = tap([slice(number(b), number(b) + n) for b, n in zip(begins, image, strict=True)])
        return np.array(out[kept], dtype=x.dtype, order="C")

    def decompose(self, b: Builder, x: Value, *sizes: Value) -> Value | None:
        """ScatterND with addition: each row holds one pixel of all channels. None for complex numbers and
        bools.
        """
        rank_of(x)
        if self.image is None or x.type.dtype not in NUMBERS:
            return None
        shape, dtype = self.windows, x.type.dtype
        counts, elements = shape.counts(self.image), product(shape.kernel)
        batch, count, length = x.type.dims
        channels = floordiv(count, elements)
        begins, ends = shape.pads[: shape.rank], shape.pads[shape.rank :]
        full = [begin + n + end for begin, n, end in zip(begins, self.image, ends, strict=True)]
        rows = reshaped(b, as_dtype(b, x, dtype.computed), (batch * channels, elements * length))
        rows = b(Transpose((1, 0)), rows)
        positions = reshaped(b, self._positions(b, counts, full), (elements * length, 1))
        zeros = b(ConstantOfShape(0, dtype.computed, (product(full), batch * channels)))
        summed = b(Transpose((1, 0)), b(ScatterND("add"), zeros, positions, rows))
        out = reshaped(b, as_dtype(b, summed, dtype), (batch, channels, *full))
        if full != list(self.image):
            stops = tuple(begin + n for begin, n in zip(begins, self.image, strict=True))
            axes = tuple(range(2, 2 + shape.rank))
            out = b(Slice(tuple(begins), stops, axes, (1,) * shape.rank), out)
        return out

    def _positions(self, b: Builder, counts: tuple[Dim, ...], full: list[Dim]) -> Value:
        """The positions of all elements of all blocks in the flattened padded image: i64[block...,
        counts...].
        """
        shape = self.windows
        total: Value | None = None
        for axis in range(2 * shape.rank):
            k = axis % shape.rank
            size, step = (
                (shape.kernel[k], shape.dilations[k]) if axis < shape.rank else (counts[k], shape.strides[k])
            )
            scale = size_value(b, step * product(full[k + 1 :]))
            steps = b(Mul(), b(Range((0, size, 1))), scale)
            steps = reshaped(b, steps, (*(1,) * axis, size, *(1,) * (2 * shape.rank - axis - 1)))
            total = steps if total is None else b(Add(), total, steps)
        assert total is not None
        return total


def _import(i: Importer) -> Any:
    lists = (tuple(i.attr(name, ())) for name in ("strides", "pads", "dilations"))
    return i.emit(Col2Im(None, None, *lists), i.input(0), i.input(1), i.input(2))


def _export(e: Exporter, op: Col2Im, x: Value, *sizes: Value) -> Any:
    known = [e.sizes(dims) for dims in (op.image, op.block) if dims is not None]
    return e.emit("Col2Im", x, *(known or sizes), strides=op.strides, pads=op.pads, dilations=op.dilations)


Col2Im.to_onnx = _export
Col2Im.onnx = {("Col2Im", 18): _import}
_X = arg(F32, 2, 12, 6)
Col2Im.samples = (
    *(Sample(Col2Im((4, 3), (2, 2)), (arg(t, 2, 12, 6),)) for t in (F32, F16, BF16, I32, U8, BOOL, C64)),
    Sample(Col2Im((5, 5), (2, 3), (2, 1), (1, 0, 0, 2), (1, 2)), (arg(F32, 1, 6, 9),)),
    Sample(Col2Im((2, 3, 4), (1, 2, 2)), (arg(F32, 1, 8, 12),)),
    Sample(Col2Im((7,), (3,)), (arg(F32, 1, 6, 5),)),
    Sample(Col2Im((4, 3), (2, 2)), (arg(F32, symbol("N"), 4, 6),)),
    Sample(Col2Im(), (_X, arg(I64, 2, values=(4, 3)), arg(I64, 2, values=(2, 2)))),
    Sample(Col2Im((4, 3), (2, 2)), (arg(F32, 0, 12, 6),)),
    Sample(Col2Im((4, 4), (2, 2)), (_X,), "3 x 3 blocks and axis 2: 9 and 6 differ"),
    Sample(Col2Im((4, 3), (2, 5)), (_X,), "but a window spans 5"),
    Sample(Col2Im((2, 7), (5, 1), pads=(3, 0, 0, 0)), (arg(F32, 1, 12, 7),), "axis 1 for blocks of [5, 1]"),
    Sample(Col2Im((4, 3), (2,)), (_X,), "one size for each axis of the image"),
    Sample(Col2Im((4, 3), (2, 2), (1,)), (_X,), "1 strides for 2 spatial axes"),
    Sample(Col2Im((4, 3), (2, 2)), (arg(STRING, 2, 12, 6),), "strings cannot be added"),
)
