"""MaxUnpool."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.op import Array, Fact, Importer, Inference, Op, Sample, UnknownRank, arg, op
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.symbols import Dim, product, symbol
from graphwright.ir.types import BF16, F16, F32, F64, I32, I64, TensorType
from graphwright.ops.core.checks import FLOATS, need_dtype, rank_of
from graphwright.ops.core.constant_of_shape import ConstantOfShape
from graphwright.ops.core.reshape import reshaped
from graphwright.ops.core.scatter_elements import ScatterElements
from graphwright.ops.core.size_inference import known_dims, number
from graphwright.ops.nn.spatial import windows
from graphwright.records import replace


@op("MaxUnpool")
class MaxUnpool(Op):
    """The partial inverse of MaxPool: writes every element of x[N, C, D...] to its index in the flattened
    result.

    Operand 1 are the indices, in the shape of ``x``. All other elements are 0; of equal indices, the last one
    counts. The shape of the result is ``shape``, or the optional operand 2, or else the input shape for which
    MaxPool with the other attributes returns the shape of ``x``.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...] = ()
    pads: tuple[int, ...] = ()
    shape: tuple[Dim, ...] | None = None

    def fold_operands(
        self, x: Fact, indices: Fact, shape: Fact | None = None
    ) -> tuple[Op, tuple[int, ...]] | None:
        dims = known_dims(shape)
        return None if self.shape is not None or dims is None else (replace(self, shape=dims), (0, 1))

    def infer(self, at: Inference, x: Fact, indices: Fact, shape: Fact | None = None) -> TensorType:
        need_dtype(at, x, FLOATS)
        need_dtype(at, indices, {I64}, "the index tensor")
        if shape is not None:
            raise UnknownRank
        if x.rank != len(self.kernel) + 2 or indices.rank != x.rank:
            raise at.fail(
                f"the input is {x.type} and the indices {indices.type}; for a kernel of {list(self.kernel)} "
                f"both must have rank {len(self.kernel) + 2}"
            )
        for axis, (have, wanted) in enumerate(zip(indices.shape, x.shape, strict=True)):
            at.equal(have, wanted, f"axis {axis} of the indices")
        windows(self.kernel, self.strides, (), self.pads).check(at)
        sizes = self._sizes(x.shape)
        if len(sizes) != x.rank:
            raise at.fail(f"the output shape is {list(sizes)}; it must have the rank of the input, {x.type}")
        for axis, size in enumerate(sizes):
            at.at_least(size, 0, f"axis {axis} of the result")
        return TensorType(x.dtype, sizes)

    def _sizes(self, dims: tuple[Dim, ...]) -> tuple[Dim, ...]:
        if self.shape is not None:
            return self.shape
        pooling, rank = windows(self.kernel, self.strides, (), self.pads), len(self.kernel)
        return (
            *dims[:2],
            *(
                (dim - 1) * pooling.strides[k] + pooling.kernel[k] - pooling.pads[k] - pooling.pads[k + rank]
                for k, dim in enumerate(dims[2:])
            ),
        )

    def reference(self, x: Array, indices: Array) -> Array:
        sizes = [number(size) for size in self._sizes(x.shape)]
        out = np.zeros(int(np.prod(sizes)), x.dtype)
        out[indices.ravel()] = x.ravel()
        return out.reshape(sizes)

    def decompose(self, b: Builder, x: Value, indices: Value, shape: Value | None = None) -> Value | None:
        rank_of(x)
        if shape is not None:
            return None
        sizes = self._sizes(x.type.dims)
        zeros = b(ConstantOfShape(0.0, x.type.dtype, (product(sizes),)))
        count = x.type.elements
        flat = b(ScatterElements(0), zeros, reshaped(b, indices, (count,)), reshaped(b, x, (count,)))
        return reshaped(b, flat, sizes)


def _import(i: Importer) -> Any:
    op = MaxUnpool(
        tuple(i.required_attr("kernel_shape")), tuple(i.attr("strides", ())), tuple(i.attr("pads", ()))
    )
    shape = i.optional(2)
    return i.emit(op, i.input(0), i.input(1), *([] if shape is None else [shape]))


MaxUnpool.onnx = {("MaxUnpool", version): _import for version in (9, 11, 22)}
MaxUnpool.to_onnx = as_onnx(
    "MaxUnpool", operand="shape", kernel_shape="kernel", strides="strides", pads="pads"
)
_X, _INDICES = arg(F32, 1, 2, 2, 2), arg(I64, 1, 2, 2, 2, values=(5, 7, 13, 15, 16, 18, 25, 31))
MaxUnpool.samples = (
    *(Sample(MaxUnpool((2, 2), (2, 2)), (arg(t, 1, 2, 2, 2), _INDICES)) for t in (F32, F64, F16, BF16)),
    Sample(MaxUnpool((3, 3), (2, 2), (1, 0, 0, 1), (1, 2, 5, 5)), (_X, _INDICES)),
    Sample(MaxUnpool((3, 3), (2, 2), (0, 1, 1, 0)), (_X, _INDICES)),
    Sample(MaxUnpool((2, 2), (2, 2)), (_X, _INDICES, arg(I64, 4, values=(1, 2, 5, 4)))),
    Sample(MaxUnpool((2,), (2,)), (arg(F32, symbol("N"), 3, 4), arg(I64, symbol("N"), 3, 4, fill="index"))),
    Sample(MaxUnpool((2, 2), (2, 2)), (_X, arg(I64, 1, 2, 2, 1)), "axis 3 of the indices: 1 and 2 differ"),
    Sample(MaxUnpool((2,)), (_X, _INDICES), "both must have rank 3"),
    Sample(MaxUnpool((2, 2), shape=(4, 4)), (_X, _INDICES), "the output shape is [4, 4]"),
    Sample(MaxUnpool((2, 2), (1,)), (_X, _INDICES), "1 strides for 2 spatial axes"),
    Sample(MaxUnpool((2, 2)), (arg(I32, 1, 2, 2, 2), _INDICES), "the input is i32"),
)
