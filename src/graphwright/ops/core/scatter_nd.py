"""ScatterND."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op import Array, AtenImporter, Fact, Importer, Inference, Op, Sample, arg, op
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.symbols import symbol
from graphwright.ir.types import BOOL, F32, I64, TensorType
from graphwright.ops.core.checks import need_dtype, rank_of, same_dtype
from graphwright.ops.core.expand import Expand
from graphwright.ops.core.gather import INDICES
from graphwright.ops.core.gather_nd import first_new_axis, index_depth, indexed_axes, need_index_tuples
from graphwright.ops.core.references import quiet
from graphwright.ops.core.scatter_elements import REDUCTIONS, check_reduction, scattered, write_slices
from graphwright.ops.core.transpose import Transpose
from graphwright.ops.core.unsqueeze import Unsqueeze
from graphwright.ops.core.where import Where


@op("ScatterND")
class ScatterND(Op):
    """A copy of ``x`` with slices replaced by ``updates``: one slice for each index tuple, the last axis of
    the indices (see GatherND).

    A ``reduction`` (add, mul, max or min) combines the old slice with the update.
    """

    reduction: str = "none"

    def verify(self) -> None:
        check_reduction(self.reduction)

    def infer(self, at: Inference, x: Fact, indices: Fact, updates: Fact) -> TensorType:
        need_dtype(at, indices, INDICES, "the index tensor")
        dtype = same_dtype(at, x, updates)
        depth = index_depth(at, indices, x.rank)
        wanted = (*indices.shape[:-1], *x.shape[depth:])
        if updates.rank != len(wanted):
            raise at.fail(
                f"updates of rank {updates.rank}; for these indices their rank must be {len(wanted)}"
            )
        for axis, (a, b) in enumerate(zip(wanted, updates.shape, strict=True)):
            at.equal(a, b, f"axis {axis} of the updates")
        return TensorType(dtype, x.shape)

    @quiet
    def reference(self, x: Array, indices: Array, updates: Array) -> Array:
        need_index_tuples(indices)
        return scattered(x, tuple(np.moveaxis(indices, -1, 0)), updates, self.reduction)


def _import(i: Importer) -> object:
    return i.emit(ScatterND(i.attr("reduction", "none")), i.input(0), i.input(1), i.input(2))


ScatterND.onnx = {("ScatterND", 11): _import}
ScatterND.to_onnx = as_onnx("ScatterND", reduction="reduction")
_ROWS = arg(I64, 2, 1, values=(1, -1))
ScatterND.samples = (
    Sample(ScatterND(), (arg(F32, 4, 3), _ROWS, arg(F32, 2, 3))),
    Sample(ScatterND(), (arg(F32, 4, symbol("N")), _ROWS, arg(F32, 2, symbol("N")))),
    Sample(ScatterND(), (arg(F32, 4, 3), arg(I64, 1, 2, 2, values=(0, 1, 2, 2)), arg(F32, 1, 2))),
    *(
        Sample(ScatterND(reduction), (arg(F32, 3), arg(I64, 3, 1, values=(1, 1, 0)), arg(F32, 3)))
        for reduction in REDUCTIONS
    ),
    Sample(ScatterND(), (arg(F32, 4, 3), _ROWS, arg(F32, 2, 4)), "axis 1 of the updates: 3 and 4 differ"),
    Sample(ScatterND(), (arg(F32, 4, 3), _ROWS, arg(F32, 2)), "for these indices their rank must be 2"),
    Sample(ScatterND("sum"), (arg(F32, 4, 3), _ROWS, arg(F32, 2, 3)), "reduction 'sum'"),
)


def _aten_index_put(i: AtenImporter) -> Any:
    """``x[indices] = values``, or ``+=`` with ``accumulate``. The values are broadcast to the shape of
    ``x[indices]``, in which the axes of the index tensors replace the indexed axes if these are adjacent, and
    come first otherwise.
    """
    x, indices, reduction = i.input(0), i.listed(1), "add" if i.attr("accumulate") else "none"
    given = [index for index in indices if index is not None]
    values = i.result(i.input(2))
    if len(given) == 1 and given[0].type.dtype == BOOL and not values.type.rank and reduction == "none":
        return _masked_fill(i, x, indices, given[0], values)
    if len(given) == 1 and given[0].type.rank == 1 and given[0].type.dtype in INDICES:
        return _broadcast_to_slices(i, x, len(indices) - 1, given[0], values, reduction)
    tuples, axes = indexed_axes(i, indices)
    rest = [axis for axis in range(rank_of(x)) if axis not in axes]
    new, whole = list(tuples.type.dims[:-1]), [x.type.dims[axis] for axis in rest]
    first = first_new_axis(axes)
    broadcast = i.emit(Expand((*whole[:first], *new, *whole[first:])), values)
    end = first + len(new)
    new_axes_first = (*range(first, end), *range(first), *range(end, len(new) + len(whole)))
    indexed_axes_first = (*axes, *rest)
    updates = i.emit(Transpose(new_axes_first), broadcast)
    scattered = i.emit(ScatterND(reduction), i.emit(Transpose(indexed_axes_first), x), tuples, updates)
    return i.emit(Transpose(tuple(map(int, np.argsort(indexed_axes_first)))), scattered)


def _masked_fill(
    i: AtenImporter, x: Value, indices: Sequence[Value | None], mask: Value, number: Value
) -> Any:
    """``number`` where ``mask`` is true, else ``x``. The mask indexes as many axes as it has."""
    trailing = rank_of(x) - (len(indices) - 1) - rank_of(mask)
    axes = tuple(range(rank_of(mask), rank_of(mask) + trailing))
    return i.emit(Where(), i.emit(Unsqueeze(axes), mask) if axes else mask, number, x)


def _broadcast_to_slices(
    i: AtenImporter, x: Value, axis: int, positions: Value, values: Value, reduction: str
) -> Any:
    """Broadcasts ``values`` to slices along ``axis``, and writes them at a vector of positions."""
    dims = x.type.dims
    slices = i.emit(Expand((*dims[:axis], positions.type.dims[0], *dims[axis + 1 :])), values)
    return write_slices(i, x, axis, positions, slices, reduction)


ScatterND.aten = {"index_put": _aten_index_put}
