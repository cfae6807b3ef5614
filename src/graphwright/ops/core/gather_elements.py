"""GatherElements."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.op import Array, AtenImporter, Fact, Inference, Op, Sample, arg, op
from graphwright.ir.symbols import symbol
from graphwright.ir.types import F32, I64, TensorType
from graphwright.ops.core.cast import Cast
from graphwright.ops.core.checks import need_dtype, rank_of
from graphwright.ops.core.gather import INDICES, check_bounds, exported_with_axis, require_sign
from graphwright.ops.core.reshape import reshaped


@op("GatherElements")
class GatherElements(Op):
    """Each index selects one element along ``axis``: for ``axis`` 1, ``out[i, j, k] = x[i, indices[i, j, k],
    k]``.

    ``x`` and the indices have the same rank. On the other axes the indices may be shorter than ``x``.
    Negative indices count from the end; without ``from_end`` they are errors.
    """

    axis: int = 0
    from_end: bool = True

    def infer(self, at: Inference, x: Fact, indices: Fact) -> TensorType:
        need_dtype(at, indices, INDICES, "the index tensor")
        check_elements(at, x, indices, self.axis, self.from_end)
        return TensorType(x.dtype, indices.shape)

    def reference(self, x: Array, indices: Array) -> Array:
        require_sign(indices, self.from_end)
        return x[element_index(x, indices, self.axis)]


def check_elements(at: Inference, x: Fact, indices: Fact, axis: int, from_end: bool) -> None:
    """Raises InferError if the indices have another rank than ``x``, a larger size on another axis than
    ``axis``, or a known value out of bounds.
    """
    if indices.rank != x.rank or x.rank == 0:
        raise at.fail(
            f"data of rank {x.rank}, indices of rank {indices.rank}: the ranks must be equal, and at least 1"
        )
    axis = at.axis(axis, x.rank)
    check_bounds(at, indices, x.shape[axis], axis, from_end)
    for k, (size, bound) in enumerate(zip(indices.shape, x.shape, strict=True)):
        if k != axis:
            at.at_most(size, bound, f"axis {k} of the indices and of the data")


def element_index(x: Array, indices: Array, axis: int) -> tuple[Array, ...]:
    """NumPy indices of the selected elements: ``indices`` on ``axis``, the element's own position on other
    axes.
    """
    positions: list[Array] = list(np.ogrid[tuple(slice(size) for size in indices.shape)])
    positions[axis] = indices
    return tuple(positions)


GatherElements.onnx = {
    ("GatherElements", 11): lambda i: i.emit(GatherElements(i.attr("axis", 0)), i.input(0), i.input(1))
}
GatherElements.to_onnx = exported_with_axis("GatherElements")
GatherElements.samples = (
    Sample(GatherElements(1), (arg(F32, 2, 3), arg(I64, 2, 2, values=(0, -1, 2, 1)))),
    Sample(GatherElements(0), (arg(F32, 4, symbol("N")), arg(I64, 2, symbol("N"), fill="index"))),
    Sample(GatherElements(0), (arg(F32, 4), arg(I64, 6, fill="index"))),
    Sample(GatherElements(0, from_end=False), (arg(F32, 4), arg(I64, 3, values=(3, 0, 1)))),
    Sample(
        GatherElements(0, from_end=False), (arg(F32, 4), arg(I64, 1, values=(-4,))), "index -4 is outside"
    ),
    Sample(GatherElements(0), (arg(F32, 4, 2), arg(I64, 6, fill="index")), "indices of rank 1"),
    Sample(
        GatherElements(0),
        (arg(F32, 4, 2), arg(I64, 1, 3, fill="index")),
        "of the indices and of the data: 3 is more than 2",
    ),
    Sample(GatherElements(0), (arg(F32, 4), arg(I64, 1, values=(4,))), "index 4 is outside"),
)


def _aten_gather(i: AtenImporter) -> Any:
    """PyTorch allows scalars, and treats them as vectors of one element."""
    i.ignore("sparse_grad")
    x, indices = i.input(0), i.input(2)
    if indices.type.dtype not in INDICES:
        indices = i.emit(Cast(I64), indices)
    if rank_of(x) and rank_of(indices):
        return i.emit(GatherElements(i.attr("dim"), from_end=False), x, indices)
    i.ignore("dim")
    vector, positions = (reshaped(i.builder, each, (each.type.elements,)) for each in (x, indices))
    return reshaped(
        i.builder, i.emit(GatherElements(0, from_end=False), vector, positions), indices.type.dims
    )


GatherElements.aten = {"gather": _aten_gather}
