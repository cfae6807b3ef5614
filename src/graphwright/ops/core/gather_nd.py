"""GatherND."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op import Array, AtenImporter, Fact, Inference, Op, Sample, UnknownRank, arg, op
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.symbols import symbol
from graphwright.ir.types import BOOL, F32, I64, TensorType
from graphwright.ops.core.binary import Add, Mul
from graphwright.ops.core.cast import as_dtype
from graphwright.ops.core.checks import need_dtype, rank_of
from graphwright.ops.core.concat import Concat
from graphwright.ops.core.expand import Expand
from graphwright.ops.core.gather import INDICES, Gather
from graphwright.ops.core.non_zero import NonZero
from graphwright.ops.core.transpose import Transpose
from graphwright.ops.core.unsqueeze import Unsqueeze


@op("GatherND")
class GatherND(Op):
    """The slices of ``x`` at multi-dimensional indices: the last axis of the indices holds one index tuple.

    The first ``batch_dims`` axes of both operands are batch axes, which must agree. A tuple indexes the axes
    of ``x`` that follow them.
    """

    batch_dims: int = 0

    def infer(self, at: Inference, x: Fact, indices: Fact) -> TensorType:
        need_dtype(at, indices, INDICES, "the index tensor")
        batch = self.batch_dims
        if not 0 <= batch < max(1, min(x.rank, indices.rank)):
            raise at.fail(
                f"batch_dims is {batch} for ranks {x.rank} and {indices.rank}; it must be less than both"
            )
        depth = index_depth(at, indices, x.rank - batch)
        for axis in range(batch):
            at.equal(x.shape[axis], indices.shape[axis], f"batch axis {axis}")
        return TensorType(x.dtype, (*indices.shape[:-1], *x.shape[batch + depth :]))

    def reference(self, x: Array, indices: Array) -> Array:
        batch = self.batch_dims
        need_index_tuples(indices)
        if x.shape[:batch] != indices.shape[:batch]:
            raise ValueError(f"batch axes {list(x.shape[:batch])} and {list(indices.shape[:batch])} differ")
        grid = np.ogrid[tuple(slice(size) for size in indices.shape[:-1])][:batch]
        return np.asarray(x[(*grid, *np.moveaxis(indices, -1, 0))], dtype=x.dtype)


def need_index_tuples(indices: Array) -> None:
    """Raises ValueError if the index tuples of ``indices`` are empty."""
    if not indices.shape[-1]:
        raise ValueError("the last axis of the indices is empty; it must hold at least one index")


def index_depth(at: Inference, indices: Fact, rank: int) -> int:
    """The number of axes that an index tuple of ``indices`` indexes, 1 to ``rank``. Raises UnknownRank if it
    is symbolic.
    """
    depth = indices.shape[-1] if indices.rank else 0
    if not isinstance(depth, int):
        raise UnknownRank
    if not 1 <= depth <= rank:
        raise at.fail(f"index tuples of {depth} elements for {rank} axes: they must have 1 to {rank}")
    return depth


GatherND.onnx = {
    ("GatherND", 11): lambda i: i.emit(GatherND(i.attr("batch_dims", 0)), i.input(0), i.input(1))
}
GatherND.to_onnx = as_onnx("GatherND", batch_dims="batch_dims")
GatherND.samples = (
    Sample(GatherND(), (arg(F32, 3, 4), arg(I64, 2, 2, values=(0, 1, -1, -2)))),
    Sample(GatherND(), (arg(F32, 3, 4, 2), arg(I64, symbol("N"), 1, fill="index"))),
    Sample(GatherND(1), (arg(F32, 2, 3, 4), arg(I64, 2, 5, 1, fill="index"))),
    Sample(GatherND(1), (arg(F32, 2, 3), arg(I64, 2, 1, fill="index"))),
    Sample(
        GatherND(), (arg(F32, 3, 4), arg(I64, 2, 3, fill="index")), "index tuples of 3 elements for 2 axes"
    ),
    Sample(GatherND(1), (arg(F32, 3, 4), arg(I64, 2, 1, fill="index")), "batch axis 0: 3 and 2 differ"),
    Sample(GatherND(2), (arg(F32, 3, 4), arg(I64, 2, 1, fill="index")), "batch_dims is 2"),
)


def indexed_axes(i: AtenImporter, indices: Sequence[Value | None]) -> tuple[Value, list[int]]:
    """PyTorch's index tensors (None selects a whole axis) as GatherND's index tuples, and the axes that they
    index.
    """
    per_axis = [expanded for index in indices for expanded in _expand_mask(i, index)]
    given = [index for index in per_axis if index is not None]
    columns = [i.emit(Unsqueeze((-1,)), index) for index in _broadcast(i, given)]
    axes = [axis for axis, index in enumerate(per_axis) if index is not None]
    return i.emit(Concat(-1), *columns), axes


def first_new_axis(axes: list[int]) -> int:
    """The first of the axes that replace the indexed ``axes``: these come first unless they are adjacent."""
    return axes[0] if axes == list(range(axes[0], axes[-1] + 1)) else 0


def _expand_mask(i: AtenImporter, index: Value | None) -> list[Value | None]:
    """``index`` itself if it holds integers; for a bool mask, the indices of its true elements on
    each axis.
    """
    if index is None or index.type.dtype in INDICES:
        return [index]
    if index.type.dtype != BOOL or not rank_of(index):
        raise i.fail(f"indices of {index.type} are not supported")
    found = i.emit(NonZero(), index)
    return [i.emit(Gather(0), found, i.const(np.array(axis))) for axis in range(rank_of(index))]


def _broadcast(i: AtenImporter, indices: Sequence[Value]) -> list[Value]:
    """The index tensors as i64, broadcast to one shape."""
    same = [as_dtype(i.builder, index, I64) for index in indices]
    if len({index.type for index in same}) == 1:
        return same
    zero = i.const(np.zeros((), np.int64))
    zeros = zero
    for index in same:
        zeros = i.emit(Add(), zeros, i.emit(Mul(), index, zero))
    return [i.emit(Add(), zeros, index) for index in same]


def _aten_masked_select(i: AtenImporter) -> Any:
    x, mask = i.input(0), i.input(1)
    if mask.type.dims != x.type.dims:
        mask = i.emit(Expand(x.type.dims), mask)
        x = i.emit(Expand(mask.type.dims), x)
    return _index(i, x, [mask])


def _index(i: AtenImporter, x: Value, indices: Sequence[Value | None]) -> Any:
    """``x[indices]``, as advanced indexing in NumPy: the axes of the index tensors replace the indexed axes
    if these are adjacent; otherwise they come first.
    """
    tuples, axes = indexed_axes(i, indices)
    rest = [axis for axis in range(rank_of(x)) if axis not in axes]
    gathered = i.emit(GatherND(), i.emit(Transpose((*axes, *rest)), x), tuples)
    new = rank_of(tuples) - 1
    first = first_new_axis(axes)
    order = (*range(new, new + first), *range(new), *range(new + first, new + len(rest)))
    return i.emit(Transpose(order), gathered)


GatherND.aten = {
    "index.Tensor": lambda i: _index(i, i.input(0), i.listed(1)),
    "masked_select": _aten_masked_select,
}
